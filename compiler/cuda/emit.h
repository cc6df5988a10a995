#pragma once

#include <string>
#include <vector>

#include "compiler/tile/ir.h"
#include "compiler/tile/parameters.h"

namespace astatide::cuda {

/// CUDA source of a program, for NVRTC or nvcc, and what a launch needs beside it.
struct Source {
  struct KernelInfo {
    std::string name;               // extern "C"
    int threads = 0;                // of a block, in one dimension
    std::int64_t shared_bytes = 0;  // dynamic
    int cluster = 1;                // blocks, of which the grid is a multiple
    bool dependent = false;         // may start before the kernels in front have ended
    std::vector<tile::Parameter> parameters;
  };
  std::string text;
  std::vector<KernelInfo> kernels;  // in launch order
};

/// Emits every kernel of a program that the whole pass table has run over. The text includes the device headers of
/// runtime/device by name. Grids are one-dimensional: block n computes tile n of the kernel's tile axes, the first
/// varying fastest; blocks of a cluster follow each other, and their number along its axis is rounded up to whole ones.
Source emit(const tile::Program& program);

}  // namespace astatide::cuda
