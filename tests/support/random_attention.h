// Random algorithms of the attention family: every score function, mask, arrangement of heads and output that the
// examples know, in any combination.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compiler/algorithm/algorithm.h"
#include "runtime/host_tensor.h"

namespace astatide::testing {

/// Numbers from a seed, the same on every machine: the distributions of the standard library are not.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  /// least to most, both included.
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <class T>
  const T& one_of(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(from.size()) - 1))];
  }
  /// Nearly normal, with mean 0 and variance 1.
  double normal();

 private:
  std::mt19937_64 random_;
};

/// The parts of an algorithm as text. Each can be left out by itself, so that a failure can be made smaller.
struct AttentionChoice {
  enum class Heads : std::uint8_t { grouped, multi, one_key_head };
  enum class Weights : std::uint8_t { softmax, softmax_base_two, sink, sigmoid, squares, magnitudes };
  /// A definition between the raw scores and those that are weighed; @ is the one before.
  struct Step {
    std::string value = "@", where;
  };
  struct Output {
    std::string name, definition;
  };
  Heads heads = Heads::grouped;
  Weights weights = Weights::softmax;
  bool rows_before_heads = false;  // [B, S, H, D], not [B, H, S, D]
  bool one_width = false;          // V is as wide as Q and K
  std::string factor;              // of the raw scores, such as "* scale"
  std::string where;               // of the raw scores
  std::vector<Step> steps;
  std::string output;  // what O is
  std::vector<Output> more_outputs;

  /// The file. Only what is used is declared.
  std::string yaml() const;
  /// Whether weights are divided by a sum that is 0 where scores are.
  bool divides_by_scores() const { return weights == Weights::squares || weights == Weights::magnitudes; }
  /// The same with one part less, each.
  std::vector<AttentionChoice> smaller() const;
};

AttentionChoice random_attention(Dice& dice);

/// Run-time lengths, ragged, tiny or empty, of all extents that such an algorithm may have but the widths.
std::map<std::string, std::int64_t> random_lengths(Dice& dice);

/// Values of all inputs. Now and then scores grow along the keys. `may_vanish`: now and then all raw scores are 0, as
/// weights that are no exponentials may not be: the sum that they are divided by would be 0, too.
std::map<std::string, runtime::HostTensor> random_tensors(const Algorithm& algorithm,
                                                          const std::map<std::string, std::int64_t>& extents,
                                                          ScalarType dtype, bool may_vanish, Dice& dice);

}  // namespace astatide::testing
