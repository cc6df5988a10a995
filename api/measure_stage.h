#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/astatide.h"
#include "runtime/host_tensor.h"

namespace astatide {

/// Where candidates run: memory of the device, and its clock.
class MeasureStage {
 public:
  virtual ~MeasureStage() = default;

  /// A copy of a tensor's bytes in the device's memory, as long as the stage lives or until `release`.
  virtual void* place(const runtime::HostTensor& tensor) = 0;
  virtual void release(void* data) = 0;
  /// The bytes again, when all that was launched is done.
  virtual void fetch(const void* data, runtime::HostTensor& into) = 0;
  virtual void* stream() const = 0;
  /// Milliseconds that the device takes for what `launches` puts into its stream.
  virtual double time_ms(const std::function<void()>& launches) = 0;
  /// Bytes of inputs, beyond which a launch finds none of them in a cache of the one before; 0: not asked for.
  virtual std::int64_t rotated_bytes() const = 0;
  virtual std::string method() const = 0;
};

std::unique_ptr<MeasureStage> make_measure_stage(const Device& device);

}  // namespace astatide
