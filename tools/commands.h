#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace astatide::tools {

/// Exit codes of the program.
enum ExitCode { kDone = 0, kCheckFailed = 1, kWrongInput = 2, kMachineLacks = 3, kOurFault = 4 };

/// A command of the program: `run` is called when its words have been read.
struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
};

Command add_run_command(CLI::App& program);
Command add_merge_command(CLI::App& program);
Command add_emit_command(CLI::App& program);
Command add_explain_command(CLI::App& program);
Command add_dispatch_command(CLI::App& program);
Command add_diff_command(CLI::App& program);
Command add_export_command(CLI::App& program);
Command add_sanitize_command(CLI::App& program);
Command add_prepare_command(CLI::App& program);
Command add_bench_command(CLI::App& program);
Command add_frontier_command(CLI::App& program);
Command add_tune_command(CLI::App& program);
Command add_measure_command(CLI::App& program);
Command add_cache_command(CLI::App& program);

/// Standard output, checked: a full disk or a closed pipe is an error, not silence.
void write_output(const std::string& text);
void write_message(const std::string& text);
/// A result for people, with what was noticed on the way.
void write_result(const std::string& text, const std::vector<std::string>& warnings);

}  // namespace astatide::tools
