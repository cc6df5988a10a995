// What the driver without a device (fake_cuda) was asked for, and contexts of a caller's own on it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "runtime/context.h"
#include "tests/support/temporary_folder.h"

namespace astatide::testing {

/// Sizes of all parameters of a program's kernels, for ASTATIDE_FAKE_PARAMETERS. Counters are 0 bytes unless they are
/// asked for: they lie anywhere.
std::string parameter_sizes(const Executable& executable, bool counters = true);

/// The log, as long as this lives. Not while other threads ask for the environment.
class FakeLog {
 public:
  explicit FakeLog(const std::string& parameter_sizes = "");
  ~FakeLog();
  FakeLog(const FakeLog&) = delete;
  FakeLog& operator=(const FakeLog&) = delete;

  struct Launch {
    std::string kernel;
    int device = 0, stream = 0;
    std::vector<std::string> parameters;  // in hexadecimal
  };
  /// Those that begin with this.
  std::vector<std::string> lines(const std::string& beginning) const;
  /// Those that are this.
  std::size_t count(const std::string& line) const;
  std::vector<Launch> launches() const;
  std::vector<std::string> faults() const { return lines("fault "); }

 private:
  TemporaryFolder folder_;
};

/// A context of the caller's own, current nowhere, as programs have that share a device between libraries.
class OwnContext {
 public:
  explicit OwnContext(int device);
  ~OwnContext();
  OwnContext(const OwnContext&) = delete;
  OwnContext& operator=(const OwnContext&) = delete;

  runtime::ContextHandle handle() const { return handle_; }
  runtime::Context context() const { return runtime::Context::borrow(handle_); }

 private:
  runtime::ContextHandle handle_ = nullptr;
};

/// What a device has: retains, contexts, memory or objects (modules, functions, streams, events, graphs).
long long fake_count(int device, const char* what);

}  // namespace astatide::testing
