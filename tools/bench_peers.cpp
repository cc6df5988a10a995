#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <sstream>

#include "tools/bench_result.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    std::string field = line.substr(begin, end - begin);
    const std::size_t first = field.find_first_not_of(" \t\r"), last = field.find_last_not_of(" \t\r");
    out.push_back(first == std::string::npos ? "" : field.substr(first, last + 1 - first));
    begin = end + 1;
  }
  return out;
}

class PeersParser {
 public:
  PeersParser(const std::string& file, const Algorithm& algorithm) : file_(file), algorithm_(algorithm) {}

  std::vector<Peer> parse(const std::string& text) {
    std::istringstream lines(text);
    std::vector<Peer> peers;
    for (std::string line; std::getline(lines, line);) {
      ++number_;
      if (line.find_first_not_of(" \t\r") == std::string::npos || line.starts_with("#")) continue;
      if (columns_.empty()) {
        columns_ = fields_of(line);
        check_columns();
        errors_.throw_if_any();
      } else {
        add_peer(fields_of(line), peers);
      }
    }
    if (columns_.empty()) error("the file has no line with the names of columns");
    errors_.throw_if_any();
    return peers;
  }

 private:
  void error(const std::string& message, std::vector<std::string> notes = {}) {
    errors_.error({file_, std::max(number_, 1), 0, {}}, message, std::move(notes));
  }

  static std::optional<BenchValue> figure_of(const std::string& column) {
    if (column == "ms") return BenchValue::ms;
    if (column == "tflops") return BenchValue::tflops;
    if (column == "gbs") return BenchValue::gbs;
    return std::nullopt;
  }

  void check_columns() {
    std::vector<std::string> known{"name", "dtype", "ms", "tflops", "gbs"};
    for (const Extent& extent : algorithm_.extents) known.push_back(extent.name);
    int names = 0, figures = 0;
    for (const std::string& column : columns_) {
      names += column == "name" ? 1 : 0;
      figures += figure_of(column) ? 1 : 0;
      if (std::count(columns_.begin(), columns_.end(), column) > 1)
        error(fmt::format("the column '{}' stands there twice", column));
      if (std::find(known.begin(), known.end(), column) == known.end())
        error(fmt::format("no column '{}' is known for {}", column, algorithm_.name), suggestion(column, known));
    }
    if (names != 1) error("a column `name` is wanted");
    if (figures != 1) error(fmt::format("one column of ms, tflops and gbs is wanted, there are {}", figures));
  }

  void add_peer(const std::vector<std::string>& fields, std::vector<Peer>& peers) {
    if (fields.size() != columns_.size())
      return error(fmt::format("{} fields, the first line names {} columns", fields.size(), columns_.size()));
    Peer peer;
    for (std::size_t n = 0; n < fields.size(); ++n) {
      const std::string &column = columns_[n], &field = fields[n];
      if (column == "name") {
        if (field.empty()) error("a figure without a name");
        peer.name = field;
      } else if (const auto figure = figure_of(column)) {
        const auto value = number_of<double>(field);
        if (!value || !std::isfinite(*value) || *value <= 0)
          error(fmt::format("{} is '{}', wanted is a number over 0", column, field));
        peer.what = *figure;
        peer.value = value.value_or(1);
      } else if (field.empty()) {
        continue;
      } else if (column == "dtype") {
        peer.dtype = parse_scalar_type(field);
        if (!peer.dtype) error(fmt::format("no type '{}'", field), suggestion(field, {"f32", "f16", "bf16"}));
      } else {
        const auto value = number_of<std::int64_t>(field);
        if (!value) error(fmt::format("{} is '{}', wanted is a whole number", column, field));
        peer.extents[column] = value.value_or(0);
      }
    }
    peers.push_back(std::move(peer));
  }

  const std::string& file_;
  const Algorithm& algorithm_;
  Diagnostics errors_;
  int number_ = 0;
  std::vector<std::string> columns_;
};

}  // namespace

bool Peer::is_for(const BenchShape& shape, ScalarType type) const {
  if (dtype && *dtype != type) return false;
  return std::all_of(extents.begin(), extents.end(),
                     [&](const auto& extent) { return shape.extents.at(extent.first) == extent.second; });
}

double Peer::ms(const BenchShape& shape) const {
  switch (what) {
    case BenchValue::tflops:
      return shape.flops / value / 1e9;
    case BenchValue::gbs:
      return shape.bytes / value / 1e6;
    case BenchValue::ms:
      break;
  }
  return value;
}

std::vector<Peer> parse_peers(const std::string& text, const std::string& file, const Algorithm& algorithm) {
  return PeersParser(file, algorithm).parse(text);
}

}  // namespace astatide::tools
