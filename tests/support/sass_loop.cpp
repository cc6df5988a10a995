#include "tests/support/sass_loop.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

namespace astatide::testing {
namespace {

struct CodeInstruction {
  std::string opcode;    // "BRA.U.ANY"
  std::string operands;  // behind it
  bool predicated = false;

  std::string stem() const { return opcode.substr(0, opcode.find('.')); }
};

/// One function: its instructions, and where labels and addresses stand.
struct CodeFunction {
  std::vector<CodeInstruction> code;
  std::map<std::string, std::size_t> places;  // ".L_x_7" or "0x1a0" to the number of an instruction
};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

/// "/*01d0*/  @!P0 BRA `(.L_x_1) ;" -> its address, and the rest up to the semicolon; nothing for other lines.
std::optional<std::pair<std::string, std::string>> address_and_text(const std::string& line) {
  if (!line.starts_with("/*")) return std::nullopt;
  const std::size_t close = line.find("*/"), end = line.find(';');
  if (close == std::string::npos || end == std::string::npos || end < close) return std::nullopt;
  std::string address = line.substr(2, close - 2);
  // cuobjdump puts the encoding into comments, which begin with 0x.
  if (address.empty() || address.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  address.erase(0, std::min(address.find_first_not_of('0'), address.size() - 1));
  return std::pair{"0x" + address, trimmed(line.substr(close + 2, end - close - 2))};
}

CodeInstruction parse_instruction(std::string text) {
  CodeInstruction out;
  if (text.starts_with("@")) {
    out.predicated = true;
    text = trimmed(text.substr(text.find(' ')));
  }
  const std::size_t space = text.find(' ');
  out.opcode = text.substr(0, space);
  if (space != std::string::npos) out.operands = trimmed(text.substr(space));
  return out;
}

std::vector<CodeFunction> parse_functions(const std::string& sass) {
  std::vector<CodeFunction> out(1);
  std::vector<std::string> labels;
  std::istringstream lines(sass);
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line);
    if (line.starts_with(".L_") && line.ends_with(":")) labels.push_back(line.substr(0, line.size() - 1));
    const auto found = address_and_text(line);
    if (!found) continue;
    const auto& [address, text] = *found;
    // Each function begins anew.
    if (address == "0x0" && !out.back().code.empty()) out.emplace_back();
    CodeFunction& function = out.back();
    function.places[address] = function.code.size();
    for (const std::string& label : labels) function.places[label] = function.code.size();
    labels.clear();
    function.code.push_back(parse_instruction(text));
  }
  return out;
}

/// The place that an operand names: "`(.L_x_1)" or "0x1a0".
std::optional<std::size_t> place_in(const CodeFunction& function, const std::string& operands) {
  std::size_t begin = operands.find("`(");
  std::string name;
  if (begin != std::string::npos) {
    name = operands.substr(begin + 2, operands.find(')', begin) - begin - 2);
  } else {
    begin = operands.rfind("0x");
    if (begin != std::string::npos) name = trimmed(operands.substr(begin));
  }
  const auto found = function.places.find(name);
  if (found == function.places.end()) return std::nullopt;
  return found->second;
}

/// A block of a function by the number of their first instruction, and where each goes.
struct CodeBlock {
  std::size_t begin = 0, end = 0;
  std::vector<std::size_t> to;  // numbers of blocks
};

bool is_jump(const CodeInstruction& i) {
  const std::string stem = i.stem();
  return stem == "BRA" || stem == "EXIT" || stem == "RET" || stem == "BRX" || stem == "BSYNC" || stem == "WARPSYNC";
}

/// Numbers of the instructions that may come after the one at `at`.
std::vector<std::size_t> next_of(const CodeFunction& function, std::size_t at) {
  const CodeInstruction& i = function.code[at];
  const std::string stem = i.stem();
  std::vector<std::size_t> out;
  const auto add = [&](std::optional<std::size_t> place) {
    if (place && *place < function.code.size()) out.push_back(*place);
  };
  const bool leaves = stem == "EXIT" || stem == "RET" || stem == "BRX";
  // A branch without a predicate and with nothing but its target.
  const bool always = stem == "BRA" && (i.operands.starts_with("`") || i.operands.starts_with("0x"));
  if (i.predicated || !(leaves || always)) add(at + 1);
  if (stem == "BRA" || stem == "WARPSYNC") add(place_in(function, i.operands));
  if (stem == "BSYNC") {
    // Threads meet where the last BSSY of that barrier says.
    for (std::size_t n = at; n-- > 0;)
      if (function.code[n].stem() == "BSSY" && function.code[n].operands.starts_with(i.operands + ",")) {
        add(place_in(function, function.code[n].operands.substr(i.operands.size() + 1)));
        break;
      }
  }
  return out;
}

std::vector<CodeBlock> blocks_of(const CodeFunction& function) {
  std::set<std::size_t> begins{0};
  for (std::size_t n = 0; n < function.code.size(); ++n) {
    if (!is_jump(function.code[n])) continue;
    begins.insert(n + 1);
    for (const std::size_t place : next_of(function, n)) begins.insert(place);
  }
  begins.insert(function.code.size());
  const std::vector<std::size_t> places(begins.begin(), begins.end());
  std::vector<CodeBlock> out;
  for (std::size_t n = 0; n + 1 < places.size(); ++n) {
    CodeBlock& block = out.emplace_back(CodeBlock{places[n], places[n + 1], {}});
    for (const std::size_t place : next_of(function, block.end - 1))
      block.to.push_back(
          static_cast<std::size_t>(std::lower_bound(places.begin(), places.end(), place) - places.begin()));
  }
  return out;
}

/// By block, those that every way to it from the first one passes.
std::vector<std::set<std::size_t>> dominators_of(const std::vector<CodeBlock>& blocks) {
  std::vector<std::vector<std::size_t>> from(blocks.size());
  for (std::size_t n = 0; n < blocks.size(); ++n)
    for (const std::size_t to : blocks[n].to) from[to].push_back(n);
  std::set<std::size_t> all;
  for (std::size_t n = 0; n < blocks.size(); ++n) all.insert(n);
  std::vector<std::set<std::size_t>> out(blocks.size(), all);
  if (!blocks.empty()) out[0] = {0};
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t n = 1; n < blocks.size(); ++n) {
      std::set<std::size_t> common = all;
      for (const std::size_t before : from[n]) {
        std::set<std::size_t> both;
        std::set_intersection(common.begin(), common.end(), out[before].begin(), out[before].end(),
                              std::inserter(both, both.end()));
        common = std::move(both);
      }
      common.insert(n);
      if (from[n].empty()) common = {n};
      if (common == out[n]) continue;
      out[n] = std::move(common);
      changed = true;
    }
  }
  return out;
}

struct CodeLoop {
  std::set<std::size_t> blocks, always;  // all, and those that every iteration runs
};

std::vector<CodeLoop> loops_of(const std::vector<CodeBlock>& blocks) {
  const std::vector<std::set<std::size_t>> dominators = dominators_of(blocks);
  std::vector<std::vector<std::size_t>> from(blocks.size());
  for (std::size_t n = 0; n < blocks.size(); ++n)
    for (const std::size_t to : blocks[n].to) from[to].push_back(n);
  std::vector<CodeLoop> out;
  for (std::size_t head = 0; head < blocks.size(); ++head) {
    CodeLoop loop{{head}, {}};
    std::vector<std::size_t> open;
    bool first = true;
    std::vector<std::size_t> backs = from[head];
    std::erase_if(backs, [&](std::size_t back) { return !dominators[back].contains(head); });
    // A wait that spins at the head of a loop is none of its iterations.
    if (backs.size() > 1) std::erase(backs, head);
    for (const std::size_t back : backs) {
      open.push_back(back);
      std::set<std::size_t> both;
      for (const std::size_t block : dominators[back])
        if (first || loop.always.contains(block)) both.insert(block);
      loop.always = std::move(both);
      first = false;
    }
    if (open.empty()) continue;
    while (!open.empty()) {
      const std::size_t block = open.back();
      open.pop_back();
      if (!loop.blocks.insert(block).second) continue;
      open.insert(open.end(), from[block].begin(), from[block].end());
    }
    std::erase_if(loop.always, [&](std::size_t block) { return !loop.blocks.contains(block); });
    out.push_back(std::move(loop));
  }
  return out;
}

std::string class_of(const CodeInstruction& i) {
  static const std::map<std::string, std::string> classes{{"HGMMA", "mma"},
                                                          {"HMMA", "mma"},
                                                          {"MUFU", "mufu"},
                                                          {"FFMA", "ffma fmul fadd"},
                                                          {"FMUL", "ffma fmul fadd"},
                                                          {"FADD", "ffma fmul fadd"},
                                                          {"FMNMX", "fmnmx"},
                                                          {"LDSM", "ldsm"},
                                                          {"LDS", "lds"},
                                                          {"STS", "sts"},
                                                          {"SHFL", "shfl"},
                                                          {"R2UR", "r2ur"},
                                                          {"BAR", "bar syncs"},
                                                          {"SYNCS", "bar syncs"}};
  const auto found = classes.find(i.stem());
  return found == classes.end() ? "others" : found->second;
}

InstructionCounts counts_of(const CodeFunction& function, const std::vector<CodeBlock>& blocks,
                            const std::set<std::size_t>& which) {
  InstructionCounts out;
  for (const char* name :
       {"mma", "mufu", "ffma fmul fadd", "fmnmx", "ldsm", "lds", "sts", "shfl", "r2ur", "bar syncs", "others", "total"})
    out.emplace_back(name, 0);
  for (const std::size_t number : which)
    for (std::size_t n = blocks[number].begin; n < blocks[number].end; ++n)
      for (auto& [name, count] : out)
        if (name == "total" || name == class_of(function.code[n])) ++count;
  return out;
}

bool is_within(const CodeLoop& inner, const CodeLoop& outer) {
  return inner.blocks.size() < outer.blocks.size() &&
         std::includes(outer.blocks.begin(), outer.blocks.end(), inner.blocks.begin(), inner.blocks.end());
}

}  // namespace

int count_of(const InstructionCounts& counts, const std::string& name) {
  for (const auto& [key, count] : counts)
    if (key == name) return count;
  throw std::runtime_error("no count of " + name);
}

std::optional<InstructionCounts> hottest_loop(const std::string& sass) {
  std::optional<InstructionCounts> best;
  int most = 0;
  for (const CodeFunction& function : parse_functions(sass)) {
    if (function.code.empty()) continue;
    // Warps that compute a tile of wgmma again do it by mma.sync.
    const bool wide = std::any_of(function.code.begin(), function.code.end(),
                                  [](const CodeInstruction& i) { return i.stem() == "HGMMA"; });
    const std::vector<CodeBlock> blocks = blocks_of(function);
    std::vector<std::pair<CodeLoop, int>> found;
    for (CodeLoop& loop : loops_of(blocks)) {
      int products = 0;
      for (const std::size_t block : loop.always)
        for (std::size_t n = blocks[block].begin; n < blocks[block].end; ++n)
          products += function.code[n].stem() == (wide ? "HGMMA" : "HMMA") ? 1 : 0;
      if (products > 0) found.emplace_back(std::move(loop), products);
    }
    for (const auto& [loop, products] : found) {
      if (std::any_of(found.begin(), found.end(), [&, l = &loop](const auto& o) { return is_within(o.first, *l); }))
        continue;
      InstructionCounts counts = counts_of(function, blocks, loop.always);
      if (products < most || (products == most && best && count_of(*best, "total") <= count_of(counts, "total")))
        continue;
      most = products;
      best = std::move(counts);
    }
  }
  return best;
}

std::string to_text(const InstructionCounts& counts) {
  std::string out;
  for (const auto& [name, count] : counts)
    out += name + std::string(20 - name.size(), ' ') + std::to_string(count) + "\n";
  return out;
}

InstructionCounts parse_counts(const std::string& text) {
  InstructionCounts out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t digits = line.find_last_not_of("0123456789");
    if (digits == std::string::npos || digits + 1 == line.size()) throw std::runtime_error("no count in: " + line);
    out.emplace_back(trimmed(line.substr(0, digits)), std::stoi(line.substr(digits + 1)));
  }
  return out;
}

}  // namespace astatide::testing
