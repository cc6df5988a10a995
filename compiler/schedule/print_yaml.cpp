#include "compiler/algorithm/names.h"
#include "compiler/schedule/directives.h"
#include "compiler/schedule/schedule.h"
#include "compiler/support/match.h"

namespace astatide {
namespace {

/// A name goes into YAML as it is; anything else, which a schedule under construction may hold, in quotes.
std::string word(const std::string& text) {
  const std::string name = text.substr(0, text.find('.'));
  if (problem_with_name(name).empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
                                                                "0123456789.") == std::string::npos)
    return text;
  if (text == "global" || text == "shared" || text == "register") return text;
  return "'" + quoted(text) + "'";
}

std::string flow(const AxisNumbers& numbers) {
  std::string out;
  for (const auto& [name, number] : numbers)
    out += (out.empty() ? "" : ", ") + word(name) + ": " + std::to_string(number);
  return "{" + out + "}";
}

std::string flow(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + word(name);
  return "[" + out + "]";
}

std::string flow(const Serves& serves) {
  std::vector<std::string> parts;
  std::vector<std::string> words;
  for (const ScalarType type : serves.dtypes) words.emplace_back(name_of(type));
  if (!words.empty()) parts.push_back("dtype: [" + join(words) + "]");
  words.clear();
  for (const auto& [axis, least, most] : serves.lengths) {
    const std::string last = most == LengthRange::kUnlimited ? "inf" : std::to_string(most);
    const std::string first = std::to_string(least);
    words.push_back(word(axis) + ": " + (first == last ? first : "[" + first + ", " + last + "]"));
  }
  if (!words.empty()) parts.push_back("lengths: {" + join(words) + "}");
  if (serves.rank != 0 || parts.empty()) parts.push_back("rank: " + std::to_string(serves.rank));
  return "{" + join(parts) + "}";
}

std::string flow(const Rescale& rescale) {
  std::string out = "{online: {rescale: " + std::string(name_of(rescale.mode));
  if (rescale.grow) out += ", grow: " + std::to_string(*rescale.grow);
  if (rescale.over) out += ", over: " + std::to_string(*rescale.over);
  return out + "}}";
}

std::string flow(const Directive& directive) {
  return match(
      directive.value, [](bool flag) { return std::string(flag ? "true" : "false"); },
      [](std::int64_t number) { return std::to_string(number); }, [](const std::string& text) { return word(text); },
      [](const std::vector<std::string>& names) { return flow(names); },
      [](const std::vector<std::int64_t>& numbers) {
        std::string out;
        for (const std::int64_t number : numbers) out += (out.empty() ? "" : ", ") + std::to_string(number);
        return "[" + out + "]";
      },
      [](const AxisNumbers& numbers) { return flow(numbers); },
      [&](const Fraction& part) {
        return "{" + std::string(directive_info(directive.kind).words[0]) + ": " + to_string(part) + "}";
      },
      [](const AxisLists& lists) {
        std::string out;
        for (const auto& [axis, names] : lists) out += (out.empty() ? "" : ", ") + word(axis) + ": " + flow(names);
        return "{" + out + "}";
      },
      [](const AxisParts& parts) {
        const std::string how = parts.size != 0        ? "{split_size: " + std::to_string(parts.size) + "}"
                                : parts.is_automatic() ? "auto"
                                                       : std::to_string(parts.parts);
        const std::string teams =
            parts.team_loop.empty() ? "" : ", " + word(parts.team_loop) + ", " + std::to_string(parts.teams);
        return "{" + word(parts.axis) + ": [" + word(parts.loop) + ", " + how + teams + "]}";
      });
}

}  // namespace

std::vector<PrintedDirective> print_directives(const Schedule& schedule) {
  std::vector<PrintedDirective> out;
  const auto add = [&](std::string key, std::string value) { out.push_back({"", std::move(key), std::move(value)}); };
  add("target", word(schedule.target));
  const bool in_full = schedule.rescale != Rescale{};
  add("rewrite", in_full ? flow(schedule.rescale) : schedule.rewrite == RewriteMode::online ? "online" : "none");
  if (!schedule.bound.empty()) add("bound", flow(schedule.bound));
  if (!schedule.known.empty()) add("known", flow(schedule.known));
  if (schedule.serves) add("serves", flow(*schedule.serves));
  if (schedule.deterministic) add("deterministic", "true");
  if (schedule.fast_math) add("fast_math", "true");
  if (schedule.dependent_launch) add("dependent_launch", "true");
  if (!schedule.warps.empty()) {
    std::string warps = flow(schedule.warps);
    if (schedule.alternate) warps.insert(warps.size() - 1, ", alternate: true");
    add("warps", warps);
  }
  for (const Placement& placement : schedule.placements)
    for (const Directive& directive : placement.directives)
      out.push_back({placement.name, std::string(directive_info(directive.kind).key), flow(directive)});
  return out;
}

std::string print_schedule(const Schedule& schedule) {
  std::string out;
  for (const PrintedDirective& directive : print_directives(schedule))
    if (directive.owner.empty()) out += directive.key + ": " + directive.value + "\n";
  for (const Placement& placement : schedule.placements) {
    std::string own;
    for (const Directive& directive : placement.directives)
      own += (own.empty() ? "" : ", ") + std::string(directive_info(directive.kind).key) + ": " + flow(directive);
    out += word(placement.name) + ": {" + own + "}\n";
  }
  return out;
}

}  // namespace astatide
