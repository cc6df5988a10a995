#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/tile/ir.h"

namespace astatide {

/// One iteration in three, each in the order of the loop's body.
struct IterationParts {
  tile::Block ahead;    // the product that runs ahead, last, and what it needs
  tile::Block middle;   // may wait for both
  tile::Block delayed;  // the other product, last, and what changes its result before it
};

/// What a statement does, as text, whatever it tests: loops of a chain agree in it.
std::string form_of(const tile::Stmt& stmt);

/// Splits the body of a loop. Of what could be delayed with the product only statements of the forms in `common` are,
/// where that is given. Throws UserError, at the request's place, where the products can't be told apart or need each
/// other.
IterationParts parts_of(const tile::For& loop, const tile::Overlap& request,
                        const std::optional<std::set<std::string>>& common);

/// Of the text of a statement: for messages.
std::string first_line(const tile::Stmt& stmt);
/// The first statement that conflicts with `started`, or the size of the block.
std::size_t first_conflict(const tile::Block& block, const tile::Stmt& started);
/// "`map P = ..` reads S, which `mma S = ..` writes".
std::string describe_conflict(const tile::Stmt& stmt, const std::string& when, const tile::Stmt& other);

[[noreturn]] void refuse_overlap(const tile::Overlap& request, const std::string& why,
                                 std::vector<std::string> notes = {});

}  // namespace astatide
