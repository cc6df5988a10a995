#include "tools/disassemble.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "compiler/support/diagnostic.h"
#include "runtime/environment.h"

extern char** environ;

namespace astatide::tools {
namespace {

namespace fs = std::filesystem;

/// A folder of this call, which goes away with what is in it.
class WorkFolder {
 public:
  WorkFolder() {
    std::string pattern = (fs::temp_directory_path() / "astatide_sass_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw MachineError(fmt::format("no temporary folder: {}", std::strerror(errno)));
    path_ = pattern;
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::optional<int> run(const std::vector<std::string>& words, const std::string& output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::nullopt;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return std::nullopt;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::string disassemble(const std::string& cubin) {
  const WorkFolder folder;
  const std::string input = folder / "kernel.cubin";
  const std::string output = folder / "kernel.sass";
  std::ofstream(input, std::ios::binary) << cubin;

  std::vector<std::vector<std::string>> tools = {{"nvdisasm", "--print-code", input}, {"cuobjdump", "-sass", input}};
  if (const auto own = runtime::read_environment().nvdisasm) tools = {{*own, "--print-code", input}};
  for (const std::vector<std::string>& words : tools) {
    const std::optional<int> code = run(words, output);
    // 127: what posix_spawnp reports where the child finds no program.
    if (!code || *code == 127) continue;
    if (*code != 0) throw MachineError(fmt::format("{} ended with code {}", words[0], *code));
    return read_file(output);
  }
  throw MachineError(
      fmt::format("no {}, which turns machine code into text", tools.size() == 1 ? tools[0][0] : "nvdisasm"),
      {"it comes with the CUDA toolkit; ASTATIDE_NVDISASM names it where it is not on PATH"});
}

}  // namespace astatide::tools
