#pragma once

#include <optional>
#include <string>
#include <utility>

namespace astatide::runtime {

/// A library opened with dlopen. It stays open until the process ends: CUDA's libraries start threads and register exit
/// handlers, so closing one is not safe.
class SharedLibrary {
 public:
  /// Opens `path` (a path, or a name for the loader to find). On failure returns nothing and leaves the loader's
  /// message in `reason`.
  static std::optional<SharedLibrary> open(const std::string& path, std::string& reason);

  /// The address of a symbol, or null.
  void* symbol(const char* name) const;

  const std::string& path() const { return path_; }

 private:
  SharedLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;
  std::string path_;
};

}  // namespace astatide::runtime
