#include "compiler/dispatch.h"

#include <algorithm>
#include <set>

#include "compiler/pipeline.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tile/parameters.h"

namespace astatide {
namespace {

std::string text_of(const LengthRange& range) {
  if (range.most == LengthRange::kUnlimited) return std::to_string(range.least) + " and more";
  if (range.least == range.most) return std::to_string(range.least);
  return std::to_string(range.least) + " to " + std::to_string(range.most);
}

class Asker {
 public:
  Asker(const Algorithm& algorithm, const DispatchRequest& request) : algorithm_(algorithm), request_(request) {
    Diagnostics errors;
    extents_ = infer_axis_extents(algorithm, errors);
    errors.throw_if_any();
  }

  Candidate ask(const NamedSchedule& named) const {
    Candidate out{named.name, without_foreign_names(named.schedule, algorithm_), ""};
    out.why_not = why_not(out.schedule);
    return out;
  }

 private:
  std::string why_not(const Schedule& schedule) const {
    const Target* least = find_target(schedule.target);
    if (least != nullptr && least->is_cuda() != request_.target.is_cuda())
      return least->is_cuda() ? "it is for GPUs" : "it is for the CPU";
    const std::vector<ScalarType>& types = schedule.serves->dtypes;
    if (!types.empty() && std::find(types.begin(), types.end(), request_.dtype) == types.end())
      return "it serves other types than " + std::string(name_of(request_.dtype));
    for (const LengthRange& range : schedule.serves->lengths)
      if (std::string text = outside(range); !text.empty()) return text;
    try {
      return refusal_at_launch(compile(algorithm_, schedule, {request_.target, request_.sizes, request_.dtype}),
                               request_.sizes);
    } catch (const MachineError&) {
      throw;
    } catch (const UserError& error) {
      return error.diagnostics().front().message;
    }
  }

  std::string outside(const LengthRange& range) const {
    const auto extent = extents_.find(range.axis);
    if (extent == extents_.end()) return "the algorithm has no axis " + range.axis;
    for (const std::string& name : free_variables(extent->second))
      if (!request_.sizes.contains(name)) return "nothing says how large " + name + " is, the length of " + range.axis;
    const std::int64_t length = evaluate_integer(extent->second, request_.sizes);
    if (range.least <= length && length <= range.most) return "";
    return range.axis + " is " + std::to_string(length) + ", it serves " + text_of(range);
  }

  const Algorithm& algorithm_;
  const DispatchRequest& request_;
  std::map<std::string, Expr> extents_;
};

/// Those that state what they serve, by rank.
std::vector<const NamedSchedule*> ranked(const std::vector<NamedSchedule>& schedules) {
  std::vector<const NamedSchedule*> out;
  for (const NamedSchedule& named : schedules)
    if (named.schedule.serves) out.push_back(&named);
  std::stable_sort(out.begin(), out.end(), [](const NamedSchedule* a, const NamedSchedule* b) {
    return a->schedule.serves->rank < b->schedule.serves->rank;
  });
  return out;
}

}  // namespace

std::string refusal_at_launch(const tile::Program& program, const std::map<std::string, std::int64_t>& sizes) {
  const auto is_known = [&](const Expr& e) {
    const std::set<std::string> names = free_variables(e);
    return std::all_of(names.begin(), names.end(), [&](const auto& name) { return sizes.contains(name); });
  };
  // TMA copies whole runs of rows that lie along two dimensions.
  for (const tile::Kernel& kernel : program.kernels)
    for (const tile::Parameter& parameter : tile::parameters_of(program, kernel)) {
      if (!parameter.packed || !is_known(parameter.packed->length)) continue;
      const std::int64_t run = evaluate_integer(parameter.packed->length, sizes);
      if (run < 1 || parameter.rows % run != 0)
        return "tma copies " + std::to_string(parameter.rows) + " rows of " + parameter.name + " at a time, which " +
               to_string(parameter.packed->length) + " = " + std::to_string(run) + " does not divide";
    }
  return "";
}

std::vector<Candidate> ask_schedules(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                                     const DispatchRequest& request) {
  const Asker asker(algorithm, request);
  std::vector<Candidate> out;
  for (const NamedSchedule* named : ranked(schedules)) out.push_back(asker.ask(*named));
  return out;
}

NamedSchedule dispatch(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                       const DispatchRequest& request) {
  const Asker asker(algorithm, request);
  std::vector<std::string> notes;
  for (const NamedSchedule* named : ranked(schedules)) {
    Candidate candidate = asker.ask(*named);
    if (candidate.why_not.empty()) return {std::move(candidate.name), std::move(candidate.schedule)};
    notes.push_back(candidate.name + ": " + candidate.why_not);
  }
  notes.emplace_back("a schedule that is named is taken whatever it serves");
  throw UserError("no schedule serves " + algorithm.name + " on " + request.target.name + " with inputs of " +
                      std::string(name_of(request.dtype)),
                  std::move(notes));
}

}  // namespace astatide
