#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "compiler/algorithm/evaluate.h"
#include "compiler/schedule/approximations.h"
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
  /// Of an input that is updated: elements that no update stores, and that hold other bits than before.
  std::int64_t changed = 0;

  bool ok() const { return wrong_nonfinite == 0 && changed == 0 && max_abs_error <= limit; }
};

/// Seconds that check_outputs takes on this machine, roughly.
double estimate_check_seconds(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents);

/// What a schedule allows a kernel beyond rounding to f32. The plain evaluation does the same, and the absolute limits
/// follow.
struct Allowance {
  /// Factors of f32 may be rounded to tf32: the limit is that of f16.
  bool tf32 = false;
  /// Functions whose results may be off. What an algorithm multiplies them with has no limit, so there is no absolute
  /// one.
  std::vector<Approximation> functions;
};
/// What holds on a device: none of it on the CPU.
Allowance allowance_of(const Schedule& schedule, const Device& device);

/// Absolute limit of the numerics contract where the narrowest type of a computation is this, for values of order 1.
double absolute_limit(ScalarType narrowest, const Allowance& allowance);

/// What the outputs of one launch should be: evaluated once, compared with any number of launches.
class OutputOracle {
 public:
  /// Throws MachineError where the oracle's tensors don't fit this machine's memory.
  OutputOracle(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
               const std::map<std::string, double>& scalars, const std::map<std::string, runtime::HostTensor>& inputs,
               const Allowance& allowance = {});

  /// Inputs that are updated may be among the outputs.
  std::vector<OutputCheck> check(const std::map<std::string, runtime::HostTensor>& outputs) const;

 private:
  std::map<std::string, DoubleTensor> exact_;
  /// Inputs that are updated as they were, and 1 for each of their elements that an update stores.
  std::map<std::string, runtime::HostTensor> before_;
  std::map<std::string, DoubleTensor> stored_;
  /// The same with the limit of x * log(x) where x has become 0: what a NaN of exact_ may be instead. Empty where there
  /// is none.
  std::map<std::string, DoubleTensor> limits_;
  /// Weights of each row are rounded relative to a number of its own for each `attempt`, relative to 1 at the first;
  /// results of approximated functions that are all off one way, by `bias` of the most that is allowed, or, where that
  /// is 0, rounded to as many bits.
  struct PlainWay {
    int attempt = 0;
    double bias = 0;
  };
  std::function<std::map<std::string, DoubleTensor>(const PlainWay& way)> plain_;
  std::vector<PlainWay> other_ways_;
  std::map<std::string, DoubleTensor> plain_as_written_;
  double absolute_limit_ = 0;
  double input_scale_ = 0;
};

/// Compares each output of one launch with the oracle.
std::vector<OutputCheck> check_outputs(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                                       const std::map<std::string, double>& scalars,
                                       const std::map<std::string, runtime::HostTensor>& inputs,
                                       const std::map<std::string, runtime::HostTensor>& outputs,
                                       const Allowance& allowance = {});

}  // namespace astatide
