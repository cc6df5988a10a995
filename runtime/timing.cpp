#include "runtime/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compiler/support/diagnostic.h"
#include "runtime/buffer.h"
#include "runtime/graph.h"

namespace astatide::runtime {
namespace {

constexpr std::size_t kLeastFlushed = std::size_t{256} << 20;

}  // namespace

Timing summarize_samples(std::vector<double> samples_ms) {
  if (samples_ms.empty()) throw InternalError("a timing without samples");
  std::vector<double> sorted = samples_ms;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  Timing timing;
  timing.median_ms = sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  timing.min_ms = sorted.front();
  timing.samples_ms = std::move(samples_ms);
  return timing;
}

Timing time_launches(const Stream& stream, const TimingOptions& options, const std::function<void()>& launch) {
  if (options.repetitions < 1 || options.warmup < 0) {
    throw UserError(fmt::format("a timing needs 1 or more repetitions and 0 or more warm-up launches, not {} and {}",
                                options.repetitions, options.warmup));
  }
  const Context& context = stream.context();
  std::optional<DeviceBuffer> flushed;
  if (options.flush_l2)
    flushed.emplace(context, std::max(kLeastFlushed, 2 * static_cast<std::size_t>(context.device().l2_bytes)));

  for (int i = 0; i < options.warmup; ++i) launch();
  std::vector<Event> starts, ends;
  for (int i = 0; i < options.repetitions; ++i) {
    starts.emplace_back(context);
    ends.emplace_back(context);
  }
  // All launches are queued before the first is waited for, so that the host's launch time hides behind the device's.
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (flushed) flushed->fill(std::byte{0}, stream);
    starts[i].record(stream);
    launch();
    ends[i].record(stream);
  }
  stream.synchronize();

  std::vector<double> samples;
  for (std::size_t i = 0; i < starts.size(); ++i) samples.push_back(ends[i].milliseconds_since(starts[i]));
  return summarize_samples(std::move(samples));
}

Timing time_graph(const Stream& stream, const TimingOptions& options,
                  const std::vector<std::function<void()>>& launches) {
  if (launches.empty()) throw InternalError("a timing of a graph without launches");
  const Graph graph = Graph::capture(stream, [&] {
    for (const std::function<void()>& launch : launches) launch();
  });
  std::vector<double> samples = time_launches(stream, options, [&] { graph.launch(stream); }).samples_ms;
  for (double& sample : samples) sample /= static_cast<double>(launches.size());
  return summarize_samples(std::move(samples));
}

}  // namespace astatide::runtime
