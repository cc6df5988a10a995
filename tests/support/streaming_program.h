#pragma once

#include "compiler/tile/ir.h"

namespace astatide::testing {

/// Sizes of a hand-written program.
struct StreamingSizes {
  int rows = 64, columns = 64;  // of a tile of scores
  int head_dim = 64, value_dim = 64;
  ScalarType type = ScalarType::f32;  // of Q, K, V and O
  bool causal = false;                // score (i, j) counts where j <= i + Sk - Sq
};

/// O[b,h,i,:] = sum over j of softmax(scale * Q[b,h,i,:] . K[b,h,j,:])_j * V[b,h,j,:] and L[b,h,i], the logarithm of
/// the sum, in one pass over j: what a schedule with the state of a row of tiles in registers lowers to, after all
/// passes. Extents B, H, Sq, Sk; scalar c = scale * log2(e); `D` and `Dv` are known.
tile::Program streaming_program(const StreamingSizes& sizes);

/// The same in three kernels, with scores and weights in scratch tensors.
tile::Program three_kernel_program(const StreamingSizes& sizes);

}  // namespace astatide::testing
