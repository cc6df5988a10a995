#include <new>
#include <system_error>

#include "api/c_calls.h"
#include "api/c_handles.h"

namespace astatide {
namespace {

/// Given where there is no memory left for an error of its own: made without any, nobody's to change or destroy.
constinit AstatideError no_memory{ASTATIDE_STATUS_MACHINE, "out of memory", {}};

AstatideError::Problem problem_of(const Diagnostic& diagnostic) {
  const Location& where = diagnostic.where;
  return {where.file, where.line, where.column, diagnostic.message, join(diagnostic.notes, "\n")};
}

AstatideError error_of(AstatideStatus status, const UserError& error) {
  AstatideError out{status, error.what(), {}};
  for (const Diagnostic& diagnostic : error.diagnostics()) out.problems.push_back(problem_of(diagnostic));
  return out;
}

AstatideError fault(const std::string& text) { return {ASTATIDE_STATUS_INTERNAL, text, {{"", 0, 0, text, ""}}}; }

AstatideError describe_exception() {
  try {
    throw;
  } catch (const MachineError& error) {
    return error_of(ASTATIDE_STATUS_MACHINE, error);
  } catch (const UserError& error) {
    return error_of(ASTATIDE_STATUS_USER, error);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::system_error& error) {
    // No thread, or no file, of which the system has no more.
    return error_of(ASTATIDE_STATUS_MACHINE, MachineError(error.what()));
  } catch (const std::exception& error) {
    return fault(error.what());
  } catch (...) {
    return fault("an exception of no known type");
  }
}

}  // namespace

AstatideStatus keep_exception(AstatideError** error) noexcept {
  try {
    AstatideError described = describe_exception();
    const AstatideStatus status = described.status;
    if (error != nullptr) *error = new AstatideError(std::move(described));
    return status;
  } catch (...) {
    if (error != nullptr) *error = &no_memory;
    return ASTATIDE_STATUS_MACHINE;
  }
}

void check_struct_size(const char* name, std::size_t given, std::size_t own) {
  if (given == own) return;
  throw UserError(std::string(name) + " says struct_size " + std::to_string(given) + ", this library's has " +
                      std::to_string(own) + " bytes",
                  {"struct_size is the sizeof of the structure; header and library are of one version"});
}

}  // namespace astatide

using namespace astatide;

AstatideStatus astatide_error_status(const AstatideError* error) {
  return error == nullptr ? ASTATIDE_STATUS_OK : error->status;
}

const char* astatide_error_text(const AstatideError* error) { return error == nullptr ? "" : error->text.c_str(); }

size_t astatide_error_problem_count(const AstatideError* error) {
  return error == nullptr ? 0 : error->problems.size();
}

AstatideStatus astatide_error_problem(const AstatideError* error, size_t n, AstatideProblem* problem) {
  if (problem == nullptr || problem->struct_size != sizeof *problem || n >= astatide_error_problem_count(error))
    return ASTATIDE_STATUS_USER;
  const AstatideError::Problem& own = error->problems[n];
  problem->file = own.file.c_str();
  problem->line = own.line;
  problem->column = own.column;
  problem->message = own.message.c_str();
  problem->notes = own.notes.c_str();
  return ASTATIDE_STATUS_OK;
}

void astatide_error_destroy(AstatideError* error) {
  if (error != &no_memory) delete error;
}
