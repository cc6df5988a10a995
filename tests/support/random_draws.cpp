#include "tests/support/random_draws.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "api/check_outputs.h"
#include "tests/support/random_attention.h"
#include "tests/support/random_mutation.h"

namespace astatide::testing {
namespace {

/// Schedules that are drawn for one algorithm before it is given up as one that none takes.
constexpr int kMostSchedules = 60;
/// Runs that making a failure smaller may take.
constexpr int kMostSmaller = 60;

/// One compilation of a draw, and what it needs to be made again.
struct DrawnKernel {
  std::uint64_t seed = 0;
  AttentionChoice choice;
  std::string shipped;  // the schedule that it started from
  Schedule schedule;
  ScalarType dtype = ScalarType::f32;
  std::map<std::string, std::int64_t> widths;
};

/// One run of it.
struct Lengths {
  std::map<std::string, std::int64_t> extents;
  std::uint64_t data_seed = 0;
};

Algorithm algorithm_of(const AttentionChoice& choice) { return parse_algorithm(choice.yaml(), "random.yaml"); }

std::map<std::string, std::int64_t> only_own(const Algorithm& algorithm,
                                             const std::map<std::string, std::int64_t>& extents) {
  std::map<std::string, std::int64_t> out;
  for (const Extent& extent : algorithm.extents) out[extent.name] = extents.at(extent.name);
  return out;
}

/// Room between rows now and then, by which they may lose the alignment that wide copies need.
runtime::HostTensor with_room(const runtime::HostTensor& tensor, Dice& dice) {
  if (tensor.shape.size() < 2 || !dice.chance(15)) return tensor;
  Index strides(tensor.shape.size(), 1);
  std::int64_t stride = tensor.shape.back() + dice.one_of<std::int64_t>({1, 8, 8, 16});
  for (std::size_t d = strides.size() - 1; d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<std::int64_t>(tensor.shape[d], 1);
  }
  return with_strides(tensor, strides);
}

Case case_of(const DrawnKernel& draw, const Lengths& lengths) {
  Case c;
  c.algorithm = algorithm_of(draw.choice);
  std::map<std::string, std::int64_t> extents = lengths.extents;
  extents.insert(draw.widths.begin(), draw.widths.end());
  c.extents = only_own(c.algorithm, extents);
  c.dtype = draw.dtype;
  Dice dice(lengths.data_seed);
  c.inputs = random_tensors(c.algorithm, c.extents, c.dtype, !draw.choice.divides_by_scores(), dice);
  for (const char* name : {"Q", "K", "V"})
    if (const auto found = c.inputs.find(name); found != c.inputs.end()) found->second = with_room(found->second, dice);
  return c;
}

/// ASTATIDE_DRAWS is set: many draws, watched by a person.
bool is_soak() { return std::getenv("ASTATIDE_DRAWS") != nullptr; }

/// A crash or an endless wait leaves the number of its draw behind.
void announce(const DrawnKernel& draw) {
  if (is_soak()) std::cout << "seed " << draw.seed << std::endl;
}

/// Runs and compares; what is wrong, or nothing. Throws as the compiler and the runtime do.
std::string difference(const DrawnKernel& draw, const Lengths& lengths, const Device& device, std::mutex& launching) {
  const Case c = case_of(draw, lengths);
  HostTensors outputs;
  {
    const std::lock_guard lock(launching);
    announce(draw);
    outputs = run_case(c, draw.schedule, device);
  }
  std::string out;
  for (const OutputCheck& check :
       check_outputs(c.algorithm, c.extents, c.scalars, c.inputs, outputs, allowance_of(draw.schedule, device))) {
    if (check.ok()) continue;
    std::ostringstream text;
    text << check.name << " is wrong by " << check.max_abs_error << ", allowed are " << check.limit << ", plain is "
         << check.plain_error << "; " << check.wrong_nonfinite << " wrong infinities\n";
    out += text.str();
  }
  return out;
}

/// The same, with exceptions that are faults as text. A refusal is no difference.
std::string fault(const DrawnKernel& draw, const Lengths& lengths, const Device& device, std::mutex& launching) {
  try {
    return difference(draw, lengths, device, launching);
  } catch (const MachineError& error) {
    return error.what();
  } catch (const UserError&) {
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string text_of_draw(const DrawnKernel& draw, const Lengths& lengths) {
  const Case c = case_of(draw, lengths);
  std::string out = draw.choice.yaml() + "sizes: {";
  std::string sizes;
  for (const auto& [name, value] : c.extents)
    sizes += (sizes.empty() ? "" : ", ") + name + ": " + std::to_string(value);
  return out + sizes + "}  # " + std::string(name_of(draw.dtype)) + "\n---\n" + print_schedule(draw.schedule);
}

/// Leaves out parts of the algorithm, directives and lengths, as long as something is wrong.
std::pair<DrawnKernel, Lengths> smallest(DrawnKernel draw, Lengths lengths, const Device& device,
                                         std::mutex& launching) {
  int left = kMostSmaller;
  const auto is_wrong = [&](const DrawnKernel& d, const Lengths& l) {
    return left-- > 0 && !fault(d, l, device, launching).empty();
  };
  for (bool again = true; again && left > 0;) {
    again = false;
    std::vector<DrawnKernel> less;
    for (AttentionChoice& choice : draw.choice.smaller()) less.emplace_back(draw).choice = std::move(choice);
    for (Schedule& schedule : smaller(draw.schedule)) less.emplace_back(draw).schedule = std::move(schedule);
    for (DrawnKernel& candidate : less)
      if (is_wrong(candidate, lengths)) {
        draw = std::move(candidate);
        again = true;
        break;
      }
    if (again) continue;
    for (const char* name : {"B", "Hq", "Hkv", "Sq", "Sk"}) {
      Lengths shorter = lengths;
      std::int64_t& extent = shorter.extents.at(name);
      if (extent <= 1) continue;
      extent = name[0] == 'S' ? extent / 2 : 1;
      if (name == std::string_view("Hkv")) shorter.extents["Hq"] = 1;
      if (shorter.extents.at("Hq") % shorter.extents.at("Hkv") != 0 || !is_wrong(draw, shorter)) continue;
      lengths = shorter;
      again = true;
      break;
    }
  }
  return {std::move(draw), std::move(lengths)};
}

/// A refusal without names and numbers, to count what kinds there are.
std::string kind_of(const UserError& error) {
  std::string kind;
  for (const char c : error.diagnostics().front().message) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || kind.empty() || kind.back() != '#') kind += digit ? '#' : c;
  }
  return kind;
}

class Drawing {
 public:
  Drawing(const DrawOptions& options) : options_(options) {
    if (const char* seed = std::getenv("ASTATIDE_SEED")) first_ = std::strtoull(seed, nullptr, 10), only_one_ = true;
    if (const char* draws = std::getenv("ASTATIDE_DRAWS")) {
      options_.wanted = std::atoi(draws);
      only_one_ = false;
    }
    next_ = first_;
  }

  DrawCounts run() {
    std::vector<std::thread> threads;
    for (int n = 1; n < options_.threads; ++n) threads.emplace_back([this] { draw_all(); });
    draw_all();
    for (std::thread& thread : threads) thread.join();
    counts_.first_seed = first_;
    counts_.seeds = next_ - first_;
    return std::move(counts_);
  }

 private:
  void draw_all() {
    for (;;) {
      std::uint64_t seed = 0;
      {
        const std::lock_guard lock(mutex_);
        const int done = options_.lengths > 0 ? counts_.compared : counts_.kernels;
        const bool enough = only_one_ ? next_ > first_ : done >= options_.wanted;
        if (enough || counts_.failures.size() >= (is_soak() ? 1000 : 3)) return;
        seed = next_++;
      }
      draw(seed);
    }
  }

  void draw(std::uint64_t seed) {
    Dice dice(seed);
    DrawnKernel draw;
    draw.seed = seed;
    try {
      if (!find_legal(dice, draw)) {
        const std::lock_guard lock(mutex_);
        ++counts_.refused_algorithms;
        return;
      }
    } catch (const std::exception& error) {
      report(seed, draw, random_lengths_of(dice), error.what());
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      ++counts_.kernels;
      ++counts_.kernels_of[draw.shipped];
    }
    for (int n = 0; n < options_.lengths; ++n) {
      const Lengths lengths = random_lengths_of(dice);
      std::string wrong;
      try {
        wrong = difference(draw, lengths, options_.device, launching_);
      } catch (const MachineError& error) {
        wrong = error.what();
      } catch (const UserError& error) {
        count_refusal(error, &DrawCounts::refused_runs);
        continue;
      } catch (const std::exception& error) {
        wrong = error.what();
      }
      if (!wrong.empty()) return report(seed, draw, lengths, wrong);
      const std::lock_guard lock(mutex_);
      ++counts_.compared;
    }
  }

  static Lengths random_lengths_of(Dice& dice) {
    Lengths lengths;
    lengths.extents = random_lengths(dice);
    lengths.data_seed = static_cast<std::uint64_t>(dice.pick(1, 1'000'000'000));
    return lengths;
  }

  /// Draws schedules until one is taken.
  bool find_legal(Dice& dice, DrawnKernel& draw) {
    draw.choice = random_attention(dice);
    const Algorithm algorithm = algorithm_of(draw.choice);
    for (int n = 0; n < kMostSchedules; ++n) {
      const std::string& name = dice.one_of(options_.schedules);
      const Schedule shipped = load_schedule(name);
      draw.shipped = name;
      const bool tensor_cores = !name.starts_with("simt/") && !name.starts_with("cpu/");
      draw.dtype = dice.one_of<ScalarType>({ScalarType::f32, ScalarType::f16, ScalarType::bf16});
      if (tensor_cores && !name.ends_with("_tf32"))
        draw.dtype = dice.one_of<ScalarType>({ScalarType::f16, ScalarType::bf16});
      const std::vector<std::int64_t> any = {1, 3, 5, 8, 8, 12, 16, 17, 24, 32, 40};
      const std::vector<std::int64_t> of_eight = {8, 16, 16, 16, 24, 32, 40, 64};
      for (const char* width : {"D", "Dv"}) draw.widths[width] = dice.one_of(tensor_cores ? of_eight : any);
      try {
        draw.schedule = mutated(shipped, algorithm, dice);
        build(algorithm, draw);
        return true;
      } catch (const MachineError&) {
        throw;
      } catch (const UserError& error) {
        count_refusal(error, &DrawCounts::refused_schedules);
      }
    }
    return false;
  }

  void build(const Algorithm& algorithm, const DrawnKernel& draw) {
    const auto sizes = known_extents(algorithm, draw.schedule, draw.widths);
    const Target* own = find_target(draw.schedule.target);
    if (options_.own_code && own != nullptr)
      options_.own_code(compile(algorithm, draw.schedule, {*own, sizes, draw.dtype}), own->name);
    if (options_.lengths > 0) case_engine().build(algorithm, draw.schedule, {options_.device, draw.dtype, sizes, {}});
  }

  void count_refusal(const UserError& error, int DrawCounts::*count) {
    const std::lock_guard lock(mutex_);
    ++(counts_.*count);
    ++counts_.refusals[kind_of(error)];
  }

  void report(std::uint64_t seed, const DrawnKernel& draw, const Lengths& lengths, const std::string& wrong) {
    std::string text = "ASTATIDE_SEED=" + std::to_string(seed) + " " + options_.command + "\n" + wrong + "\n" +
                       text_of_draw(draw, lengths);
    const auto [less, shorter] = smallest(draw, lengths, options_.device, launching_);
    text += "the smallest that is wrong:\n" + fault(less, shorter, options_.device, launching_) + "\n" +
            text_of_draw(less, shorter);
    if (is_soak()) std::cout << text << std::endl;
    const std::lock_guard lock(mutex_);
    counts_.failures.push_back(std::move(text));
  }

  DrawOptions options_;
  std::mutex mutex_;      // of the counts
  std::mutex launching_;  // one after the other, so that a fault is that of its draw
  DrawCounts counts_;
  std::uint64_t first_ = 1, next_ = 1;
  bool only_one_ = false;
};

}  // namespace

std::string DrawCounts::summary() const {
  std::ostringstream out;
  out << "seeds " << first_seed << " to " << first_seed + seeds - 1 << ": " << compared << " comparisons of " << kernels
      << " kernels; refused: " << refused_schedules << " schedules (" << refusals.size() << " kinds of message), "
      << refused_algorithms << " algorithms that no schedule takes, " << refused_runs << " runs";
  return out.str();
}

DrawCounts run_draws(const DrawOptions& options) { return Drawing(options).run(); }

void check_draws(const DrawOptions& options) {
  const DrawCounts counts = run_draws(options);
  std::cout << counts.summary() << "\n";
  if (is_soak()) {
    for (const auto& [schedule, count] : counts.kernels_of) std::cout << "  " << count << " from " << schedule << "\n";
    for (const auto& [kind, count] : counts.refusals) std::cout << "  " << count << " refused: " << kind << "\n";
  }
  for (const std::string& failure : counts.failures) FAIL_CHECK(failure);
  CHECK(counts.kernels > 0);
}

}  // namespace astatide::testing
