#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "tools/plot/drawing.h"

namespace astatide::plot {

Panel draw(const Bars& bars) {
  check_series(bars.series.size());
  Drawing drawing;
  std::vector<std::pair<std::string, std::size_t>> legend;
  double most = 0;
  for (const Bars::Series& series : bars.series) {
    if (series.values.size() != bars.groups.size()) throw InternalError("bars without a value for each group");
    legend.emplace_back(series.name, legend.size());
    for (const auto& value : series.values) most = std::max(most, value.value_or(0));
  }
  Frame frame{72, kWidth - 16, draw_head(drawing, bars.labels, legend, false), 0};
  frame.bottom = frame.top + 260;
  const Axis y = Axis::linear(most, frame.bottom, frame.top);
  draw_axis_y(drawing, y, frame, bars.labels);
  drawing.line(frame.left, frame.bottom, frame.right, frame.bottom, "class=\"base\"");

  const double group = (frame.right - frame.left) / std::max<double>(1, static_cast<double>(bars.groups.size()));
  const double bar = std::min(0.8 * group / std::max<double>(1, static_cast<double>(bars.series.size())), 64.0);
  const double size = 10;
  for (std::size_t g = 0; g < bars.groups.size(); ++g) {
    const double middle = frame.left + (static_cast<double>(g) + 0.5) * group;
    const double first = middle - bar * static_cast<double>(bars.series.size()) / 2;
    for (std::size_t s = 0; s < bars.series.size(); ++s) {
      const auto& value = bars.series[s].values[g];
      if (!value) continue;
      const double top = y.place(*value), x = first + bar * static_cast<double>(s);
      drawing.rectangle(x, top, 0.92 * bar, frame.bottom - top, fmt::format("fill=\"{}\" class=\"bar\"", color(s)),
                        fmt::format("{}, {}: {:.4g}", bars.series[s].name, bars.groups[g], *value));
      const std::string text = fmt::format("{:.3g}", *value);
      if (text_width(text, size) <= bar) drawing.text(x + 0.46 * bar, top - 3, text, Anchor::middle, size);
    }
    drawing.text(middle, frame.bottom + 16, shorten(bars.groups[g], group - 4, size), Anchor::middle, size);
  }
  const double height = draw_foot(drawing, bars.labels, frame.bottom + 20, frame);
  return {kWidth, height, drawing.take()};
}

}  // namespace astatide::plot
