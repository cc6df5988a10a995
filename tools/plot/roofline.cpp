#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "tools/plot/drawing.h"

namespace astatide::plot {
namespace {

constexpr double kTera = 1e12;

struct Box {
  double left, right, top, bottom;
  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

/// Where a label stands beside its dot: the first place that is free, nearest first.
Box find_free(double x, double y, double width, const Frame& frame, const std::vector<Box>& taken) {
  constexpr double kHeight = 12, kGap = 8, kMostSteps = 40;
  for (double step = 0; step <= kMostSteps; ++step)
    for (const double sign : {-1.0, 1.0})
      for (const bool right : {true, false}) {
        const double left = right ? x + kGap : x - kGap - width, top = y - kHeight / 2 + sign * step * 6;
        const Box box{left, left + width, top, top + kHeight};
        if (box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom)
          continue;
        if (std::none_of(taken.begin(), taken.end(), [&](const Box& other) { return box.meets(other); })) return box;
      }
  // Nothing is free: as far inside as it goes.
  const double left = std::clamp(x + kGap, frame.left, std::max(frame.left, frame.right - width));
  return {left, left + width, y - kHeight / 2, y + kHeight / 2};
}

}  // namespace

Panel draw(const Roofline& roofline) {
  if (!(roofline.rate > 0) || !(roofline.bandwidth > 0)) throw InternalError("a roofline of a machine without rates");
  Drawing drawing;
  Frame frame{72, kWidth - 24, draw_head(drawing, roofline.labels, {}, true), 0};
  frame.bottom = frame.top + 340;
  const double ridge = roofline.rate / roofline.bandwidth;
  double least_x = ridge / 16, most_x = 16 * ridge, least_y = roofline.rate / 256;
  for (const Roofline::Dot& dot : roofline.dots) {
    least_x = std::min(least_x, dot.intensity), most_x = std::max(most_x, dot.intensity);
    least_y = std::min(least_y, dot.rate);
  }
  double most_y = roofline.rate;
  for (const Roofline::Dot& dot : roofline.dots) most_y = std::max(most_y, dot.rate);
  const Axis x = Axis::logarithmic(least_x, most_x, frame.left, frame.right);
  // In TFLOP/s, whose powers of two are short.
  const Axis y = Axis::logarithmic(least_y / kTera, 1.01 * most_y / kTera, frame.bottom, frame.top);
  draw_axis_y(drawing, y, frame, roofline.labels);
  draw_axis_x(drawing, x, frame);

  // The slope begins where the axis does, or where the axis below it ends.
  const double first = std::max(x.least(), y.least() * kTera / roofline.bandwidth);
  drawing.polyline({{x.place(first), y.place(first * roofline.bandwidth / kTera)},
                    {x.place(ridge), y.place(roofline.rate / kTera)},
                    {x.place(x.most()), y.place(roofline.rate / kTera)}},
                   "stroke-width=\"2.5\" class=\"roof\"");
  drawing.text(frame.right - 4, y.place(roofline.rate / kTera) - 6,
               fmt::format("{:.4g} TFLOP/s", roofline.rate / kTera), Anchor::end);
  drawing.line(x.place(ridge), y.place(roofline.rate / kTera), x.place(ridge), frame.bottom,
               "class=\"roof\" stroke-dasharray=\"3 4\"");
  std::vector<Box> taken;
  const std::string below = fmt::format("ridge {:.3g} FLOP/byte", ridge);
  const double ridge_x = x.place(ridge) + 6;
  drawing.text(ridge_x, frame.bottom - 8, below);
  taken.push_back({ridge_x, ridge_x + text_width(below), frame.bottom - 20, frame.bottom});
  taken.push_back(
      {frame.right - 110, frame.right, y.place(roofline.rate / kTera) - 18, y.place(roofline.rate / kTera) + 2});

  constexpr double kSize = 11;
  for (const Roofline::Dot& dot : roofline.dots) {
    const double px = x.place(dot.intensity), py = y.place(dot.rate / kTera);
    taken.push_back({px - 5, px + 5, py - 5, py + 5});
  }
  for (std::size_t n = 0; n < roofline.dots.size(); ++n) {
    const Roofline::Dot& dot = roofline.dots[n];
    const double px = x.place(dot.intensity), py = y.place(dot.rate / kTera);
    const std::string name = shorten(dot.name, 260, kSize);
    const Box box = find_free(px, py, text_width(name, kSize), frame, taken);
    taken.push_back(box);
    // A label that had to go far is tied to its dot.
    if (std::abs((box.top + box.bottom) / 2 - py) > 12)
      drawing.line(px, py, box.left > px ? box.left : box.right, (box.top + box.bottom) / 2, "class=\"grid\"");
    drawing.marker(n, px, py,
                   fmt::format("{}: {:.4g} FLOP/byte, {:.4g} TFLOP/s", dot.name, dot.intensity, dot.rate / kTera));
    drawing.text(box.left, box.bottom - 2, name, Anchor::start, kSize, "class=\"text label\"");
  }
  const double height = draw_foot(drawing, roofline.labels, frame.bottom + 22, frame);
  return {kWidth, height, drawing.take()};
}

}  // namespace astatide::plot
