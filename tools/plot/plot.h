#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Pictures of numbers, as SVG: pure functions from data to text, the same on every machine. Numbers that are not finite
// are InternalErrors; what can't be drawn legibly (too many series) is refused with a UserError.

namespace astatide::plot {

/// Series have colours and shapes of their own up to here.
inline constexpr std::size_t kMostSeries = 12;

struct Labels {
  std::string title;
  std::string x, y;    // of the axes, with their units
  std::string source;  // where the numbers come from; below the picture
};

/// Bars side by side, a group of them for each name. Nothing is drawn where there is no value.
struct Bars {
  struct Series {
    std::string name;
    std::vector<std::optional<double>> values;  // by group, from 0 on
  };
  Labels labels;
  std::vector<std::string> groups;
  std::vector<Series> series;
};

/// Lines over an axis. On logarithmic axes all values are over 0.
struct Lines {
  struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;  // in the order of x
    std::size_t color = 0;                          // series that are the same in several pictures keep theirs
  };
  Labels labels;
  bool log_x = true, log_y = true;
  std::vector<Series> series;
};

/// What a machine reaches, by operations a byte, and kernels as dots. Both axes are logarithmic, rates in TFLOP/s.
struct Roofline {
  struct Dot {
    std::string name;
    double intensity = 0;  // operations a byte
    double rate = 0;       // operations a second
  };
  Labels labels;
  double rate = 0;       // operations a second at most
  double bandwidth = 0;  // bytes a second
  std::vector<Dot> dots;
};

/// A grid of cells, each in the colour of who wins there.
struct Cells {
  struct Cell {
    std::optional<std::size_t> winner;  // of `names`; none: nobody
    std::string text;
  };
  Labels labels;
  std::vector<std::string> columns, rows, names;
  std::vector<std::vector<Cell>> cells;  // by row, then by column
};

/// A part of a picture, in its own coordinates from (0, 0) on.
struct Panel {
  double width = 0, height = 0;
  std::string body;
};
Panel draw(const Bars& bars);
Panel draw(const Lines& lines);
Panel draw(const Roofline& roofline);
Panel draw(const Cells& cells);

/// An SVG file of panels, one below the other.
std::string to_svg(const std::vector<Panel>& panels);
template <class Picture>
std::string to_svg(const Picture& picture) {
  return to_svg(std::vector<Panel>{draw(picture)});
}

}  // namespace astatide::plot
