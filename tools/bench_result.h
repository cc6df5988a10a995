#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/bench.h"

namespace astatide::tools {

/// What is shown of a time.
enum class BenchValue { ms, tflops, gbs };
std::string unit_of(BenchValue value);
/// A time as that; rates are over the shape's operations or bytes.
double value_of(BenchValue value, double ms, const BenchShape& shape);

/// A line of a file of peers.
struct Peer {
  std::string name;
  std::map<std::string, std::int64_t> extents;  // those that it names
  std::optional<ScalarType> dtype;
  BenchValue what = BenchValue::ms;
  double value = 0;

  bool is_for(const BenchShape& shape, ScalarType dtype) const;
  double ms(const BenchShape& shape) const;
};

/// The text of a CSV file: a first line with the names of columns, `name`, extents of the algorithm, `dtype`, and one
/// of `ms`, `tflops`, `gbs`; then a line for each figure. Empty fields of extents and `dtype` stand for any. Throws
/// UserError with the line, all problems at once.
std::vector<Peer> parse_peers(const std::string& text, const std::string& file, const Algorithm& algorithm);

/// All that one bench gives.
struct Benched {
  std::string algorithm;
  ScalarType dtype = ScalarType::f32;
  std::vector<NamedSchedule> schedules;
  std::vector<Peer> peers;
  BenchValue value = BenchValue::tflops;
  BenchResult result;
};

std::string bench_text(const Benched& benched);
std::string bench_json(const Benched& benched);
std::string bench_csv(const Benched& benched);
std::string bench_svg(const Benched& benched);

/// "B=2, S*=4096": extents that have the value of the shape, those of `all` shapes that are equal left out.
std::string short_shape(const std::vector<BenchShape>& all, std::size_t shape);

}  // namespace astatide::tools
