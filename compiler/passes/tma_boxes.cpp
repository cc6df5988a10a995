#include "compiler/passes/tma_boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compiler/support/diagnostic.h"
#include "compiler/tile/bounds.h"

namespace astatide {
namespace {

constexpr std::int64_t kShownPage = 64;  // rows, where a message shows a length of pages

/// The length of pages along an axis that is no number: what an index takes it modulo.
std::optional<Expr> page_length(const tile::View& view, const std::string& axis) {
  std::optional<Expr> length;
  for (const Expr& index : view.indices)
    visit(index, [&](const Expr& e) {
      if (e.is_call(Op::mod) && e.as<Call>()->args[0] == variable(axis) &&
          e.as<Call>()->args[1].as<Integer>() == nullptr)
        length = e.as<Call>()->args[1];
    });
  return length;
}

}  // namespace

void check_boxes(const tile::View& view, const tile::Dim& rows, std::int64_t length, const tile::Staging& staging) {
  constexpr int kLeast = 8;  // after so many rows the swizzle of panels begins anew
  const std::int64_t box = std::min<std::int64_t>(length, rows.extent);
  const std::vector<std::string> notes{"copy: cp_async, without warps"};
  if (length % kLeast != 0)
    throw UserError(staging.where,
                    fmt::format("copy of {0}: tma copies boxes of a multiple of {1} rows, and a page of {0} has {2}",
                                view.tensor, kLeast, length),
                    notes);
  if (rows.extent % box != 0 || length % box != 0) {
    std::int64_t fitting = rows.extent / box * box;  // the next smaller tile
    while (fitting % length != 0 && length % fitting != 0) --fitting;
    throw UserError(
        staging.where,
        fmt::format("copy of {0}: tma copies whole pages of {0} or parts of one, and {1} rows of a tile "
                    "along {2} are no whole number of pages of {3}, nor pages of such tiles",
                    view.tensor, rows.extent, rows.axis, length),
        {fmt::format("tile: {{{}: {}}} or another such number, or copy: cp_async, without warps", rows.axis, fitting)});
  }
  if (!tile::is_multiple(view.at.front().origin, box))
    throw UserError(staging.where,
                    fmt::format("copy of {0}: a tile of {0} begins at {1} = {2}, which need not be a multiple of the "
                                "{3} rows of a box",
                                view.tensor, rows.axis, to_string(view.at.front().origin), box),
                    notes);
}

void throw_no_boxes(const tile::View& view, const tile::Dim& rows, const tile::Staging& staging) {
  if (const std::optional<Expr> length = page_length(view, rows.axis))
    throw UserError(
        staging.where,
        fmt::format("copy of {0}: tma copies pages of a constant length that divides the {1} rows of a tile along "
                    "{2}, or is a multiple of them, and those of {0} have the length {3}, which a launch gives",
                    view.tensor, rows.extent, rows.axis, to_string(*length)),
        {fmt::format("a number such as {0} in place of {1} in the algorithm: {2}/{0} and {2}%{0}",
                     std::min<std::int64_t>(rows.extent, kShownPage), to_string(*length), rows.axis),
         "copy: cp_async, without warps, takes any length"});
  throw UserError(
      staging.where,
      fmt::format("copy of {0}: tma copies tiles whose rows and columns are elements of {0} one after the other, "
                  "and an index of {0} is an expression over them",
                  view.tensor),
      {"copy: cp_async, without warps"});
}

}  // namespace astatide
