#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/astatide.h"

namespace CLI {
class App;
}

namespace astatide::tools {

/// What commands that measure schedules in a child process have in common, as it stands on the command line.
struct MeasuringWords {
  std::string rounds = "9", seed = "0", threads = "0", timeout = "60", measurer;
};
/// --seed, --threads, --timeout, --measurer, and the number of rounds as `rounds_flag`.
void add_measuring_options(CLI::App& command, MeasuringWords& words, const std::string& rounds_flag,
                           const std::string& rounds_text);

/// What they say.
struct Measuring {
  int rounds = 0;
  std::uint64_t seed = 0;
  EngineOptions engine;
  std::vector<std::string> measurer;
  double timeout_seconds = 0;
};
Measuring measuring_of(const MeasuringWords& words, const std::string& rounds_flag, std::int64_t least_rounds);

/// Gives them to the options of a function that measures.
template <class Options>
void set_measuring(const Measuring& measuring, Options& options) {
  options.rounds = measuring.rounds;
  options.seed = measuring.seed;
  options.engine = measuring.engine;
  options.measurer = measuring.measurer;
  options.timeout_seconds = measuring.timeout_seconds;
}

}  // namespace astatide::tools
