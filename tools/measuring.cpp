#include "tools/measuring.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>

#include "tools/request.h"

namespace astatide::tools {

void add_measuring_options(CLI::App& command, MeasuringWords& words, const std::string& rounds_flag,
                           const std::string& rounds_text) {
  command.add_option(rounds_flag, words.rounds, rounds_text)->type_name("N");
  command.add_option("--seed", words.seed, "of random inputs, and of every order that is by lot")->type_name("N");
  command.add_option("--threads", words.threads, "of the CPU; 0: all cores")->type_name("N");
  command.add_option("--timeout", words.timeout, "seconds for a schedule before its process is killed")->type_name("N");
  command
      .add_option("--measurer", words.measurer,
                  "a program in place of `astatide measure`, such as a script that starts it elsewhere")
      ->type_name("PROGRAM");
}

Measuring measuring_of(const MeasuringWords& words, const std::string& rounds_flag, std::int64_t least_rounds) {
  Measuring out;
  out.rounds = static_cast<int>(parse_number(words.rounds, rounds_flag, least_rounds, 1000));
  out.seed = static_cast<std::uint64_t>(parse_number(words.seed, "--seed", 0, INT64_MAX));
  out.engine.threads = static_cast<int>(parse_number(words.threads, "--threads", 0, 4096));
  out.timeout_seconds = static_cast<double>(parse_number(words.timeout, "--timeout", 1, 86400));
  out.measurer = words.measurer.empty()
                     ? std::vector<std::string>{std::filesystem::read_symlink("/proc/self/exe").string(), "measure"}
                     : std::vector<std::string>{words.measurer};
  return out;
}

}  // namespace astatide::tools
