#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/plot/axis.h"
#include "tools/plot/plot.h"

namespace astatide::plot {

inline constexpr double kWidth = 760;
inline constexpr double kFont = 12;

enum class Anchor { start, middle, end };

/// Text as XML has it.
std::string escape(const std::string& text);
/// What a text takes across, rather more than less: no font is known.
double text_width(const std::string& text, double size = kFont);
/// Cut to a width, with two dots at the end.
std::string shorten(const std::string& text, double width, double size = kFont);

/// Elements of an SVG, as text.
class Drawing {
 public:
  void rectangle(double x, double y, double width, double height, const std::string& style,
                 const std::string& title = "");
  void line(double x0, double y0, double x1, double y1, const std::string& style);
  void polyline(const std::vector<std::pair<double, double>>& points, const std::string& style);
  /// One of as many shapes as there are colours.
  void marker(std::size_t shape, double x, double y, const std::string& title);
  void text(double x, double y, const std::string& text, Anchor anchor = Anchor::start, double size = kFont,
            const std::string& style = "class=\"text\"");
  void text_upwards(double x, double y, const std::string& text);
  std::string take() { return std::move(body_); }

 private:
  std::string body_;
};

const std::string& color(std::size_t series);

/// Where the data goes, with title and legend above, and what is below.
struct Frame {
  double left = 0, right = 0, top = 0, bottom = 0;
};
/// Title and legend; returns the first free place below them. A legend wraps where a line is full.
double draw_head(Drawing& drawing, const Labels& labels, const std::vector<std::pair<std::string, std::size_t>>& legend,
                 bool markers);
/// Grid lines, ticks, names of the axes.
void draw_axis_y(Drawing& drawing, const Axis& axis, const Frame& frame, const Labels& labels);
void draw_axis_x(Drawing& drawing, const Axis& axis, const Frame& frame);
/// Name of the x axis and the source; returns the height of the picture.
double draw_foot(Drawing& drawing, const Labels& labels, double below, const Frame& frame);
void check_series(std::size_t count);

}  // namespace astatide::plot
