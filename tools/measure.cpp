#include <sys/prctl.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <iostream>

#include "api/measure.h"
#include "tools/commands.h"

namespace astatide::tools {
namespace {

int serve() {
  // Nothing is left behind where the program that asks is killed, not even a kernel that does not end.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Measurer measurer;
  for (std::string line; std::getline(std::cin, line);) {
    const MeasureJob job = parse_measure_job(line);
    const std::vector<MeasureAnswer> answers =
        job.together.empty()
            ? std::vector{measurer.measure(job)}
            : measurer.measure_together(job, [](MeasureTurn turn) { write_output(to_line(turn) + "\n"); }).answers;
    for (const MeasureAnswer& answer : answers) {
      write_output(to_line(answer) + "\n");
      if (answer.failure == "crash") return kOurFault;
    }
  }
  return kDone;
}

}  // namespace

Command add_measure_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "measure", "Checks and times what standard input asks for; for `tune`, `bench` and `frontier`.");
  app->group("");  // not in the help: its words are for programs
  return {app, serve};
}

}  // namespace astatide::tools
