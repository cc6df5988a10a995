#include "tools/disassemble.h"

#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <vector>

#include "compiler/support/diagnostic.h"
#include "runtime/environment.h"
#include "tools/child.h"

namespace astatide::tools {

std::string disassemble(const std::string& cubin) {
  const WorkFolder folder;
  const std::string input = folder / "kernel.cubin";
  const std::string output = folder / "kernel.sass";
  std::ofstream(input, std::ios::binary) << cubin;

  std::vector<std::vector<std::string>> tools = {{"nvdisasm", "--print-code", input}, {"cuobjdump", "-sass", input}};
  if (const auto own = runtime::read_environment().nvdisasm) tools = {{*own, "--print-code", input}};
  for (const std::vector<std::string>& words : tools) {
    const std::optional<int> code = run_child(words, output);
    if (!code || *code == 127) continue;
    if (*code != 0) throw MachineError(fmt::format("{} ended with code {}", words[0], *code));
    return read_file(output);
  }
  throw MachineError(
      fmt::format("no {}, which turns machine code into text", tools.size() == 1 ? tools[0][0] : "nvdisasm"),
      {"it comes with the CUDA toolkit; ASTATIDE_NVDISASM names it where it is not on PATH"});
}

}  // namespace astatide::tools
