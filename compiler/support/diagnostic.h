#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/visibility.h"

namespace ASTATIDE_PUBLIC astatide {

/// A place in a file that a user wrote. Lines and columns count from 1; 0 means unknown. `file` may name an argument
/// ("--shape").
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
  /// The text of that line, shown under the message with a caret; empty when unknown.
  std::string text;

  friend bool operator==(const Location&, const Location&) = default;
};

/// One problem: where, what with the number and the limit, and notes with what to try.
struct Diagnostic {
  Location where;
  std::string message;
  std::vector<std::string> notes;
};

/// "FILE:LINE:COLUMN: error: MESSAGE", the line with a caret, and the notes.
std::string format_diagnostic(const Diagnostic& diagnostic, std::string_view severity = "error");

/// "file:line:column", or as much of it as is known.
std::string format_location(const Location& where);

/// The user's input is wrong (exit code 2). Holds all problems that were found, not only the first.
class UserError : public std::runtime_error {
 public:
  explicit UserError(std::vector<Diagnostic> diagnostics);
  UserError(Location where, std::string message, std::vector<std::string> notes = {});
  explicit UserError(std::string message, std::vector<std::string> notes = {});

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// The machine lacks something that the request needs: no device, no NVRTC, no memory (exit code 3).
class MachineError : public UserError {
 public:
  using UserError::UserError;
};

/// A fault of ours (exit code 4). Never reachable from a file or an argument.
class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& message) : std::logic_error("internal error: " + message) {}
};

/// Collects the problems of one input, so that all of them are reported at once.
class Diagnostics {
 public:
  Diagnostic& error(Location where, std::string message, std::vector<std::string> notes = {});
  bool empty() const { return problems_.empty(); }
  std::size_t size() const { return problems_.size(); }
  const std::vector<Diagnostic>& problems() const { return problems_; }
  /// Throws UserError with everything collected, in order of place; does nothing when there is none.
  void throw_if_any() const;

 private:
  std::vector<Diagnostic> problems_;
};

/// The candidate nearest to `word` by edit distance, or empty when none is near (more than a third of its letters
/// away).
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

/// The words of a list in a message.
std::string join(const std::vector<std::string>& words, const std::string& between = ", ");

}  // namespace astatide
