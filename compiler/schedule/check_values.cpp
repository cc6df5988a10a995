#include <algorithm>
#include <functional>
#include <set>

#include "compiler/algorithm/names.h"
#include "compiler/schedule/directives.h"

namespace astatide {
namespace {

constexpr std::size_t kMostNames = 64;  // loops, axes or names in one list

/// Why a word can't be a name here. `Null` is an identifier, but YAML reads it as nothing.
std::string problem_with(const std::string& name) {
  return name == "Null" ? "is an empty value in YAML" : problem_with_name(name);
}

std::string problem_with_loop(const LoopName& loop) {
  const std::size_t dot = loop.find('.');
  const std::string problem = problem_with(loop.substr(0, dot));
  if (!problem.empty()) return problem;
  const std::string kind = dot == std::string::npos ? "" : loop.substr(dot);
  if (kind.empty() || kind == ".o" || kind == ".i" || kind == ".s" || kind == ".w") return "";
  return "is not a loop: the loops of an axis i are i, i.o over its tiles, i.s over its parts, or i.w over those of "
         "teams";
}

/// One value under check: what is said of it starts with "KEY of OWNER".
struct Subject {
  const DirectiveInfo& info;
  std::string owner;
  Location where;
  Diagnostics& errors;

  void error(const std::string& message, std::vector<std::string> notes = {}) const {
    const std::string of = owner.empty() ? "" : " of " + quoted(owner);
    errors.error(where, std::string(info.key) + of + ": " + message, std::move(notes));
  }

  void check_number(std::int64_t number, const std::string& what = "") const {
    const std::string said = (what.empty() ? "" : quoted(what) + " is ") + std::to_string(number);
    if (number < info.least || number > info.most) {
      error(said + ", allowed are " + std::to_string(info.least) + " to " + std::to_string(info.most));
    } else if (info.power_of_two && (number & (number - 1)) != 0) {
      error(said + ", which is no power of two");
    }
  }

  void check_count(std::size_t count) const {
    if (count == 0) error("empty: it would have no effect");
    if (count > kMostNames)
      error(std::to_string(count) + " entries, at most " + std::to_string(kMostNames) + " are allowed");
  }

  template <class Names>
  void check_distinct(const Names& names, std::string (*problem_with_name)(const std::string&)) const {
    std::set<std::string> seen;
    for (const std::string& name : names) {
      const std::string problem = problem_with_name(name);
      if (!problem.empty()) error(quoted(name) + " " + problem);
      if (!seen.insert(name).second) error(quoted(name) + " occurs twice");
    }
  }
};

std::vector<std::string> first_of(const AxisNumbers& numbers) {
  std::vector<std::string> names;
  for (const auto& [name, number] : numbers) names.push_back(name);
  return names;
}

void check_axis_numbers(const AxisNumbers& numbers, const Subject& subject) {
  subject.check_count(numbers.size());
  if (numbers.size() > kMostNames) return;
  subject.check_distinct(first_of(numbers), problem_with);
  for (const auto& [name, number] : numbers) subject.check_number(number, name);
}

void check_threads(const std::vector<std::int64_t>& numbers, const Subject& subject) {
  if (numbers.size() != 2) {
    subject.error(std::to_string(numbers.size()) + " numbers, wanted are " + describe_form(ValueForm::integer_pair));
    return;
  }
  subject.check_number(numbers[0], "rows");
  subject.check_number(numbers[1], "columns");
}

void check_warps(const Schedule& schedule, const Subject& subject) {
  for (const auto& [role, count] : schedule.warps) {
    const std::string near = nearest_name(role, {"producer", "consumer"});
    if (role != "producer" && role != "consumer")
      subject.error(quoted(role) + " is no role, wanted is " + describe_form(ValueForm::role_numbers),
                    near.empty() ? std::vector<std::string>{} : std::vector{"did you mean " + near + "?"});
    else
      subject.check_number(count, role);
  }
  if (schedule.warpgroups_of("producer") != 1) subject.error("one producer is needed", {"producer: 1"});
  if (schedule.warpgroups_of("consumer") == 0) subject.error("no consumer is named", {"consumer: 2"});
  if (schedule.warps.size() > 2) subject.error("a role is given twice");
  if (schedule.alternate && schedule.warpgroups_of("consumer") == 1)
    subject.error("alternate: 1 consumer has no other to take turns with, at least 2 are needed",
                  {"consumer: 2", "leave alternate out"});
}

bool form_matches(const DirectiveValue& value, ValueForm form) {
  switch (form) {
    case ValueForm::flag:
      return std::holds_alternative<bool>(value);
    case ValueForm::integer:
      return std::holds_alternative<std::int64_t>(value);
    case ValueForm::integer_pair:
      return std::holds_alternative<std::vector<std::int64_t>>(value);
    case ValueForm::spaces:
      return std::holds_alternative<std::string>(value) || std::holds_alternative<std::vector<std::string>>(value);
    case ValueForm::loop:
    case ValueForm::word:
      return std::holds_alternative<std::string>(value);
    case ValueForm::loops:
      return std::holds_alternative<std::vector<std::string>>(value);
    case ValueForm::axis_numbers:
      return std::holds_alternative<AxisNumbers>(value);
    case ValueForm::axis_parts:
      return std::holds_alternative<AxisParts>(value);
    case ValueForm::axis_lists:
      return std::holds_alternative<AxisLists>(value);
    case ValueForm::part:
      return std::holds_alternative<Fraction>(value);
    default:
      return false;
  }
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target& target : known_targets()) names.push_back(target.name);
  return names;
}

/// One place, or the two that a tile can be in one after the other.
void check_spaces(const DirectiveValue& value, const Subject& subject) {
  const std::vector<std::string> known{"global", "shared", "register"}, held{"shared", "register"};
  const auto* list = std::get_if<std::vector<std::string>>(&value);
  for (const std::string& word : list != nullptr ? *list : std::vector{std::get<std::string>(value)}) {
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    const std::string near = nearest_name(word, known);
    return subject.error(quoted(word) + " is no place for a tile, wanted is " + describe_form(ValueForm::spaces),
                         near.empty() ? std::vector<std::string>{} : std::vector{"did you mean " + near + "?"});
  }
  if (list != nullptr && *list != held)
    subject.error("the one list of places is [shared, register]: copied to shared memory, then held in registers");
}

void check_axis_parts(const AxisParts& parts, const Subject& subject) {
  subject.check_distinct(std::vector{parts.axis}, problem_with);
  if (parts.loop != parts.axis + ".s")
    subject.error(quoted(parts.loop) + " is not the loop over the parts of " + quoted(parts.axis),
                  {"that is " + quoted(parts.axis) + ".s"});
  if (parts.size != 0) {
    if (parts.size < 1 || parts.size > kMostPartSize)
      subject.error("split_size is " + std::to_string(parts.size) + ", allowed are 1 to " +
                    std::to_string(kMostPartSize));
  } else if (parts.parts != 0) {
    subject.check_number(parts.parts, "the number of parts");
  }
  if (parts.team_loop.empty()) return;
  if (parts.team_loop != parts.axis + ".w")
    subject.error(
        quoted(parts.team_loop) + " is not the loop over the teams that share a part of " + quoted(parts.axis),
        {"that is " + quoted(parts.axis) + ".w"});
  if (parts.teams < 2 || parts.teams > kMostTeams)
    subject.error(std::to_string(parts.teams) + " teams, allowed are 2 to " + std::to_string(kMostTeams));
}

void check_axis_lists(const AxisLists& lists, const Subject& subject) {
  subject.check_count(lists.size());
  std::vector<std::string> names;
  for (const auto& [axis, axes] : lists) {
    names.push_back(axis);
    names.insert(names.end(), axes.begin(), axes.end());
    const auto count = static_cast<std::int64_t>(axes.size());
    if (count < subject.info.least || count > subject.info.most)
      subject.error(quoted(axis) + " has " + std::to_string(count) + (count == 1 ? " entry" : " entries") +
                    ", wanted is " + describe_value(subject.info));
  }
  if (names.size() > kMostNames) return subject.check_count(names.size());
  subject.check_distinct(names, problem_with);
}

/// What of `rescale` can be judged without the algorithm.
void check_rescale(const Schedule& schedule, const std::function<Location(const std::string&)>& place,
                   Diagnostics& errors) {
  const Rescale& rescale = schedule.rescale;
  const std::string mode(name_of(rescale.mode));
  if (schedule.rewrite == RewriteMode::none && rescale != Rescale{})
    errors.error(place("rewrite"), "rescale: " + mode + " would have no effect: rewrite: none carries nothing",
                 {"rewrite: online"});
  for (const auto& [key, number] : {std::pair{"grow", rescale.grow}, std::pair{"over", rescale.over}}) {
    if (!number) continue;
    const bool used = rescale.mode == RescaleMode::optimistic ||
                      (rescale.mode == RescaleMode::lazy && std::string_view(key) == "grow");
    if (!used) {
      errors.error(place(key), std::string(key) + " would have no effect with rescale: " + mode, {"leave it out"});
    } else if (*number < 0 || *number > kMostRescale) {
      errors.error(place(key), std::string(key) + ": " + std::to_string(*number) + ", allowed are 0 to " +
                                   std::to_string(kMostRescale));
    }
  }
  if (rescale.grow && rescale.over && *rescale.grow > *rescale.over)
    errors.error(place("grow"), "grow: " + std::to_string(*rescale.grow) +
                                    " is more than over: " + std::to_string(*rescale.over) +
                                    ", so a tile that is computed again could pass over once more");
}

void check_serves(const Serves& serves, const Location& where, Diagnostics& errors) {
  const DirectiveInfo& info = *find_directive("serves");
  std::set<ScalarType> types;
  for (const ScalarType type : serves.dtypes) {
    const std::string name(name_of(type));
    if (type != ScalarType::f32 && type != ScalarType::f16 && type != ScalarType::bf16)
      errors.error(where, "serves: " + name + " is no type to compute with", {"known are f32, f16, bf16"});
    if (!types.insert(type).second) errors.error(where, "serves: the type " + name + " is given twice");
  }
  std::set<std::string> axes;
  for (const auto& [axis, least, most] : serves.lengths) {
    const std::string problem = problem_with(axis);
    if (!problem.empty()) errors.error(where, "serves: " + quoted(axis) + " " + problem);
    if (!axes.insert(axis).second) errors.error(where, "serves: the axis " + quoted(axis) + " is given twice");
    for (const std::int64_t length : {least, most})
      if (length < info.least || (length > info.most && length != LengthRange::kUnlimited))
        errors.error(where, "serves: a length of " + quoted(axis) + " is " + std::to_string(length) + ", allowed are " +
                                std::to_string(info.least) + " to " + std::to_string(info.most) + " and inf");
    if (least > most)
      errors.error(where, "serves: the lengths of " + quoted(axis) + " are " + std::to_string(least) + " to " +
                              std::to_string(most) + ", no length is among them");
  }
  if (serves.rank < 0 || serves.rank > kMostRank)
    errors.error(where, "serves: the rank is " + std::to_string(serves.rank) + ", allowed are 0 to " +
                            std::to_string(kMostRank));
}

}  // namespace

void check_directive_value(const Directive& directive, const std::string& owner, Diagnostics& errors) {
  const DirectiveInfo& info = directive_info(directive.kind);
  const Subject subject{info, owner, directive.where, errors};
  if (!form_matches(directive.value, info.form)) {
    subject.error("wanted is " + describe_value(info));
    return;
  }
  switch (info.form) {
    case ValueForm::flag:
      if (!std::get<bool>(directive.value)) subject.error("false would have no effect", {"leave the key out"});
      break;
    case ValueForm::integer:
      subject.check_number(std::get<std::int64_t>(directive.value));
      break;
    case ValueForm::integer_pair:
      check_threads(std::get<std::vector<std::int64_t>>(directive.value), subject);
      break;
    case ValueForm::loop:
      subject.check_distinct(std::vector{std::get<std::string>(directive.value)}, problem_with_loop);
      break;
    case ValueForm::loops: {
      const auto& loops = std::get<std::vector<std::string>>(directive.value);
      subject.check_count(loops.size());
      if (loops.size() <= kMostNames) subject.check_distinct(loops, problem_with_loop);
      break;
    }
    case ValueForm::axis_numbers:
      check_axis_numbers(std::get<AxisNumbers>(directive.value), subject);
      break;
    case ValueForm::spaces:
      check_spaces(directive.value, subject);
      break;
    case ValueForm::word: {
      const auto& word = std::get<std::string>(directive.value);
      const std::vector<std::string> words(info.words.begin(), info.words.end());
      const std::string near = nearest_name(word, words);
      if (std::find(words.begin(), words.end(), word) == words.end())
        subject.error(quoted(word) + " is none, wanted is " + describe_value(info),
                      near.empty() ? std::vector<std::string>{} : std::vector{"did you mean " + near + "?"});
      break;
    }
    case ValueForm::axis_lists:
      check_axis_lists(std::get<AxisLists>(directive.value), subject);
      break;
    case ValueForm::axis_parts:
      check_axis_parts(std::get<AxisParts>(directive.value), subject);
      break;
    case ValueForm::part: {
      const auto& part = std::get<Fraction>(directive.value);
      const std::string said = std::string(info.words[0]) + " " + to_string(part);
      if (part.whole < info.least || part.whole > info.most) {
        const std::string step = "1/" + std::to_string(part.whole);
        subject.error(said + " counts in parts of " + step + ", allowed are 1/" + std::to_string(info.least) +
                      " to 1/" + std::to_string(info.most));
      } else if (part.part < 0 || part.part > part.whole) {
        subject.error(said + (part.part < 0 ? " is less than nothing" : " is more than a whole"));
      }
      break;
    }
    default:
      throw InternalError("a directive with the value of a top-level key");
  }
}

void check_schedule_values(const Schedule& schedule, Diagnostics& errors) {
  const auto place = [&](const std::string& key) {
    const auto found = schedule.places.find(key);
    return found == schedule.places.end() ? schedule.where : found->second;
  };
  if (find_target(schedule.target) == nullptr) {
    std::string near = nearest_name(schedule.target, target_names());
    // sm_90 is nearer to sm_90a than to sm_80, which edit distance does not see.
    for (const std::string& name : target_names())
      if (!schedule.target.empty() && name.starts_with(schedule.target)) near = name;
    std::string known;
    for (const std::string& name : target_names()) known += (known.empty() ? "known are " : ", ") + name;
    std::vector<std::string> notes = {known};
    if (!near.empty()) notes.insert(notes.begin(), "did you mean " + near + "?");
    errors.error(place("target"), "unknown target " + quoted(schedule.target), notes);
  }

  check_rescale(schedule, place, errors);
  if (schedule.serves) check_serves(*schedule.serves, place("serves"), errors);

  const DirectiveInfo& bound = *find_directive("bound");
  const Subject bounds{bound, "", place("bound"), errors};
  if (!schedule.bound.empty() || schedule.places.count("bound") > 0) check_axis_numbers(schedule.bound, bounds);

  const Subject known{*find_directive("known"), "", place("known"), errors};
  if (!schedule.known.empty() || schedule.places.count("known") > 0) {
    known.check_count(schedule.known.size());
    if (schedule.known.size() <= kMostNames) known.check_distinct(schedule.known, problem_with);
  }

  const Subject warps{*find_directive("warps"), "", place("warps"), errors};
  if (!schedule.warps.empty() || schedule.alternate || schedule.places.count("warps") > 0) check_warps(schedule, warps);

  if (schedule.placements.size() > kMostNames)
    errors.error(schedule.where, std::to_string(schedule.placements.size()) + " names, at most " +
                                     std::to_string(kMostNames) + " are allowed");
  std::set<std::string> names;
  for (const Placement& placement : schedule.placements) {
    const DirectiveInfo* key = find_directive(placement.name);
    const std::string problem = problem_with(placement.name);
    if (!problem.empty()) {
      errors.error(placement.where, quoted(placement.name) + " " + problem);
    } else if (key != nullptr) {
      errors.error(placement.where, placement.name + " is a key of schedules and can't name a definition");
    }
    if (!names.insert(placement.name).second) errors.error(placement.where, quoted(placement.name) + " is given twice");
    if (placement.directives.empty())
      errors.error(placement.where, quoted(placement.name) + " has no directive: it would have no effect");
    std::set<DirectiveKind> kinds;
    for (const Directive& directive : placement.directives) {
      if (!kinds.insert(directive.kind).second)
        errors.error(directive.where, std::string(directive_info(directive.kind).key) + " of " +
                                          quoted(placement.name) + " is given twice");
      check_directive_value(directive, placement.name, errors);
    }
  }
}

}  // namespace astatide
