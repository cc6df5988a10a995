#pragma once

#include <map>
#include <string>

#include "compiler/algorithm/evaluate.h"
#include "compiler/tile/ir.h"

namespace astatide::tile {

struct InterpretOptions {
  /// Round what is stored in a tile or a tensor to its type. Off, every value is a double, so that programs before and
  /// after a pass can be compared closely.
  bool round_storage = false;
  /// Blocks that the machine is to hold at once, by which a program chooses parts.
  std::int64_t resident_blocks = 8;
};

/// Runs a program as it stands after any pass, in double precision, tile by tile: what the passes are checked against.
/// A tile that is read before it is written, an index out of a tensor's shape that no limit guards, and a ring slot
/// used out of turn are InternalErrors, and so is a program with roles, which run at the same time. Tokens and syncs
/// order nothing here. Scratch tensors and outputs start as NaN. Returns the outputs.
std::map<std::string, DoubleTensor> interpret(const Program& program, const Algorithm& algorithm,
                                              const Arguments& arguments);

/// The same for a program with no algorithm beside it: every scalar is given.
std::map<std::string, DoubleTensor> interpret(const Program& program, const Arguments& arguments,
                                              const InterpretOptions& options = {});

}  // namespace astatide::tile
