#include "compiler/algorithm/names.h"
#include "compiler/schedule/directives.h"
#include "compiler/schedule/legality.h"

namespace astatide {
namespace {

/// The least machine of the schedule can do no more than the target.
void check_target(LegalityCheck& check) {
  const Target& least = check.least;
  const Target& target = check.target;
  const Location where = check.place_of_key("target");
  if (target.is_cuda() && !least.is_cuda()) {
    check.errors.error(where, "the schedule is written for the CPU and can't be compiled for " + target.name,
                       {"a schedule for GPUs names its target, gpu_blocks and threads"});
  } else if (target.is_cuda() && least.name != target.name &&
             (least.name.ends_with("a") || least.compute_capability > target.compute_capability)) {
    // Instructions of an architecture with an `a` are in no other (CUDA C++ Programming Guide, architecture-specific
    // features).
    std::vector<std::string> notes;
    if (least.name.ends_with("a"))
      notes.emplace_back(
          "wgmma, tma and warps are of sm_90a alone, mma: mma_sync and copy: cp_async of every target from sm_80 on");
    check.errors.error(where, "the schedule needs " + least.name + ", the target is " + target.name, std::move(notes));
  }
}

}  // namespace

void check_legal(const Schedule& schedule, const Algorithm& algorithm, const Target& target,
                 const std::map<std::string, std::int64_t>& sizes, std::optional<ScalarType> input_type) {
  Diagnostics values;
  check_schedule_values(schedule, values);
  // The other checks count with numbers in range and a known target.
  values.throw_if_any();

  LegalityCheck check(schedule, algorithm, target, sizes, input_type);
  check_target(check);
  check_nests(check);
  check_names_and_sites(check);
  check_places(check);
  check_storage(check);
  check_products(check);
  check_cluster(check);
  check_rfactor(check);
  check_mask_map(check);
  check_overlap(check);
  check_exponentials(check);
  check_rewrite(check);
  check_sizes(check);
  check.errors.throw_if_any();
}

}  // namespace astatide
