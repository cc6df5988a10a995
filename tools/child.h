#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// Programs of others that are started for a command.

namespace astatide::tools {

/// A folder of this call, which goes away with what is in it. Throws MachineError where there can be none.
class WorkFolder {
 public:
  WorkFolder();
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// The exit code of a program on PATH, whose standard output goes to a file, or nothing where it can't be started. 127:
/// there is none of that name.
std::optional<int> run_child(const std::vector<std::string>& words, const std::string& output);

std::string read_file(const std::string& path);

}  // namespace astatide::tools
