#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "tools/plot/drawing.h"

namespace astatide::plot {

Panel draw(const Cells& cells) {
  check_series(cells.names.size());
  if (cells.cells.size() != cells.rows.size()) throw InternalError("a grid without cells for each row");
  Drawing drawing;
  std::vector<std::pair<std::string, std::size_t>> legend;
  // Who wins nowhere is not explained.
  for (std::size_t n = 0; n < cells.names.size(); ++n) {
    const auto wins = [&](const Cells::Cell& cell) { return cell.winner == n; };
    if (std::any_of(cells.cells.begin(), cells.cells.end(),
                    [&](const auto& row) { return std::any_of(row.begin(), row.end(), wins); }))
      legend.emplace_back(cells.names[n], n);
  }
  double left = 40;
  for (const std::string& row : cells.rows) left = std::max(left, 36 + text_width(row));
  left = std::min(left, kWidth / 3);
  Frame frame{left, kWidth - 16, draw_head(drawing, cells.labels, legend, false), 0};
  constexpr double kRow = 34, kSize = 10;
  const double width = (frame.right - frame.left) / std::max<double>(1, static_cast<double>(cells.columns.size()));
  for (std::size_t r = 0; r < cells.rows.size(); ++r) {
    const double top = frame.top + kRow * static_cast<double>(r);
    drawing.text(frame.left - 8, top + kRow / 2 + 4, shorten(cells.rows[r], frame.left - 36), Anchor::end);
    if (cells.cells[r].size() != cells.columns.size()) throw InternalError("a grid without cells for each column");
    for (std::size_t c = 0; c < cells.columns.size(); ++c) {
      const Cells::Cell& cell = cells.cells[r][c];
      const double x = frame.left + width * static_cast<double>(c);
      const std::string style =
          cell.winner ? fmt::format("fill=\"{}\" class=\"won\"", color(*cell.winner)) : "class=\"none\"";
      drawing.rectangle(x + 1, top + 1, width - 2, kRow - 2, style,
                        fmt::format("{}, {}: {} {}", cells.rows[r], cells.columns[c],
                                    cell.winner ? cells.names.at(*cell.winner) : "nobody", cell.text));
      drawing.text(x + width / 2, top + kRow / 2 + 4, shorten(cell.text, width - 4, kSize), Anchor::middle, kSize,
                   "class=\"cell\"");
    }
  }
  frame.bottom = frame.top + kRow * static_cast<double>(cells.rows.size());
  for (std::size_t c = 0; c < cells.columns.size(); ++c)
    drawing.text(frame.left + width * (static_cast<double>(c) + 0.5), frame.bottom + 16,
                 shorten(cells.columns[c], width - 2), Anchor::middle);
  if (!cells.rows.empty())
    drawing.text_upwards(16, (frame.top + frame.bottom) / 2, shorten(cells.labels.y, frame.bottom - frame.top));
  const double height = draw_foot(drawing, cells.labels, frame.bottom + 20, frame);
  return {kWidth, height, drawing.take()};
}

}  // namespace astatide::plot
