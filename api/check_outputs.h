#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "compiler/algorithm/evaluate.h"
#include "runtime/host_tensor.h"

namespace astatide {

/// How far an output is from the double-precision evaluator on the same, rounded inputs, as the numerics contract
/// measures it.
struct OutputCheck {
  std::string name;
  double max_abs_error = 0;
  double relative_error = 0;  // of the largest finite magnitude that the evaluator gives
  double limit = 0;           // of max_abs_error
  double plain_error = 0;     // of a plain evaluation in f32, the largest of several where it matters
  /// Elements that are infinite or NaN where the evaluator's are not the same.
  std::int64_t wrong_nonfinite = 0;

  bool ok() const { return wrong_nonfinite == 0 && max_abs_error <= limit; }
};

/// Seconds that check_outputs takes on this machine, roughly.
double estimate_check_seconds(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents);

/// Whether products of f32 inputs are rounded to tf32: on a GPU, where the schedule says so.
bool computes_in_tf32(const Schedule& schedule, const Device& device);

/// What the outputs of one launch should be: evaluated once, compared with any number of launches. With `tf32` factors
/// of f32 may have been rounded to tf32: the limit is that of f16, and the plain evaluation rounds them, too.
class OutputOracle {
 public:
  /// Throws MachineError where the oracle's tensors don't fit this machine's memory.
  OutputOracle(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
               const std::map<std::string, double>& scalars, const std::map<std::string, runtime::HostTensor>& inputs,
               bool tf32 = false);

  std::vector<OutputCheck> check(const std::map<std::string, runtime::HostTensor>& outputs) const;

 private:
  std::map<std::string, DoubleTensor> exact_;
  /// The plain evaluation; each attempt rounds the weights of a row relative to another number.
  std::function<std::map<std::string, DoubleTensor>(int attempt)> plain_;
  std::map<std::string, DoubleTensor> plain_as_written_;
  double absolute_limit_ = 0;
  double input_scale_ = 0;
};

/// Compares each output of one launch with the oracle.
std::vector<OutputCheck> check_outputs(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                                       const std::map<std::string, double>& scalars,
                                       const std::map<std::string, runtime::HostTensor>& inputs,
                                       const std::map<std::string, runtime::HostTensor>& outputs, bool tf32 = false);

}  // namespace astatide
