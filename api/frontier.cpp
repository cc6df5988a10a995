#include "api/frontier.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "api/shapes.h"
#include "compiler/algorithm/names.h"
#include "compiler/cost/machine.h"
#include "compiler/tune/rank.h"

namespace astatide {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\n") + 1 - first);
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(by, begin), text.size());
    out.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return out;
}

class AxesParser {
 public:
  AxesParser(const Algorithm& algorithm, const std::string& where) : algorithm_(algorithm), where_(where) {}

  std::vector<ShapeAxis> parse(const std::string& text) {
    std::vector<ShapeAxis> axes;
    std::size_t shapes = 1;
    for (const std::string& part : split(text, ',')) {
      axes.push_back(axis_of(part));
      shapes *= axes.back().values.size();
      if (shapes > kMostShapes)
        fail(fmt::format("these are {} shapes and more, {} may be asked for", shapes, kMostShapes));
    }
    return axes;
  }

 private:
  [[noreturn]] void fail(const std::string& message, std::vector<std::string> notes = {}) const {
    throw UserError({where_, 0, 0, {}}, message, std::move(notes));
  }

  std::int64_t number_of(const std::string& text) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kLargestExtent)
      fail(fmt::format("'{}' is no whole number from 1 to {}", quoted(text), kLargestExtent));
    return value;
  }

  ShapeAxis axis_of(const std::string& text) {
    std::vector<std::string> words = split(text, '=');
    if (words.size() < 2)
      fail(fmt::format("'{}' is not of the form NAME=VALUES", quoted(text)), {"such as Sq=Sk=512..16384 x2, D=64|128"});
    ShapeAxis axis;
    for (std::size_t n = 0; n + 1 < words.size(); ++n) {
      if (algorithm_.find_extent(words[n]) == nullptr) {
        std::vector<std::string> known;
        for (const Extent& extent : algorithm_.extents) known.push_back(extent.name);
        const std::string near = nearest_name(words[n], known);
        fail(fmt::format("the algorithm {} has no extent '{}'", algorithm_.name, quoted(words[n])),
             {near.empty() ? fmt::format("known are {}", fmt::join(known, ", "))
                           : fmt::format("did you mean {}?", near)});
      }
      if (!seen_.insert(words[n]).second) fail(fmt::format("{} is given twice", words[n]));
      axis.names.push_back(words[n]);
    }
    for (const std::string& value : split(words.back(), '|')) add_values(value, axis.values);
    std::vector<std::int64_t> sorted = axis.values;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      fail(fmt::format("'{}' has a value twice", quoted(text)));
    return axis;
  }

  /// "64", "512..16384 x2", "512..4096 +512"
  void add_values(const std::string& text, std::vector<std::int64_t>& values) const {
    const std::size_t dots = text.find("..");
    if (dots == std::string::npos) {
      values.push_back(number_of(text));
      return;
    }
    const std::size_t by = text.find_first_of("x+", dots);
    if (by == std::string::npos)
      fail(fmt::format("'{}' does not say by what it goes on", quoted(text)),
           {fmt::format("{} x2 doubles, {} +512 adds 512", quoted(text), quoted(text))});
    const std::int64_t from = number_of(trimmed(text.substr(0, dots)));
    const std::int64_t to = number_of(trimmed(text.substr(dots + 2, by - dots - 2)));
    const std::int64_t step = number_of(trimmed(text.substr(by + 1)));
    const bool factor = text[by] == 'x';
    if (factor && step < 2) fail(fmt::format("'{}' never ends, a factor is 2 at least", quoted(text)));
    if (from > to) fail(fmt::format("'{}' holds nothing: {} is over {}", quoted(text), from, to));
    for (std::int64_t value = from; value <= to; value = factor ? value * step : value + step) {
      if (values.size() >= kMostShapes) fail(fmt::format("'{}' has more than {} values", quoted(text), kMostShapes));
      values.push_back(value);
    }
  }

  const Algorithm& algorithm_;
  const std::string& where_;
  std::set<std::string> seen_;
};

void choose_winner(FrontierPoint& point) {
  const auto faster = [&](std::size_t n, const std::optional<std::size_t>& than) {
    return !than || point.times[n].seconds < point.times[*than].seconds;
  };
  for (std::size_t n = 0; n < point.times.size(); ++n) {
    if (!point.times[n].why_not.empty()) continue;
    if (faster(n, point.winner)) {
      point.runner_up = point.winner;
      point.winner = n;
    } else if (faster(n, point.runner_up)) {
      point.runner_up = n;
    }
  }
  if (point.runner_up) point.ratio = point.times[*point.runner_up].seconds / point.times[*point.winner].seconds;
}

/// A message without its numbers: one reason says another length at each shape.
std::string without_numbers(const std::string& message) {
  std::string out;
  for (const char c : message)
    if (c < '0' || c > '9') out += c;
  return out;
}

void count_reason(const std::string& why_not, std::map<std::string, std::size_t>& reasons) {
  const std::string reason = why_not.substr(0, why_not.find('\n'));
  for (auto& [other, count] : reasons)
    if (without_numbers(other) == without_numbers(reason)) {
      ++count;
      return;
    }
  reasons[reason] = 1;
}

}  // namespace

std::vector<ShapeAxis> parse_shape_axes(const std::string& text, const Algorithm& algorithm, const std::string& where) {
  return AxesParser(algorithm, where).parse(text);
}

std::vector<Extents> shapes_of(const std::vector<ShapeAxis>& axes, const Extents& sizes) {
  std::vector<Extents> shapes{sizes};
  for (std::size_t axis = axes.size(); axis-- > 0;) {
    std::vector<Extents> next;
    for (const Extents& shape : shapes)
      for (const std::int64_t value : axes[axis].values) {
        next.push_back(shape);
        for (const std::string& name : axes[axis].names) next.back()[name] = value;
      }
    shapes = std::move(next);
  }
  return shapes;
}

std::vector<NamedSchedule> frontier_schedules(const Target& target) {
  static constexpr const char* kCpu[] = {"cpu/standard", "cpu/fused_row", "cpu/flash1", "cpu/flash2", "cpu/decode"};
  static constexpr const char* kGpu[] = {"simt/standard",    "simt/fused_row",  "simt/flash1", "simt/flash2",
                                         "sm80/flash2",      "sm80/flash2_d64", "sm90/flash3", "sm90/flash3_d64",
                                         "sm90/flash3_d256", "simt/decode",     "sm80/decode", "sm90/decode"};
  std::vector<NamedSchedule> out;
  const auto add = [&](const char* name) {
    Schedule schedule = load_schedule(name);
    const Target* least = find_target(schedule.target);
    if (least != nullptr && least->compute_capability <= target.compute_capability)
      out.push_back({name, std::move(schedule)});
  };
  if (target.is_cuda()) {
    for (const char* name : kGpu) add(name);
  } else {
    for (const char* name : kCpu) add(name);
  }
  return out;
}

FrontierResult frontier(const Algorithm& algorithm, const std::vector<NamedSchedule>& schedules,
                        const FrontierOptions& options) {
  if (schedules.empty()) throw UserError("no schedule is named to compare");
  FrontierResult result;
  result.axes = options.axes;
  result.measured = options.device.has_value();
  for (const NamedSchedule& named : schedules) result.schedules.push_back(named.name);
  result.refused.resize(schedules.size());
  const std::vector<Extents> shapes = shapes_of(options.axes, options.sizes);
  for (const Extents& shape : shapes) {
    result.points.push_back({shape, std::vector<FrontierTime>(schedules.size()), {}, {}, 1});
    Diagnostics errors;
    check_extents(algorithm, shape, errors);
    errors.throw_if_any();
  }
  if (options.device) {
    BenchOptions measuring;
    measuring.device = *options.device;
    measuring.dtype = options.dtype;
    measuring.shapes = shapes;
    measuring.rounds = options.rounds;
    measuring.seed = options.seed;
    measuring.engine = options.engine;
    measuring.measurer = options.measurer;
    measuring.timeout_seconds = options.timeout_seconds;
    measuring.progress = options.progress;
    const BenchResult measured = bench(algorithm, schedules, measuring);
    result.machine = measured.device;
    for (std::size_t n = 0; n < measured.rows.size(); ++n) {
      const BenchRow& row = measured.rows[n];
      FrontierTime& time = result.points[row.shape].times[n % schedules.size()];
      time.seconds = row.median_ms / 1e3;
      // What is not legal says so itself.
      time.why_not = row.failure.empty() || row.failure == "refused" ? row.message : row.failure + ": " + row.message;
    }
  } else {
    result.machine = cost::machine_of(options.target).product;
    for (std::size_t at = 0; at < shapes.size(); ++at) {
      if (options.progress) options.progress(at);
      for (std::size_t n = 0; n < schedules.size(); ++n) {
        try {
          const SearchAnswer answer = ask_schedule(algorithm, schedules[n].schedule,
                                                   {options.target, shapes[at], options.dtype}, modelled_seconds);
          result.points[at].times[n] = {answer.seconds, answer.why_not};
        } catch (const InternalError& error) {
          // One that can't be timed is told apart from those that are not legal, and costs no other.
          result.points[at].times[n].why_not = std::string("a fault of ours: ") + error.what();
        }
      }
    }
  }
  for (FrontierPoint& point : result.points) {
    choose_winner(point);
    for (std::size_t n = 0; n < schedules.size(); ++n)
      if (!point.times[n].why_not.empty()) count_reason(point.times[n].why_not, result.refused[n]);
  }
  return result;
}

}  // namespace astatide
