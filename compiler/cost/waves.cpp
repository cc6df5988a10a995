#include "compiler/cost/waves.h"

#include <algorithm>
#include <queue>

namespace astatide::cost {

Makespan distribute(const std::vector<double>& each, const std::vector<double>& first, std::int64_t slots) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free;
  const auto count = static_cast<std::int64_t>(each.size());
  const std::int64_t used = std::min(slots, count);
  double last = 0, sum = 0;
  for (std::int64_t n = 0; n < count; ++n) {
    double end = n < used ? first[static_cast<std::size_t>(n)] : free.top() + each[static_cast<std::size_t>(n)];
    if (n >= used) free.pop();
    free.push(end);
    last = std::max(last, end);
  }
  for (; !free.empty(); free.pop()) sum += free.top();
  const double all = last * static_cast<double>(slots);
  return {last, all > 0 ? 1 - sum / all : 0};
}

}  // namespace astatide::cost
