#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/tile/ir.h"
#include "compiler/tile/parameters.h"

namespace astatide::cpu {

/// What code is generated for. `triple`, `cpu` and `features` are spelled as LLVM spells them.
struct CpuHost {
  std::string triple, cpu, features;
  int vector_bytes = 16;
  int vector_registers = 16;
  bool avx512 = false;           // 512-bit vectors with masks
  bool gather = false;           // of 32-bit elements, one instruction
  bool half_conversion = false;  // between f16 and f32, one instruction a vector

  int lanes() const { return vector_bytes / 4; }
};

/// The machine that runs this program.
CpuHost detect_host();
/// A host by LLVM's names, such as ("x86_64-pc-linux-gnu", "haswell", "+avx2,+fma"). Throws UserError where LLVM does
/// not know the triple.
CpuHost describe_host(const std::string& triple, const std::string& cpu, const std::string& features);

/// A kernel in a module: void symbol(const uint64_t* args, int64_t tile_begin, int64_t tile_end, void* workspace).
///
/// It computes the output tiles tile_begin .. tile_end - 1 of the linearised tile axes, first axis fastest. `args`
/// holds one word a parameter, in order: pointers, strides (in elements) and extents as 64-bit integers, scalars as the
/// bits of an f32 in the low half. `workspace` is 64-byte aligned and private to the calling thread during the call;
/// its contents need no initialisation and mean nothing afterwards.
struct CpuKernel {
  std::string symbol;
  std::vector<tile::Parameter> parameters;
  std::vector<tile::TileAxis> tiles;
  std::int64_t workspace_bytes = 0;
};

/// LLVM bitcode, not yet optimised: the optimiser runs where it is compiled to machine code.
struct CpuModule {
  std::string name;
  std::string bitcode;
  CpuHost host;
  std::vector<CpuKernel> kernels;  // in launch order
};

/// Vector code for a program as it stands after any pass from relax_rescale and stage_tiles on. Syncs and the GPU's
/// layouts mean nothing here. Throws UserError where a tile can't be held in memory, InternalError on a statement that
/// an earlier pass should have removed.
CpuModule emit_llvm(const tile::Program& program, const CpuHost& host);

/// The same as text: `emit --stage llvm`.
std::string emit_llvm_text(const tile::Program& program, const CpuHost& host);

}  // namespace astatide::cpu
