#include "tools/bench_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/plot/plot.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

std::vector<const Peer*> peers_of(const Benched& benched, std::size_t shape) {
  std::vector<const Peer*> out;
  for (const Peer& peer : benched.peers)
    if (peer.is_for(benched.result.shapes[shape], benched.dtype)) out.push_back(&peer);
  return out;
}

/// A rate needs work to be of: a shape where nothing ran has none.
bool has_value(const Peer& peer, const BenchShape& shape) {
  return peer.what == BenchValue::ms || (shape.flops > 0 && shape.bytes > 0);
}

std::string checked_text(const BenchShape& shape) {
  return shape.check_extents == shape.extents
             ? "all outputs against the evaluator"
             : fmt::format("against the evaluator at {}, and the whole against the first schedule",
                           extents_text(shape.check_extents));
}

/// A field of CSV.
std::string field(std::string text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, "\"");
  return '"' + text + '"';
}

}  // namespace

std::string unit_of(BenchValue value) {
  return value == BenchValue::ms ? "ms" : value == BenchValue::tflops ? "TFLOP/s" : "GB/s";
}

double value_of(BenchValue value, double ms, const BenchShape& shape) {
  if (value == BenchValue::ms) return ms;
  return value == BenchValue::tflops ? shape.flops / ms / 1e9 : shape.bytes / ms / 1e6;
}

std::string short_shape(const std::vector<BenchShape>& all, std::size_t shape) {
  std::map<std::string, std::int64_t> shown;
  for (const auto& [name, value] : all[shape].extents)
    if (std::any_of(all.begin(), all.end(), [&, name = name, value = value](const BenchShape& other) {
          return other.extents.at(name) != value;
        }))
      shown[name] = value;
  return extents_text(shown.empty() ? all[shape].extents : shown);
}

std::string bench_text(const Benched& benched) {
  const BenchResult& result = benched.result;
  std::string text = fmt::format("{} on {}, {}\n", benched.algorithm, result.device, name_of(benched.dtype));
  std::size_t width = 12;
  for (const BenchRow& row : result.rows) width = std::max(width, row.schedule.size());
  for (const Peer& peer : benched.peers) width = std::max(width, peer.name.size());
  for (std::size_t n = 0; n < result.shapes.size(); ++n) {
    const BenchShape& shape = result.shapes[n];
    text += fmt::format("\n{}\n  {:<{}} {:>10} {:>10} {:>10} {:>10} {:>8} {:>7} {:>10}\n", extents_text(shape.extents),
                        "schedule", width, "ms", "least", "TFLOP/s", "GB/s", "/ first", "sure", "predicted");
    for (const BenchRow& row : result.rows) {
      if (row.shape != n) continue;
      if (!row.failure.empty()) {
        text += fmt::format("  {:<{}} {}: {}\n", row.schedule, width, row.failure, first_line(row.message));
        continue;
      }
      // How sure it is that the faster one of the two is.
      const bool first = &row == &result.rows[*shape.first];
      text += fmt::format("  {:<{}} {:>10.4f} {:>10.4f} {:>10.4g} {:>10.4g} {:>8.3f} {:>7} {:>10}\n", row.schedule,
                          width, row.median_ms, row.least_ms, value_of(BenchValue::tflops, row.median_ms, shape),
                          value_of(BenchValue::gbs, row.median_ms, shape), row.ratio,
                          first ? "" : fmt::format("{:.1f} %", 100 * row.confidence),
                          row.predicted_ms ? fmt::format("{:.4f}", *row.predicted_ms) : "");
    }
    for (const Peer* peer : peers_of(benched, n)) {
      if (!has_value(*peer, shape)) continue;
      const double ms = peer->ms(shape);
      text += fmt::format("  {:<{}} {:>10.4f} {:>10} {:>10.4g} {:>10.4g} {:>8}  from the file of peers\n", peer->name,
                          width, ms, "", value_of(BenchValue::tflops, ms, shape), value_of(BenchValue::gbs, ms, shape),
                          shape.first ? fmt::format("{:.3f}", ms / result.rows[*shape.first].median_ms) : "");
    }
    if (shape.first) text += fmt::format("  checked: {}\n", checked_text(shape));
    if (shape.first && !shape.not_visible.empty())
      text += fmt::format("  TFLOP/s of tiles that are computed: {}\n", shape.not_visible);
  }
  if (!result.method.empty()) text += fmt::format("\nmethod: {}\n", result.method);
  return text +
         "TFLOP/s: the algorithm's products, where no mask hides them; GB/s: inputs and outputs once; / first: time "
         "over that of the first schedule\n";
}

std::string bench_json(const Benched& benched) {
  const BenchResult& result = benched.result;
  nlohmann::json json = {{"ok", true},
                         {"algorithm", benched.algorithm},
                         {"dtype", name_of(benched.dtype)},
                         {"device", result.device},
                         {"driver", result.driver},
                         {"method", result.method},
                         {"shapes", nlohmann::json::array()}};
  for (std::size_t n = 0; n < result.shapes.size(); ++n) {
    const BenchShape& shape = result.shapes[n];
    nlohmann::json one = {{"shape", shape.extents},
                          {"flops", shape.flops},
                          {"flops_of", shape.not_visible.empty() ? "visible" : "computed"},
                          {"bytes", shape.bytes},
                          {"check_shape", shape.check_extents},
                          {"rows", nlohmann::json::array()},
                          {"peers", nlohmann::json::array()}};
    if (!shape.not_visible.empty()) one["not_visible"] = shape.not_visible;
    for (const BenchRow& row : result.rows) {
      if (row.shape != n) continue;
      nlohmann::json own = {{"schedule", row.schedule}, {"ok", row.failure.empty()}};
      if (!row.failure.empty()) {
        own["failure"] = row.failure;
        own["message"] = row.message;
      } else {
        own["time_ms"] = {{"median", row.median_ms}, {"min", row.least_ms}, {"samples", row.samples_ms}};
        own["tflops"] = value_of(BenchValue::tflops, row.median_ms, shape);
        own["gbs"] = value_of(BenchValue::gbs, row.median_ms, shape);
        own["ratio"] = row.ratio;
        own["confidence"] = row.confidence;
        own["registers"] = row.registers;
        own["spill_bytes"] = row.spill_bytes;
        if (row.predicted_ms) own["predicted_ms"] = *row.predicted_ms;
      }
      one["rows"].push_back(std::move(own));
    }
    for (const Peer* peer : peers_of(benched, n))
      if (has_value(*peer, shape)) one["peers"].push_back({{"name", peer->name}, {"ms", peer->ms(shape)}});
    json["shapes"].push_back(std::move(one));
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string bench_csv(const Benched& benched) {
  const BenchResult& result = benched.result;
  std::string text = "name,kind,dtype";
  if (!result.shapes.empty())
    for (const auto& [name, value] : result.shapes[0].extents) text += "," + name;
  text += ",ms,min_ms,tflops,gbs,ratio,confidence,predicted_ms,why_not\n";
  for (std::size_t n = 0; n < result.shapes.size(); ++n) {
    const BenchShape& shape = result.shapes[n];
    const auto start = [&](const std::string& name, const std::string& kind) {
      text += fmt::format("{},{},{}", field(name), kind, name_of(benched.dtype));
      for (const auto& [extent, value] : shape.extents) text += fmt::format(",{}", value);
    };
    for (const BenchRow& row : result.rows) {
      if (row.shape != n) continue;
      start(row.schedule, "schedule");
      if (!row.failure.empty()) {
        text += fmt::format(",,,,,,,,{}\n", field(row.failure + ": " + first_line(row.message)));
      } else {
        text += fmt::format(",{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},\n", row.median_ms, row.least_ms,
                            value_of(BenchValue::tflops, row.median_ms, shape),
                            value_of(BenchValue::gbs, row.median_ms, shape), row.ratio, row.confidence,
                            row.predicted_ms ? fmt::format("{:.6g}", *row.predicted_ms) : "");
      }
    }
    for (const Peer* peer : peers_of(benched, n)) {
      if (!has_value(*peer, shape)) continue;
      start(peer->name, "peer");
      const double ms = peer->ms(shape);
      text += fmt::format(",{:.6g},,{:.6g},{:.6g},,,,\n", ms, value_of(BenchValue::tflops, ms, shape),
                          value_of(BenchValue::gbs, ms, shape));
    }
  }
  return text;
}

std::string bench_svg(const Benched& benched) {
  const BenchResult& result = benched.result;
  plot::Bars bars;
  bars.labels.title = fmt::format("{}, {}, on {}", benched.algorithm, name_of(benched.dtype), result.device);
  bars.labels.y = unit_of(benched.value);
  bars.labels.source =
      fmt::format("astatide bench; medians of {} rounds; {}",
                  result.rows.empty() ? 0
                                      : std::max_element(result.rows.begin(), result.rows.end(),
                                                         [](const BenchRow& a, const BenchRow& b) {
                                                           return a.samples_ms.size() < b.samples_ms.size();
                                                         })
                                            ->samples_ms.size(),
                  result.method);
  for (std::size_t n = 0; n < result.shapes.size(); ++n) bars.groups.push_back(short_shape(result.shapes, n));
  const auto series = [&](const std::string& name) -> plot::Bars::Series& {
    for (plot::Bars::Series& one : bars.series)
      if (one.name == name) return one;
    bars.series.push_back({name, std::vector<std::optional<double>>(bars.groups.size())});
    return bars.series.back();
  };
  // Schedules in the order in which they were named, also where one never ran.
  for (const NamedSchedule& named : benched.schedules) series(named.name);
  for (const BenchRow& row : result.rows)
    if (row.failure.empty())
      series(row.schedule).values[row.shape] = value_of(benched.value, row.median_ms, result.shapes[row.shape]);
  for (std::size_t n = 0; n < result.shapes.size(); ++n)
    for (const Peer* peer : peers_of(benched, n))
      if (has_value(*peer, result.shapes[n]))
        if (benched.value == BenchValue::ms || result.shapes[n].flops > 0)
          series(peer->name).values[n] = value_of(benched.value, peer->ms(result.shapes[n]), result.shapes[n]);
  return plot::to_svg(bars);
}

}  // namespace astatide::tools
