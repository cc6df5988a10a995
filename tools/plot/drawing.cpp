#include "tools/plot/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "compiler/support/diagnostic.h"

namespace astatide::plot {
namespace {

/// Of Okabe and Ito, then of Tol's muted scheme: colours that people who see few of them can tell apart, on white and
/// on black.
const std::string kColors[] = {"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9",
                               "#8c8c8c", "#aa4499", "#999933", "#6a5acd", "#b8860b", "#44aa99"};
static_assert(std::size(kColors) == kMostSeries);

constexpr double kLegendRow = 18, kLegendGap = 18, kMargin = 12;

/// A number of a picture: a tenth of a pixel is enough, and no machine rounds it otherwise.
std::string at(double value) {
  if (!std::isfinite(value)) throw InternalError("a picture holds a number that is not finite");
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string closed(const std::string& element, const std::string& title) {
  return title.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", escape(title), element);
}

}  // namespace

const std::string& color(std::size_t series) { return kColors[series % kMostSeries]; }

void check_series(std::size_t count) {
  if (count > kMostSeries)
    throw UserError(fmt::format("a picture of {} series is not legible, {} have colours", count, kMostSeries),
                    {"fewer schedules, or several pictures"});
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // XML has no other control characters; bytes of UTF-8 pass.
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  return out;
}

double text_width(const std::string& text, double size) {
  const auto characters =
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  return 0.6 * size * static_cast<double>(characters);
}

std::string shorten(const std::string& text, double width, double size) {
  if (text_width(text, size) <= width) return text;
  std::string out = text;
  while (!out.empty() && text_width(out + "..", size) > width) {
    // A character of UTF-8 whole.
    while (out.size() > 1 && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
    out.pop_back();
  }
  return out + "..";
}

void Drawing::rectangle(double x, double y, double width, double height, const std::string& style,
                        const std::string& title) {
  body_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" {}{})", at(x), at(y), at(width), at(height), style,
                       closed("rect", title));
}

void Drawing::line(double x0, double y0, double x1, double y1, const std::string& style) {
  body_ += fmt::format(R"(<line x1="{}" y1="{}" x2="{}" y2="{}" {}/>)"
                       "\n",
                       at(x0), at(y0), at(x1), at(y1), style);
}

void Drawing::polyline(const std::vector<std::pair<double, double>>& points, const std::string& style) {
  std::string places;
  for (const auto& [x, y] : points) places += fmt::format("{}{},{}", places.empty() ? "" : " ", at(x), at(y));
  body_ += fmt::format("<polyline points=\"{}\" fill=\"none\" {}/>\n", places, style);
}

void Drawing::marker(std::size_t shape, double x, double y, const std::string& title) {
  constexpr double r = 4;
  const std::string fill = fmt::format("fill=\"{}\" class=\"marker\"", color(shape));
  const auto polygon = [&](const std::vector<std::pair<double, double>>& corners) {
    std::string places;
    for (const auto& [dx, dy] : corners)
      places += fmt::format("{}{},{}", places.empty() ? "" : " ", at(x + r * dx), at(y + r * dy));
    body_ += fmt::format(R"(<polygon points="{}" {}{})", places, fill, closed("polygon", title));
  };
  switch (shape % 6) {
    case 0:
      body_ +=
          fmt::format(R"(<circle cx="{}" cy="{}" r="{}" {}{})", at(x), at(y), at(r), fill, closed("circle", title));
      break;
    case 1:
      return polygon({{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}});
    case 2:
      return polygon({{0, -1.2}, {1.1, 0.8}, {-1.1, 0.8}});
    case 3:
      return polygon({{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}});
    case 4:
      return polygon({{0, 1.2}, {1.1, -0.8}, {-1.1, -0.8}});
    default:
      return polygon({{-1.3, -0.5},
                      {-0.5, -0.5},
                      {-0.5, -1.3},
                      {0.5, -1.3},
                      {0.5, -0.5},
                      {1.3, -0.5},
                      {1.3, 0.5},
                      {0.5, 0.5},
                      {0.5, 1.3},
                      {-0.5, 1.3},
                      {-0.5, 0.5},
                      {-1.3, 0.5}});
  }
}

void Drawing::text(double x, double y, const std::string& text, Anchor anchor, double size, const std::string& style) {
  static constexpr const char* kAnchors[] = {"start", "middle", "end"};
  body_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{}\" {}>{}</text>\n", at(x), at(y),
                       at(size), kAnchors[static_cast<int>(anchor)], style, escape(text));
}

void Drawing::text_upwards(double x, double y, const std::string& text) {
  body_ += fmt::format(
      "<text x=\"{0}\" y=\"{1}\" font-size=\"{2}\" text-anchor=\"middle\" class=\"text\" transform=\"rotate(-90 {0} "
      "{1})\">{3}</text>\n",
      at(x), at(y), at(kFont), escape(text));
}

double draw_head(Drawing& drawing, const Labels& labels, const std::vector<std::pair<std::string, std::size_t>>& legend,
                 bool markers) {
  double y = 24;
  drawing.text(kMargin, y, shorten(labels.title, kWidth - 2 * kMargin, 15), Anchor::start, 15, "class=\"title\"");
  if (legend.empty()) return y + 14;
  double x = kMargin;
  y += 22;
  for (const auto& [name, index] : legend) {
    const std::string shown = shorten(name, kWidth - 2 * kMargin - 18);
    const double width = 18 + text_width(shown);
    if (x > kMargin && x + width > kWidth - kMargin) {
      x = kMargin;
      y += kLegendRow;
    }
    if (markers) {
      drawing.marker(index, x + 6, y - 4, "");
    } else {
      drawing.rectangle(x, y - 10, 12, 12, fmt::format("fill=\"{}\" class=\"key\"", color(index)));
    }
    drawing.text(x + 18, y, shown, Anchor::start, kFont, "class=\"text legend\"");
    x += width + kLegendGap;
  }
  return y + 16;
}

void draw_axis_y(Drawing& drawing, const Axis& axis, const Frame& frame, const Labels& labels) {
  for (const double tick : axis.ticks()) {
    const double y = axis.place(tick);
    drawing.line(frame.left, y, frame.right, y, "class=\"grid\"");
    drawing.text(frame.left - 6, y + 4, tick_text(tick), Anchor::end);
  }
  drawing.text_upwards(16, (frame.top + frame.bottom) / 2, shorten(labels.y, frame.bottom - frame.top));
}

void draw_axis_x(Drawing& drawing, const Axis& axis, const Frame& frame) {
  for (const double tick : axis.ticks()) {
    const double x = axis.place(tick);
    drawing.line(x, frame.top, x, frame.bottom, "class=\"grid\"");
    drawing.text(x, frame.bottom + 18, tick_text(tick), Anchor::middle);
  }
}

double draw_foot(Drawing& drawing, const Labels& labels, double below, const Frame& frame) {
  double y = below;
  if (!labels.x.empty()) {
    y += 16;
    drawing.text((frame.left + frame.right) / 2, y, shorten(labels.x, frame.right - frame.left), Anchor::middle);
  }
  if (!labels.source.empty()) {
    y += 20;
    drawing.text(kMargin, y, shorten(labels.source, kWidth - 2 * kMargin, 10), Anchor::start, 10, "class=\"source\"");
  }
  return y + 12;
}

std::string to_svg(const std::vector<Panel>& panels) {
  double width = kWidth, height = 0;
  std::string body;
  for (const Panel& panel : panels) {
    body += fmt::format("<g transform=\"translate(0 {})\">\n{}</g>\n", at(height), panel.body);
    width = std::max(width, panel.width);
    height += panel.height;
  }
  // The page's own colours where it is dark; what does not know of that shows the light ones on white.
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"Helvetica, Arial, sans-serif\">\n"
      "<style>.page {{ fill: #ffffff }} .text, .title {{ fill: #1f2328 }} .title {{ font-weight: bold }} .source {{ "
      "fill: #59636e }} .grid {{ stroke: #d1d9e0; stroke-width: 1 }} .base, .roof {{ stroke: #59636e }} .cell {{ fill: "
      "#000000 }} .none {{ fill: #e6eaef }}\n"
      "@media (prefers-color-scheme: dark) {{ .page {{ fill: #0d1117 }} .text, .title {{ fill: #e6edf3 }} .source {{ "
      "fill: #9198a1 }} .grid {{ stroke: #30363d }} .base, .roof {{ stroke: #9198a1 }} .none {{ fill: #8b949e }} }}\n"
      "</style>\n"
      "<rect x=\"0\" y=\"0\" width=\"{0}\" height=\"{1}\" class=\"page\"/>\n{2}</svg>\n",
      at(width), at(height), body);
}

}  // namespace astatide::plot
