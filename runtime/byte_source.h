#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "compiler/support/diagnostic.h"

namespace astatide::runtime {

/// The bytes of a tensor file, on disk or in memory, with the checks that every reader needs.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }

  /// Fills `to` from byte `offset` on. Throws UserError when the file ends before `offset + to.size()`.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  std::string read_text(std::uint64_t offset, std::uint64_t length) const;

  /// A UserError about this file: "byte 10: header length 4000 …".
  [[noreturn]] void fail(std::uint64_t offset, const std::string& message, std::vector<std::string> notes = {}) const;

 protected:
  ByteSource(std::string name, std::uint64_t size) : name_(std::move(name)), size_(size) {}

 private:
  virtual void fetch(std::uint64_t offset, std::span<std::byte> to) const = 0;

  std::string name_;
  std::uint64_t size_;
};

/// Throws UserError when `path` isn't a regular file that can be read.
std::unique_ptr<ByteSource> open_file(const std::string& path);
/// `bytes` outlive the source.
std::unique_ptr<ByteSource> view_memory(std::span<const std::byte> bytes, std::string name);

/// Writes `bytes` beside `path` and renames them into place. Throws UserError when that fails; nothing is left then.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);

/// Text from a file for a message: quoted, cut to 60 bytes, everything but printable ASCII escaped.
std::string quote_for_message(std::string_view text);

}  // namespace astatide::runtime
