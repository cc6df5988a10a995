#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tools/plot/drawing.h"

namespace astatide::plot {
namespace {

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  Axis axis(bool log, double from, double to) const {
    if (least > most) return Axis::linear(1, from, to);
    return log ? Axis::logarithmic(least, most, from, to) : Axis::linear(most, from, to);
  }
};

}  // namespace

Panel draw(const Lines& lines) {
  check_series(lines.series.size());
  Drawing drawing;
  std::vector<std::pair<std::string, std::size_t>> legend;
  Range of_x, of_y;
  for (const Lines::Series& series : lines.series) {
    legend.emplace_back(series.name, series.color);
    for (const auto& [x, y] : series.points) of_x.add(x), of_y.add(y);
  }
  Frame frame{72, kWidth - 24, draw_head(drawing, lines.labels, legend, true), 0};
  frame.bottom = frame.top + 280;
  const Axis x = of_x.axis(lines.log_x, frame.left, frame.right);
  const Axis y = of_y.axis(lines.log_y, frame.bottom, frame.top);
  draw_axis_y(drawing, y, frame, lines.labels);
  draw_axis_x(drawing, x, frame);
  for (const Lines::Series& series : lines.series) {
    std::vector<std::pair<double, double>> places;
    for (const auto& [px, py] : series.points) places.emplace_back(x.place(px), y.place(py));
    if (places.size() > 1)
      drawing.polyline(places, fmt::format("stroke=\"{}\" stroke-width=\"2\" class=\"series\"", color(series.color)));
    for (std::size_t n = 0; n < places.size(); ++n)
      drawing.marker(
          series.color, places[n].first, places[n].second,
          fmt::format("{}: {}, {:.4g}", series.name, tick_text(series.points[n].first), series.points[n].second));
  }
  const double height = draw_foot(drawing, lines.labels, frame.bottom + 22, frame);
  return {kWidth, height, drawing.take()};
}

}  // namespace astatide::plot
