// Tensor cores of sm_80 and later: mma.sync, ldmatrix and cp.async (PTX ISA, "Warp Level Matrix Instructions" and "Data
// Movement and Conversion Instructions").
#pragma once

#include "numeric.cuh"

// Place of an element of a tile in panels of 128 bytes of columns, 64 of 16 bits or 32 of 32, `kRows` rows each: inside
// a panel's row a chunk of 16 bytes lies at its number xor the row's, modulo 8.
template <int kRows, int kColumns = 64>
__device__ __forceinline__ int in_panels(int row, int column) {
  return column / kColumns * (kRows * kColumns) + row * kColumns + (column % kColumns ^ (row & 7) * (kColumns / 8));
}

// Two floats as a register of 16-bit elements, the first in the low half.
template <class T>
__device__ __forceinline__ unsigned pack2(float first, float second);
template <>
__device__ __forceinline__ unsigned pack2<f16>(float first, float second) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
template <>
__device__ __forceinline__ unsigned pack2<bf16>(float first, float second) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

// The four threads of a row exchange registers: x[n] becomes what thread n held in x[lane], lane = 0 .. 3 in the row.
__device__ __forceinline__ void quad_transpose(unsigned (&x)[4], int lane) {
  const bool upper = lane & 2, odd = lane & 1;
  const unsigned a = __shfl_xor_sync(0xffffffffu, upper ? x[0] : x[2], 2);
  const unsigned b = __shfl_xor_sync(0xffffffffu, upper ? x[1] : x[3], 2);
  // Without an index that the compiler does not know, which would put x into memory.
  x[0] = upper ? a : x[0], x[1] = upper ? b : x[1], x[2] = upper ? x[2] : a, x[3] = upper ? x[3] : b;
  const unsigned c = __shfl_xor_sync(0xffffffffu, odd ? x[0] : x[1], 1);
  const unsigned d = __shfl_xor_sync(0xffffffffu, odd ? x[2] : x[3], 1);
  x[0] = odd ? c : x[0], x[1] = odd ? x[1] : c, x[2] = odd ? d : x[2], x[3] = odd ? x[3] : d;
}
// 16 bytes to an address in global memory that is a multiple of 16, if `present`. As a plain store the compiler splits
// some, and branches around others.
__device__ __forceinline__ void store16(void* to, const unsigned (&x)[4], bool present) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p st.global.v4.b32 [%0], {%1, %2, %3, %4}; }" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(static_cast<int>(present))
               : "memory");
}

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// A number that all lanes of a warp hold alike. The result lies in a uniform register, and is not computed again.
__device__ __forceinline__ unsigned uniform(unsigned x) { return __reduce_or_sync(0xffffffffu, x); }

// The same number, of which the compiler knows nothing: what follows from it is computed here, not kept in registers
// from in front of a loop.
__device__ __forceinline__ int anew(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// blockIdx.x, read anew.
__device__ __forceinline__ int block_number() {
  int number;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(number));
  return number;
}

// Four matrices of 8 x 8 16-bit elements; lane 8 * n + r gives the address, in shared memory, of row r of matrix n.
__device__ __forceinline__ void ldmatrix4(unsigned (&d)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void ldmatrix4_transposed(unsigned (&d)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(row)
               : "memory");
}

// D += A * B: `upper` points to the two columns of row g, `lower` to those of row g + 8.
template <class T>
__device__ __forceinline__ void mma_16x8x16(float* upper, float* lower, unsigned a0, unsigned a1, unsigned a2,
                                            unsigned a3, unsigned b0, unsigned b1);
template <>
__device__ __forceinline__ void mma_16x8x16<f16>(float* upper, float* lower, unsigned a0, unsigned a1, unsigned a2,
                                                 unsigned a3, unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void mma_16x8x16<bf16>(float* upper, float* lower, unsigned a0, unsigned a1, unsigned a2,
                                                  unsigned a3, unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// A float as the nearest tf32, halves away from zero (PTX ISA, cvt.rna.tf32): the instruction would cut off what it
// does not read. Infinities and NaN stay what they are.
__device__ __forceinline__ unsigned to_tf32(float x) {
  unsigned y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ unsigned to_tf32(unsigned x) { return to_tf32(__uint_as_float(x)); }
__device__ __forceinline__ void to_tf32(unsigned (&x)[4]) {
  x[0] = to_tf32(x[0]), x[1] = to_tf32(x[1]), x[2] = to_tf32(x[2]), x[3] = to_tf32(x[3]);
}
// 4 bytes from an address in shared memory.
__device__ __forceinline__ unsigned load_shared4(unsigned from) {
  unsigned x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
  return x;
}
// D += A * B of tf32: rows as above, A's columns t and t + 4 of thread t in a row, B's rows alike.
__device__ __forceinline__ void mma_16x8x8(float* upper, float* lower, unsigned a0, unsigned a1, unsigned a2,
                                           unsigned a3, unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// 16 bytes from global to an address in shared memory, or zeros where they are absent.
__device__ __forceinline__ void cp_async16(unsigned to, const void* from, bool present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(present ? 16 : 0) : "memory");
}
__device__ __forceinline__ void copy16(unsigned to, const void* from, bool present) {
  const uint4 x = present ? *static_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most kOpen of this thread's groups are open.
template <int kOpen>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}
