#include "api/measure_stage.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "api/clock.h"
#include "compiler/support/diagnostic.h"
#include "runtime/buffer.h"
#include "runtime/driver.h"

namespace astatide {
namespace {

class CpuStage : public MeasureStage {
 public:
  void* place(const runtime::HostTensor& tensor) override {
    auto copy = std::make_unique<std::vector<std::byte>>(*tensor.data);
    void* const data = copy->data() + tensor.offset;
    placed_.emplace(data, std::move(copy));
    return data;
  }
  void release(void* data) override { placed_.erase(data); }
  void fetch(const void* data, runtime::HostTensor& into) override {
    std::memcpy(into.origin(), data, into.data->size() - into.offset);
  }
  void* stream() const override { return nullptr; }
  double time_ms(const std::function<void()>& launches) override {
    const auto start = Clock::now();
    launches();
    return milliseconds_since(start);
  }
  std::int64_t rotated_bytes() const override { return 0; }
  std::string method() const override { return "launches one after the other, inputs as caches keep them"; }

 private:
  std::map<const void*, std::unique_ptr<std::vector<std::byte>>> placed_;
};

class CudaStage : public MeasureStage {
 public:
  explicit CudaStage(int ordinal)
      : context_(runtime::Context::primary(ordinal)), current_(context_), stream_(runtime::Stream::create(context_)) {}

  void* place(const runtime::HostTensor& tensor) override {
    runtime::DeviceBuffer buffer(context_, std::max<std::size_t>(tensor.data->size(), 1));
    if (!tensor.data->empty()) buffer.copy_from_host(*tensor.data, stream_);
    stream_.synchronize();
    void* const data = reinterpret_cast<void*>(buffer.pointer() + tensor.offset);
    placed_.emplace(data, std::move(buffer));
    return data;
  }
  void release(void* data) override {
    stream_.synchronize();
    placed_.erase(data);
  }
  void fetch(const void* data, runtime::HostTensor& into) override {
    stream_.synchronize();
    if (!into.data->empty()) runtime::copy_to_host(reinterpret_cast<runtime::DevicePointer>(data), *into.data, stream_);
  }
  void* stream() const override { return stream_.handle(); }
  double time_ms(const std::function<void()>& launches) override {
    runtime::Event start(context_), end(context_);
    start.record(stream_);
    launches();
    end.record(stream_);
    stream_.synchronize();
    return end.milliseconds_since(start);
  }
  std::int64_t rotated_bytes() const override { return 2 * static_cast<std::int64_t>(context_.device().l2_bytes); }
  std::string method() const override {
    return "launches one after the other between two events, inputs from device memory";
  }

 private:
  runtime::Context context_;
  runtime::ScopedCurrent current_;
  runtime::Stream stream_;
  std::map<const void*, runtime::DeviceBuffer> placed_;
};

}  // namespace

std::unique_ptr<MeasureStage> make_measure_stage(const Device& device) {
  switch (device.kind) {
    case Device::Kind::cpu:
      return std::make_unique<CpuStage>();
    case Device::Kind::cuda:
      return std::make_unique<CudaStage>(device.ordinal);
    case Device::Kind::sim:
      break;
  }
  throw UserError("a simulated GPU takes no time that says anything", {"measure on cpu or cuda"});
}

}  // namespace astatide
