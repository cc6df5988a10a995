#include "tools/plot/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/diagnostic.h"

namespace astatide::plot {
namespace {

constexpr double kTicks = 5;
/// Ticks of a logarithmic axis, at most about.
constexpr int kMostLogTicks = 9;

}  // namespace

Axis Axis::linear(double most, double from, double to) {
  if (!std::isfinite(most) || most < 0) throw InternalError("an axis needs a finite end that is not below 0");
  if (most == 0) most = 1;
  const double raw = most / kTicks, power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double nice : {1.0, 2.0, 2.5, 5.0})
    if (nice * power >= raw * (1 - 1e-9)) {
      step = nice * power;
      break;
    }
  Axis axis;
  const double count = std::ceil(most / step - 1e-9);
  axis.most_ = count * step;
  for (int n = 0; n <= static_cast<int>(count); ++n) axis.ticks_.push_back(n * step);
  axis.from_ = from, axis.to_ = to;
  return axis;
}

Axis Axis::logarithmic(double least, double most, double from, double to) {
  if (!std::isfinite(most) || !(least > 0) || most < least)
    throw InternalError("a logarithmic axis needs finite values over 0");
  // Steps of 2 where there are few of them and they are short to write, as of lengths; else of 10 or of its powers.
  const bool by_two = std::log2(most / least) <= kMostLogTicks && least >= 1 && most < 1e6;
  const double base = by_two ? 2 : 10;
  const auto log_of = [&](double value) { return std::log(value) / std::log(base); };
  auto low = static_cast<int>(std::floor(log_of(least) + 1e-9));
  auto high = static_cast<int>(std::ceil(log_of(most) - 1e-9));
  if (low == high) --low, ++high;
  const int step = (high - low + kMostLogTicks - 1) / kMostLogTicks;
  high = low + (high - low + step - 1) / step * step;
  Axis axis;
  axis.log_ = true;
  for (int power = low; power <= high; power += step) axis.ticks_.push_back(std::pow(base, power));
  axis.least_ = axis.ticks_.front(), axis.most_ = axis.ticks_.back();
  axis.from_ = from, axis.to_ = to;
  return axis;
}

double Axis::place(double value) const {
  if (!std::isfinite(value) || (log_ && value <= 0)) throw InternalError("a value that has no place in a picture");
  const double share = log_ ? std::log(value / least_) / std::log(most_ / least_) : (value - least_) / (most_ - least_);
  return from_ + std::clamp(share, 0.0, 1.0) * (to_ - from_);
}

std::string tick_text(double value) {
  if (value == 0) return "0";
  // Lengths are powers of two: 1024 and 16384 read better whole than as 1.024k.
  const double size = std::abs(value);
  if (size < 1e-3 || size >= 1e16) return fmt::format("{:.3g}", value);
  if (size < 1e5) return fmt::format("{:.6g}", value);
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  while (std::abs(value) >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.4g}{}", value, kUnits[unit]);
}

}  // namespace astatide::plot
