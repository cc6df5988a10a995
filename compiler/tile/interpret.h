#pragma once

#include <map>
#include <string>

#include "compiler/algorithm/evaluate.h"
#include "compiler/tile/ir.h"

namespace astatide::tile {

/// Runs a program as it stands after any pass, in double precision, tile by tile: what the passes are checked against.
/// A tile that is read before it is written, an index out of a tensor's shape that no limit guards, and a ring slot
/// used out of turn are InternalErrors. Tokens, syncs and roles order nothing here. Scratch tensors and outputs start
/// as NaN.
std::map<std::string, DoubleTensor> interpret(const Program& program, const Algorithm& algorithm,
                                              const Arguments& arguments);

}  // namespace astatide::tile
