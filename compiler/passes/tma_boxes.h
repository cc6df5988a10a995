// What TMA copies and what it does not: refusals of tiles that are no boxes.
#pragma once

#include "compiler/tile/ir.h"

namespace astatide {

/// Throws a UserError at the staging's place unless a tile with these rows, which lie in pages of `length` rows, is a
/// whole number of boxes: a box has the rows of a page, or the tile's where it is a part of one.
void check_boxes(const tile::View& view, const tile::Dim& rows, std::int64_t length, const tile::Staging& staging);

/// The view is no tile of boxes, whatever its numbers are: a UserError that says what would be one.
[[noreturn]] void throw_no_boxes(const tile::View& view, const tile::Dim& rows, const tile::Staging& staging);

}  // namespace astatide
