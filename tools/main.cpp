// The program `astatide`: reads the command line, calls one command, and turns errors into messages and exit codes.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

#include "astatide/version.h"
#include "compiler/algorithm/names.h"
#include "compiler/support/diagnostic.h"
#include "tools/commands.h"
#include "tools/request.h"

namespace astatide::tools {

void write_output(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw MachineError(fmt::format("standard output can't be written: {}", std::strerror(errno)));
}

void write_message(const std::string& text) { std::fputs(text.c_str(), stderr); }

void write_result(const std::string& text, const std::vector<std::string>& warnings) {
  write_output(text);
  for (const std::string& warning : warnings) write_message("warning: " + warning + "\n");
}

namespace {

/// Words that no option or argument takes.
void refuse_rest(const CLI::App& command, const std::string& of) {
  const std::vector<std::string> rest = command.remaining();
  if (rest.empty()) return;
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  for (const std::string& word : rest) {
    if (!word.starts_with("-")) continue;
    const std::string name = word.substr(0, word.find('='));
    throw UserError({name, 0, 0, {}}, fmt::format("{} has no such option", of), suggestion(name, flags));
  }
  throw UserError(fmt::format("{} does not take '{}'", of, quoted(rest.front())));
}

int run_command(int argc, char** argv) {
  CLI::App app("Generates attention kernels from an algorithm and a schedule, and runs them.", "astatide");
  app.footer(
      "ALG and SCHED are files, or the names of shipped ones (attention, simt/flash2).\n"
      "Exit codes: 0 done, 1 a check failed, 2 the input is wrong, 3 the machine lacks something, 4 a fault of ours.");
  app.set_version_flag("--version", "astatide " ASTATIDE_VERSION);
  app.allow_extras();
  const std::vector<Command> commands = {add_run_command(app),     add_merge_command(app),    add_emit_command(app),
                                         add_explain_command(app), add_dispatch_command(app), add_export_command(app),
                                         add_prepare_command(app), add_sanitize_command(app), add_tune_command(app),
                                         add_bench_command(app),   add_frontier_command(app), add_measure_command(app),
                                         add_diff_command(app),    add_cache_command(app)};
  for (const Command& command : commands) command.app->allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    // The help of the innermost command that was named.
    for (const Command& command : commands)
      if (command.app->parsed()) return write_output(command.app->help("astatide") + "\n"), kDone;
    return write_output(app.help() + "\n"), kDone;
  } catch (const CLI::CallForVersion& version) {
    return write_output(std::string(version.what()) + "\n"), kDone;
  } catch (const CLI::RequiredError& error) {
    for (const Command& command : commands)
      if (command.app->parsed()) refuse_rest(*command.app, "astatide " + command.app->get_name());
    throw UserError(error.what(), {"--help shows what a command takes"});
  } catch (const CLI::ParseError& error) {
    throw UserError(error.what(), {"--help shows what a command takes"});
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    refuse_rest(*command.app, "astatide " + command.app->get_name());
    return command.run();
  }
  std::vector<std::string> names;
  for (const Command& command : commands)
    if (!command.app->get_group().empty()) names.push_back(command.app->get_name());
  for (const std::string& word : app.remaining()) {
    if (word.starts_with("-")) continue;
    throw UserError(fmt::format("no command '{}'", quoted(word)), suggestion(word, names));
  }
  refuse_rest(app, "astatide");
  write_message(app.help() + "\n");
  return kWrongInput;
}

int report(const UserError& error, bool json, int code) {
  nlohmann::json out = {{"ok", false}, {"errors", nlohmann::json::array()}};
  for (const Diagnostic& problem : error.diagnostics()) {
    if (json) {
      out["errors"].push_back(
          {{"where", format_location(problem.where)}, {"message", problem.message}, {"notes", problem.notes}});
    } else {
      write_message(format_diagnostic(problem) + "\n");
    }
  }
  // Text of a file may hold bytes that are no UTF-8.
  if (json) write_output(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  return code;
}

int report_fault(const std::string& message, bool json) {
  if (json) {
    const nlohmann::json out = {{"ok", false}, {"errors", {{{"where", ""}, {"message", message}, {"notes", {}}}}}};
    write_output(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    write_message(message + "\nthis is a fault of astatide, not of what it was given\n");
  }
  return kOurFault;
}

}  // namespace
}  // namespace astatide::tools

int main(int argc, char** argv) {
  using namespace astatide;
  using namespace astatide::tools;
  // Known before the words are read, so that wrong words are reported in the form that was asked for.
  bool json = false;
  for (int n = 1; n < argc; ++n) json = json || std::strcmp(argv[n], "--json") == 0;
  try {
    try {
      return run_command(argc, argv);
    } catch (const MachineError& error) {
      return report(error, json, kMachineLacks);
    } catch (const UserError& error) {
      return report(error, json, kWrongInput);
    } catch (const std::bad_alloc&) {
      return report(MachineError("there is not enough memory for this"), json, kMachineLacks);
    } catch (const std::exception& error) {
      return report_fault(error.what(), json);
    }
  } catch (const std::exception& error) {
    // Even the report can't be written.
    write_message(std::string(error.what()) + "\n");
    return kMachineLacks;
  }
}
