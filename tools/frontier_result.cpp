#include "tools/frontier_result.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/plot/plot.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

/// "Sq=Sk"
std::string names_text(const ShapeAxis& axis) { return fmt::format("{}", fmt::join(axis.names, "=")); }

/// Columns of the grid, and how many there are.
std::size_t columns_of(const FrontierResult& result) {
  return result.axes.empty() ? 1 : result.axes.front().values.size();
}

/// "D=Dv=64", or nothing where one axis is all there is.
std::string row_text(const FrontierResult& result, std::size_t row) {
  std::string text;
  const auto& extents = result.points[row * columns_of(result)].extents;
  for (std::size_t n = 1; n < result.axes.size(); ++n) {
    const ShapeAxis& axis = result.axes[n];
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", names_text(axis), extents.at(axis.names.front()));
  }
  return text;
}

std::string where_text(const FrontierResult& result) {
  return result.measured ? fmt::format("measured on {}", result.machine)
                         : fmt::format("predicted by the cost model for {}", result.machine);
}

/// Extents that are the same at all points.
std::string fixed_text(const FrontierResult& result) {
  std::map<std::string, std::int64_t> fixed = result.points.front().extents;
  for (const ShapeAxis& axis : result.axes)
    for (const std::string& name : axis.names) fixed.erase(name);
  return extents_text(fixed);
}

}  // namespace

std::string frontier_text(const Frontiers& frontiers) {
  const FrontierResult& result = frontiers.result;
  std::string text = fmt::format("{}, {}, {}: {}\n\n", frontiers.algorithm, name_of(frontiers.dtype),
                                 fixed_text(result), where_text(result));
  std::size_t width = 6;
  for (const std::string& name : result.schedules) width = std::max(width, name.size());
  for (const ShapeAxis& axis : result.axes) text += fmt::format("{:>12} ", names_text(axis));
  text += fmt::format("  {:<{}} {:>12}  {:<{}} {:>12} {:>9}  {}\n", "winner", width, "ms", "runner-up", width, "ms",
                      "/ winner", "refused");
  for (const FrontierPoint& point : result.points) {
    for (const ShapeAxis& axis : result.axes) text += fmt::format("{:>12} ", point.extents.at(axis.names.front()));
    const auto time = [&](const std::optional<std::size_t>& n) {
      return n ? fmt::format("{:.4f}", 1e3 * point.times[*n].seconds) : "";
    };
    std::size_t refused = 0;
    for (const FrontierTime& one : point.times) refused += one.why_not.empty() ? 0 : 1;
    text += fmt::format("  {:<{}} {:>12}  {:<{}} {:>12} {:>9}  {}\n",
                        point.winner ? result.schedules[*point.winner] : "none is legal", width, time(point.winner),
                        point.runner_up ? result.schedules[*point.runner_up] : "", width, time(point.runner_up),
                        point.runner_up ? fmt::format("{:.2f}", point.ratio) : "", refused);
  }
  for (std::size_t n = 0; n < result.schedules.size(); ++n)
    for (const auto& [reason, count] : result.refused[n])
      text += fmt::format("{}{} is refused at {} of {} shapes, as: {}\n", n == 0 ? "\n" : "", result.schedules[n],
                          count, result.points.size(), reason);
  return text;
}

std::string frontier_json(const Frontiers& frontiers) {
  const FrontierResult& result = frontiers.result;
  nlohmann::json json = {{"ok", true},
                         {"algorithm", frontiers.algorithm},
                         {"dtype", name_of(frontiers.dtype)},
                         {"machine", result.machine},
                         {"measured", result.measured},
                         {"schedules", result.schedules},
                         {"refused", nlohmann::json::object()},
                         {"points", nlohmann::json::array()}};
  for (std::size_t n = 0; n < result.schedules.size(); ++n)
    if (!result.refused[n].empty()) json["refused"][result.schedules[n]] = result.refused[n];
  for (const FrontierPoint& point : result.points) {
    nlohmann::json one = {{"shape", point.extents}, {"ms", nlohmann::json::object()}};
    for (std::size_t n = 0; n < result.schedules.size(); ++n)
      if (point.times[n].why_not.empty()) one["ms"][result.schedules[n]] = 1e3 * point.times[n].seconds;
    if (point.winner) one["winner"] = result.schedules[*point.winner];
    if (point.runner_up) {
      one["runner_up"] = result.schedules[*point.runner_up];
      one["ratio"] = point.ratio;
    }
    json["points"].push_back(std::move(one));
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string frontier_svg(const Frontiers& frontiers) {
  const FrontierResult& result = frontiers.result;
  const std::size_t columns = columns_of(result), rows = result.points.size() / columns;
  const std::string what = fmt::format("{}, {}, {}", frontiers.algorithm, name_of(frontiers.dtype), fixed_text(result));
  const std::string source = "astatide frontier; " + where_text(result);
  const std::string across = result.axes.empty() ? "" : names_text(result.axes.front());
  plot::Cells cells{
      {"Fastest schedule: " + what,
       across + (across.empty() ? "" : "; ") + "in the cells, time of the runner-up over that of the winner", "",
       source},
      {},
      {},
      result.schedules,
      {}};
  for (std::size_t c = 0; c < columns; ++c)
    cells.columns.push_back(result.axes.empty() ? "" : std::to_string(result.axes.front().values[c]));
  for (std::size_t r = 0; r < rows; ++r) {
    cells.rows.push_back(row_text(result, r));
    std::vector<plot::Cells::Cell>& row = cells.cells.emplace_back();
    for (std::size_t c = 0; c < columns; ++c) {
      const FrontierPoint& point = result.points[r * columns + c];
      row.push_back({point.winner, !point.winner     ? "none"
                                   : point.runner_up ? fmt::format("{:.2f}x", point.ratio)
                                                     : "alone"});
    }
  }
  std::vector<plot::Panel> panels{plot::draw(cells)};
  // Lines need an axis that has some length.
  for (std::size_t r = 0; r < rows && r < kMostPanels && columns > 1; ++r) {
    plot::Lines lines{
        {fmt::format("Time over {}{}", across, rows > 1 ? ": " + cells.rows[r] : ""), across, "ms", source},
        true,
        true,
        {}};
    for (std::size_t n = 0; n < result.schedules.size(); ++n) {
      plot::Lines::Series series{result.schedules[n], {}, n};
      for (std::size_t c = 0; c < columns; ++c) {
        const FrontierTime& time = result.points[r * columns + c].times[n];
        // What takes no time has no place on a logarithmic axis.
        if (time.why_not.empty() && time.seconds > 0)
          series.points.emplace_back(static_cast<double>(result.axes.front().values[c]), 1e3 * time.seconds);
      }
      std::sort(series.points.begin(), series.points.end());
      if (!series.points.empty()) lines.series.push_back(std::move(series));
    }
    panels.push_back(plot::draw(lines));
  }
  return plot::to_svg(panels);
}

}  // namespace astatide::tools
