#pragma once

#include <string>
#include <vector>

namespace astatide::plot {

/// Maps values to places of a picture, and says where the ticks are.
class Axis {
 public:
  /// Of values in [least, most], from 0 on where it is linear, to the places [from, to]. Its ends are ticks.
  static Axis linear(double most, double from, double to);
  /// From one power of 2 or 10 to another; `least` is over 0.
  static Axis logarithmic(double least, double most, double from, double to);

  double place(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }
  double least() const { return least_; }
  double most() const { return most_; }

 private:
  bool log_ = false;
  double least_ = 0, most_ = 1, from_ = 0, to_ = 1;
  std::vector<double> ticks_;
};

/// "0.25", "16k", "1.5M", "4T": at most four digits.
std::string tick_text(double value);

}  // namespace astatide::plot
