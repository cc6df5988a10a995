// Offsets past 2^31 elements, pytorch/pytorch#190857: tensors stored as [rows, B, D], where 32 bits wrap from B = 700
// on. One batch item of 700 holds numbers, the others NaN, so that an element of another item is seen.
#include <catch2/catch.hpp>

#include "tests/gpu/device_tensor.h"
#include "tests/gpu/require_gpu.h"
#include "tests/support/case_run.h"
#include "tests/support/schedule_cases.h"

using namespace astatide;
using namespace astatide::testing;

namespace {

constexpr std::int64_t kBatch = 700, kWidth = 128, kRowsPast = 24000;
constexpr std::int64_t kItem = kBatch - 1;  // the one with the largest offsets
static_assert((kRowsPast - 1) * kBatch * kWidth > std::int64_t{1} << 31);
constexpr std::size_t kRowBytes = kWidth * 2;

/// [rows, B, D] in device memory.
class ManyItems {
 public:
  ManyItems(const runtime::Context& context, std::int64_t rows)
      : rows_(rows), tensor_(context, ScalarType::bf16, {rows, kBatch, kWidth}) {}

  /// As [B, 1, rows, D].
  TensorView view() const {
    return {tensor_.view().data, ScalarType::bf16, {kBatch, 1, rows_, kWidth}, {kWidth, kWidth, kBatch * kWidth, 1}};
  }
  void fill(const runtime::Stream& stream) { tensor_.buffer().fill(std::byte{0xff}, stream); }
  void put(const runtime::HostTensor& item, const runtime::Stream& stream) {
    fill(stream);
    for (std::int64_t row = 0; row < rows_; ++row)
      tensor_.buffer().copy_from_host(std::span<const std::byte>(*item.data).subspan(host(row), kRowBytes), stream,
                                      device(row));
  }
  runtime::HostTensor take(const runtime::Stream& stream) {
    runtime::HostTensor item = runtime::zeros(ScalarType::bf16, {1, 1, rows_, kWidth});
    for (std::int64_t row = 0; row < rows_; ++row)
      tensor_.buffer().copy_to_host(std::span<std::byte>(*item.data).subspan(host(row), kRowBytes), stream,
                                    device(row));
    return item;
  }

 private:
  static std::size_t host(std::int64_t row) { return static_cast<std::size_t>(row) * kRowBytes; }
  static std::size_t device(std::int64_t row) { return static_cast<std::size_t>(row * kBatch + kItem) * kRowBytes; }

  std::int64_t rows_;
  DeviceTensor tensor_;
};

/// Plain loads, cp.async and TMA.
std::vector<std::string> schedules_to_try() {
  std::vector<std::string> names{"simt/flash2"};
  for (const std::string& name : tensor_core_schedule_names())
    if (runs_here(name) && head_size_of(name) >= kWidth && !for_few_queries(name)) names.push_back(name);
  return names;
}

/// The item among 700 has the bits that it has alone.
void check_item(std::int64_t queries, std::int64_t keys) {
  const runtime::Context context = runtime::Context::primary(0);
  const auto bytes = static_cast<std::size_t>(2 * (queries + keys) * kBatch) * kRowBytes;
  // Contexts and other processes take some of it.
  if (context.device().memory_bytes < bytes + bytes / 2) ASTATIDE_SKIP("the device has too little memory");
  const runtime::ScopedCurrent scope(context);
  const runtime::Stream stream = runtime::Stream::create(context);
  Case alone;
  alone.algorithm = attention();
  alone.extents = {{"B", 1}, {"Hq", 1}, {"Hkv", 1}, {"Sq", queries}, {"Sk", keys}, {"D", kWidth}, {"Dv", kWidth}};
  alone.dtype = ScalarType::bf16;
  fill_gaussian(alone, 71);

  ManyItems q(context, queries), k(context, keys), v(context, keys), o(context, queries);
  DeviceTensor l(context, ScalarType::f32, {kBatch, 1, queries});
  q.put(alone.inputs.at("Q"), stream);
  k.put(alone.inputs.at("K"), stream);
  v.put(alone.inputs.at("V"), stream);
  for (const std::string& schedule : schedules_to_try()) {
    INFO(schedule);
    const HostTensors expected = run_case(alone, schedule, Device::cuda(0));
    o.fill(stream);
    l.buffer().fill(std::byte{0xff}, stream);
    LaunchArguments arguments;
    arguments.tensors = {{"Q", q.view()}, {"K", k.view()}, {"V", v.view()}, {"O", o.view()}, {"L", l.view()}};
    arguments.stream = stream.handle();
    case_engine()
        .build(alone.algorithm, load_schedule(schedule), {Device::cuda(0), alone.dtype, alone.extents, {}})
        .launch(arguments);
    require_same_bits(o.take(stream), expected.at("O"));
    const runtime::HostTensor all = l.take(stream);
    runtime::HostTensor last = all;
    last.shape[0] = 1;
    last.offset = static_cast<std::size_t>(kItem * queries) * sizeof(float);
    require_same_bits(last, expected.at("L"));
  }
}

}  // namespace

TEST_CASE("N12: offsets past 2^31 elements reach the right keys") {
  ASTATIDE_NEED_GPU();
  check_item(64, kRowsPast);
}

TEST_CASE("N12: offsets past 2^31 elements reach the right rows, inputs and outputs") {
  ASTATIDE_NEED_GPU();
  check_item(kRowsPast, 64);
}
