#include "tests/support/fake_devices.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/cuda/emit.h"
#include "compiler/support/diagnostic.h"
#include "runtime/shared_library.h"

namespace astatide::testing {
namespace {

/// A function of the driver that the runtime itself does not need.
template <class Function>
Function symbol(const char* name) {
  std::string reason;
  const auto library = runtime::SharedLibrary::open(runtime::driver().library_path(), reason);
  void* const found = library ? library->symbol(name) : nullptr;
  if (found == nullptr) throw InternalError(std::string("the driver has no ") + name);
  return reinterpret_cast<Function>(found);
}

std::string value_of(const std::string& line, const std::string& name) {
  const std::size_t begin = line.find(" " + name + "=") + name.size() + 2;
  return line.substr(begin, line.find(' ', begin) - begin);
}

}  // namespace

std::string parameter_sizes(const Executable& executable, bool counters) {
  using Kind = tile::Parameter::Kind;
  std::string text;
  for (const cuda::Source::KernelInfo& kernel : cuda::emit(executable.program()).kernels) {
    text += (text.empty() ? "" : ";") + kernel.name + "=";
    for (std::size_t n = 0; n < kernel.parameters.size(); ++n) {
      const Kind kind = kernel.parameters[n].kind;
      const bool counter = !counters && (kind == Kind::counter || kind == Kind::arrivals);
      text += std::string(n == 0 ? "" : ",") + (counter                                        ? "0"
                                                : kind == Kind::tensor_map                     ? "128"
                                                : kind == Kind::extent || kind == Kind::scalar ? "4"
                                                                                               : "8");
    }
  }
  return text;
}

FakeLog::FakeLog(const std::string& parameter_sizes) {
  ::setenv("ASTATIDE_FAKE_PARAMETERS", parameter_sizes.c_str(), 1);
  ::setenv("ASTATIDE_FAKE_LOG", (folder_ / "log").c_str(), 1);
}

FakeLog::~FakeLog() {
  ::unsetenv("ASTATIDE_FAKE_LOG");
  ::unsetenv("ASTATIDE_FAKE_PARAMETERS");
}

std::vector<std::string> FakeLog::lines(const std::string& beginning) const {
  std::vector<std::string> out;
  std::ifstream file(folder_ / "log");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(beginning)) out.push_back(line);
  return out;
}

std::size_t FakeLog::count(const std::string& line) const {
  const std::vector<std::string> all = lines(line);
  return static_cast<std::size_t>(std::count(all.begin(), all.end(), line));
}

std::vector<FakeLog::Launch> FakeLog::launches() const {
  std::vector<Launch> out;
  for (const std::string& line : lines("launch ")) {
    Launch& launch = out.emplace_back();
    launch.kernel = line.substr(7, line.find(' ', 7) - 7);
    launch.device = std::stoi(value_of(line, "device"));
    launch.stream = std::stoi(value_of(line, "stream"));
    std::istringstream words(value_of(line, "parameters"));
    for (std::string word; std::getline(words, word, ',');) launch.parameters.push_back(word);
  }
  return out;
}

OwnContext::OwnContext(int device) {
  const auto create = symbol<int (*)(runtime::ContextHandle*, unsigned, int)>("cuCtxCreate_v2");
  if (create(&handle_, 0, device) != 0) throw InternalError("no context could be made");
  runtime::ContextHandle left = nullptr;
  runtime::driver().check(runtime::driver().api().ctx_pop_current(&left), "leave a context");
}

OwnContext::~OwnContext() { symbol<int (*)(runtime::ContextHandle)>("cuCtxDestroy_v2")(handle_); }

long long fake_count(int device, const char* what) {
  return symbol<long long (*)(int, const char*)>("fake_cuda_count")(device, what);
}

}  // namespace astatide::testing
