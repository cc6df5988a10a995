#include "compiler/algorithm/names.h"
#include "compiler/schedule/directives.h"
#include "compiler/schedule/schedule.h"
#include "compiler/support/match.h"

namespace astatide {
namespace {

std::string literal(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    // Names are identifiers; a file's name may be anything.
    if (c == '"' || c == '\\') out += '\\';
    out += c >= 32 && c < 127 ? c : '?';
  }
  return out + "\"";
}

std::string braces(const AxisNumbers& numbers) {
  std::string out;
  for (const auto& [name, number] : numbers)
    out += (out.empty() ? "{" : ", {") + literal(name) + ", " + std::to_string(number) + "}";
  return "{" + out + "}";
}

template <class Text>
std::string list_of(const std::vector<std::string>& names, const Text& text) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + text(name);
  return "{" + out + "}";
}

std::string space_literal(const std::string& word) {
  return word == "register" ? "Space::register_file" : "Space::" + word;
}

std::string enumerator(const Directive& directive, const std::string& word) {
  switch (directive.kind) {
    case DirectiveKind::copy:
      return "CopyPath::" + word;
    case DirectiveKind::mma:
      return "Family::" + word;
    case DirectiveKind::merge:
      return "MergeBy::" + word;
    case DirectiveKind::persistent:
      return "TileOrder::" + word;
    case DirectiveKind::store_in:
      return space_literal(word);
    default:
      return literal(word);
  }
}

std::string arguments(const Directive& directive) {
  return match(
      directive.value, [](bool) { return std::string(); }, [](std::int64_t number) { return std::to_string(number); },
      [&](const std::string& text) { return enumerator(directive, text); },
      [&](const std::vector<std::string>& names) {
        return list_of(names, [&](const std::string& name) { return enumerator(directive, name); });
      },
      [](const std::vector<std::int64_t>& numbers) {
        std::string out;
        for (const std::int64_t number : numbers) out += (out.empty() ? "" : ", ") + std::to_string(number);
        return out;
      },
      [](const AxisNumbers& numbers) { return braces(numbers); },
      [](const Fraction& part) { return std::to_string(part.part) + ", " + std::to_string(part.whole); },
      [](const AxisLists& lists) {
        std::string out;
        for (const auto& [axis, names] : lists) {
          std::string items;
          for (const std::string& name : names) items += (items.empty() ? "" : ", ") + literal(name);
          out += (out.empty() ? "{" : ", {") + literal(axis) + ", {" + items + "}}";
        }
        return "{" + out + "}";
      },
      [](const AxisParts& parts) {
        const std::string loop = literal(parts.axis) + ", " + literal(parts.loop) + ", ";
        if (parts.parts != 0 && parts.team_loop.empty()) return loop + std::to_string(parts.parts);
        const std::string teams =
            parts.team_loop.empty() ? "" : ", " + literal(parts.team_loop) + ", " + std::to_string(parts.teams);
        return "AxisParts{" + loop + std::to_string(parts.parts) + ", " + std::to_string(parts.size) + teams + "}";
      });
}

std::string arguments(const Serves& serves) {
  std::vector<std::string> types, lengths;
  for (const ScalarType type : serves.dtypes) types.push_back("ScalarType::" + std::string(name_of(type)));
  for (const auto& [axis, least, most] : serves.lengths) {
    const std::string last = most == LengthRange::kUnlimited ? "" : ", " + std::to_string(most);
    lengths.push_back("{" + literal(axis) + ", " + std::to_string(least) + last + "}");
  }
  return "{{" + join(types) + "}, {" + join(lengths) + "}, " + std::to_string(serves.rank) + "}";
}

std::string arguments(const Rescale& rescale) {
  std::string out = "RescaleMode::" + std::string(name_of(rescale.mode));
  if (rescale.grow) out += ", " + std::to_string(*rescale.grow);
  if (rescale.over) out += (rescale.grow ? ", " : ", std::nullopt, ") + std::to_string(*rescale.over);
  return out;
}

}  // namespace

std::string print_schedule_as_cpp(const Schedule& schedule) {
  std::string out = "Schedule schedule =\n    ScheduleBuilder(" + literal(schedule.target) + ")\n";
  const auto call = [&](const std::string& text) { out += "        ." + text + "\n"; };
  if (!schedule.name.empty()) call("name(" + literal(schedule.name) + ")");
  call(std::string("rewrite(RewriteMode::") + (schedule.rewrite == RewriteMode::online ? "online)" : "none)"));
  if (schedule.rescale != Rescale{}) call("rescale(" + arguments(schedule.rescale) + ")");
  for (const auto& [extent, value] : schedule.bound)
    call("bound(" + literal(extent) + ", " + std::to_string(value) + ")");
  if (!schedule.known.empty()) call("known(" + list_of(schedule.known, literal) + ")");
  if (schedule.serves) call("serves(" + arguments(*schedule.serves) + ")");
  if (schedule.deterministic) call("deterministic()");
  if (schedule.fast_math) call("fast_math()");
  if (schedule.dependent_launch) call("dependent_launch()");
  if (!schedule.warps.empty())
    call("warps(" + std::to_string(schedule.warpgroups_of("producer")) + ", " +
         std::to_string(schedule.warpgroups_of("consumer")) + (schedule.alternate ? ", true)" : ")"));
  for (const Placement& placement : schedule.placements) {
    std::string text = "place(PlacementBuilder(" + literal(placement.name) + ")";
    for (const Directive& directive : placement.directives)
      text +=
          "\n                   ." + std::string(directive_info(directive.kind).key) + "(" + arguments(directive) + ")";
    call(text + ")");
  }
  return out + "        .build();\n";
}

}  // namespace astatide
