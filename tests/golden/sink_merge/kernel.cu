#include "memory.cuh"
#include "numeric.cuh"
#include "reduce.cuh"

extern "C" __global__ void __launch_bounds__(32, 1) sink_merge_kernel(
    const float* __restrict__ O_parts, long long O_parts_stride_0, long long O_parts_stride_1, long long O_parts_stride_2, long long O_parts_stride_3, long long O_parts_stride_4,
    const float* __restrict__ L_parts, long long L_parts_stride_0, long long L_parts_stride_1, long long L_parts_stride_2, long long L_parts_stride_3,
    const float* __restrict__ sink, long long sink_stride_0,
    float* O, long long O_stride_0, long long O_stride_1, long long O_stride_2, long long O_stride_3,
    float* L, long long L_stride_0, long long L_stride_1, long long L_stride_2, int parts, int B, int Hq, int Sq, int Dv) {
  const int thread = threadIdx.x;
  const int thread_row = threadIdx.x / 32, thread_column = threadIdx.x % 32;
  int block = blockIdx.x;  // one output tile
  const int i_o = block % Sq;
  block /= Sq;
  const int h = block % Hq;
  block /= Hq;
  const int b = block;
  float M_max[1];  // (i) = (1) over 1 x 32 threads
  float L_part[1];  // (i) = (1) over 1 x 32 threads
  float Z_sum[1];  // (i) = (1) over 1 x 32 threads
  float O_acc[2];  // (i, e) = (1, 64) over 1 x 32 threads
  float O_part[2];  // (i, e) = (1, 64) over 1 x 32 threads
  float O_tile[2];  // (i, e) = (1, 64) over 1 x 32 threads
  float L_tile[1];  // (i) = (1) over 1 x 32 threads
  float row[1];  // (i) = (1) over 1 x 32 threads
  float row_2[1];  // (i) = (1) over 1 x 32 threads
  float row_3[1];  // (i) = (1) over 1 x 32 threads
  const float* const L_parts_base = L_parts + b * L_parts_stride_1 + h * L_parts_stride_2;
  const float* const O_parts_base = O_parts + b * O_parts_stride_1 + h * O_parts_stride_2;

  #pragma unroll
  for (int r = 0; r < 1; ++r) {
    M_max[r] = -kInfinity;
  }
  #pragma unroll
  for (int r = 0; r < 1; ++r) {
    Z_sum[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 1; ++r) {
    #pragma unroll
    for (int c = 0; c < 2; ++c) {
      O_acc[r * 2 + c] = 0.0f;
    }
  }
  if (parts <= 16) {
    float L_part_batch[16][1];
    float O_part_batch[16][2];
    #pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int part = n;
      float(&L_part)[1] = L_part_batch[n];
      float(&O_part)[2] = O_part_batch[n];
      if (part < parts) {
        // L_part (i) = (1) <- L_parts
        #pragma unroll
        for (int r = 0; r < 1; ++r) {
          const int i = i_o + (r);
          L_part[r] = load1(L_parts_base + part * L_parts_stride_0 + i * L_parts_stride_3);
        }
        // O_part (i, e) = (1, 64) <- O_parts
        #pragma unroll
        for (int r = 0; r < 1; ++r) {
          #pragma unroll
          for (int c = 0; c < 2; ++c) {
            const int i = i_o + (r);
            const int e = thread_column + 32 * c;
            O_part[r * 2 + c] = load1(O_parts_base + part * O_parts_stride_0 + i * O_parts_stride_3 + e * O_parts_stride_4);
          }
        }
      }
    }
    #pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int part = n;
      float(&L_part)[1] = L_part_batch[n];
      if (part < parts) {
        // map M_max (i) = (1)
        #pragma unroll
        for (int r = 0; r < 1; ++r) {
          M_max[r] = fmaxf(M_max[r], L_part[r]);
        }
      }
    }
    #pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int part = n;
      float(&L_part)[1] = L_part_batch[n];
      float(&O_part)[2] = O_part_batch[n];
      if (part < parts) {
        // map Z_sum (i) = (1)
        #pragma unroll
        for (int r = 0; r < 1; ++r) {
          Z_sum[r] = Z_sum[r] + (fast_exp(safe(L_part[r]) - safe(fmaxf(L_part[r], to_float(*(sink + h * sink_stride_0))))) - fast_exp(to_float(*(sink + h * sink_stride_0)) - safe(fmaxf(L_part[r], to_float(*(sink + h * sink_stride_0)))))) * fast_exp(fmaxf(L_part[r], to_float(*(sink + h * sink_stride_0))) - safe(fmaxf(M_max[r], to_float(*(sink + h * sink_stride_0)))));
        }
        // map row (i) = (1)
        #pragma unroll
        for (int r = 0; r < 1; ++r) {
          row[r] = fast_exp(safe(L_part[r]) - safe(fmaxf(L_part[r], to_float(*(sink + h * sink_stride_0)))));
        }
        // map row_2 (i) = (1)
        #pragma unroll
        for (int r = 0; r < 1; ++r) {
          row_2[r] = fast_exp(fmaxf(L_part[r], to_float(*(sink + h * sink_stride_0))) - safe(fmaxf(M_max[r], to_float(*(sink + h * sink_stride_0)))));
        }
        // map O_acc (i, e) = (1, 64)
        #pragma unroll
        for (int r = 0; r < 1; ++r) {
          #pragma unroll
          for (int c = 0; c < 2; ++c) {
            O_acc[r * 2 + c] = O_acc[r * 2 + c] + O_part[r * 2 + c] * row[r] * row_2[r];
          }
        }
      }
    }
  }
  else {
    #pragma unroll 1
    for (int part_next = 0; part_next < parts; part_next += 16) {
      float L_part_batch[16][1];
      #pragma unroll
      for (int n = 0; n < 16; ++n) {
        const int part = part_next + n;
        float(&L_part)[1] = L_part_batch[n];
        if (part < parts) {
          // L_part (i) = (1) <- L_parts
          #pragma unroll
          for (int r = 0; r < 1; ++r) {
            const int i = i_o + (r);
            L_part[r] = load1(L_parts_base + part * L_parts_stride_0 + i * L_parts_stride_3);
          }
        }
      }
      #pragma unroll
      for (int n = 0; n < 16; ++n) {
        const int part = part_next + n;
        float(&L_part)[1] = L_part_batch[n];
        if (part < parts) {
          // map M_max (i) = (1)
          #pragma unroll
          for (int r = 0; r < 1; ++r) {
            M_max[r] = fmaxf(M_max[r], L_part[r]);
          }
        }
      }
    }
    #pragma unroll 1
    for (int part_next = 0; part_next < parts; part_next += 16) {
      float L_part_batch[16][1];
      float O_part_batch[16][2];
      #pragma unroll
      for (int n = 0; n < 16; ++n) {
        const int part = part_next + n;
        float(&L_part)[1] = L_part_batch[n];
        float(&O_part)[2] = O_part_batch[n];
        if (part < parts) {
          // L_part (i) = (1) <- L_parts
          #pragma unroll
          for (int r = 0; r < 1; ++r) {
            const int i = i_o + (r);
            L_part[r] = load1(L_parts_base + part * L_parts_stride_0 + i * L_parts_stride_3);
          }
          // O_part (i, e) = (1, 64) <- O_parts
          #pragma unroll
          for (int r = 0; r < 1; ++r) {
            #pragma unroll
            for (int c = 0; c < 2; ++c) {
              const int i = i_o + (r);
              const int e = thread_column + 32 * c;
              O_part[r * 2 + c] = load1(O_parts_base + part * O_parts_stride_0 + i * O_parts_stride_3 + e * O_parts_stride_4);
            }
          }
        }
      }
      #pragma unroll
      for (int n = 0; n < 16; ++n) {
        const int part = part_next + n;
        float(&L_part)[1] = L_part_batch[n];
        float(&O_part)[2] = O_part_batch[n];
        if (part < parts) {
          // map Z_sum (i) = (1)
          #pragma unroll
          for (int r = 0; r < 1; ++r) {
            Z_sum[r] = Z_sum[r] + (fast_exp(safe(L_part[r]) - safe(fmaxf(L_part[r], to_float(*(sink + h * sink_stride_0))))) - fast_exp(to_float(*(sink + h * sink_stride_0)) - safe(fmaxf(L_part[r], to_float(*(sink + h * sink_stride_0)))))) * fast_exp(fmaxf(L_part[r], to_float(*(sink + h * sink_stride_0))) - safe(fmaxf(M_max[r], to_float(*(sink + h * sink_stride_0)))));
          }
          // map row (i) = (1)
          #pragma unroll
          for (int r = 0; r < 1; ++r) {
            row[r] = fast_exp(safe(L_part[r]) - safe(fmaxf(L_part[r], to_float(*(sink + h * sink_stride_0)))));
          }
          // map row_2 (i) = (1)
          #pragma unroll
          for (int r = 0; r < 1; ++r) {
            row_2[r] = fast_exp(fmaxf(L_part[r], to_float(*(sink + h * sink_stride_0))) - safe(fmaxf(M_max[r], to_float(*(sink + h * sink_stride_0)))));
          }
          // map O_acc (i, e) = (1, 64)
          #pragma unroll
          for (int r = 0; r < 1; ++r) {
            #pragma unroll
            for (int c = 0; c < 2; ++c) {
              O_acc[r * 2 + c] = O_acc[r * 2 + c] + O_part[r * 2 + c] * row[r] * row_2[r];
            }
          }
        }
      }
    }
  }
  // map row_3 (i) = (1)
  #pragma unroll
  for (int r = 0; r < 1; ++r) {
    row_3[r] = reciprocal(Z_sum[r] + fast_exp(to_float(*(sink + h * sink_stride_0)) - safe(fmaxf(M_max[r], to_float(*(sink + h * sink_stride_0))))));
  }
  // map O_tile (i, e) = (1, 64)
  #pragma unroll
  for (int r = 0; r < 1; ++r) {
    #pragma unroll
    for (int c = 0; c < 2; ++c) {
      O_tile[r * 2 + c] = absorb(O_acc[r * 2 + c], row_3[r]);
    }
  }
  // O <- O_tile (i, e) = (1, 64)
  #pragma unroll
  for (int r = 0; r < 1; ++r) {
    #pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int i = i_o + (r);
      const int e = thread_column + 32 * c;
      *(O + b * O_stride_0 + h * O_stride_1 + i * O_stride_2 + e * O_stride_3) = O_tile[r * 2 + c];
    }
  }
  // map L_tile (i) = (1)
  #pragma unroll
  for (int r = 0; r < 1; ++r) {
    L_tile[r] = fmaxf(M_max[r], to_float(*(sink + h * sink_stride_0))) + fast_log(Z_sum[r] + fast_exp(to_float(*(sink + h * sink_stride_0)) - safe(fmaxf(M_max[r], to_float(*(sink + h * sink_stride_0))))));
  }
  // L <- L_tile (i) = (1)
  #pragma unroll
  for (int r = 0; r < 1; ++r) {
    const int i = i_o + (r);
    if (thread_column == 0) *(L + b * L_stride_0 + h * L_stride_1 + i * L_stride_2) = L_tile[r];
  }
}
