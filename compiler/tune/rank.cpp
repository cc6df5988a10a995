#include "compiler/tune/rank.h"

#include "compiler/cost/cost.h"
#include "compiler/dispatch.h"
#include "compiler/support/diagnostic.h"

namespace astatide {

double modelled_seconds(const tile::Program& program, const Target& target,
                        const std::map<std::string, std::int64_t>& extents) {
  return cost::predict(program, target, cost::launch_extents(program, target, extents)).seconds();
}

SearchAnswer ask_schedule(const Algorithm& algorithm, const Schedule& schedule, const CompileOptions& options,
                          const PredictSeconds& predict) {
  try {
    const tile::Program program = compile(algorithm, schedule, options);
    if (std::string refusal = refusal_at_launch(program, options.sizes); !refusal.empty()) return {refusal, 0};
    return {"", predict(program, options.target, options.sizes)};
  } catch (const MachineError&) {
    throw;
  } catch (const UserError& error) {
    return {error.diagnostics().front().message, 0};
  }
}

}  // namespace astatide
