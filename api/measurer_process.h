#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "api/measure.h"
#include "runtime/file_descriptor.h"

namespace astatide {

/// A child process that measures: jobs go in and answers come out, a line each. It is started when there is something
/// to measure, and again after one has ended. No job is begun while an earlier one may still run: a process that
/// hangs is killed, and waited for.
class MeasurerProcess {
 public:
  /// `command`: the program and its words.
  explicit MeasurerProcess(std::vector<std::string> command) : command_(std::move(command)) {}
  ~MeasurerProcess() { end(); }
  MeasurerProcess(const MeasurerProcess&) = delete;
  MeasurerProcess& operator=(const MeasurerProcess&) = delete;

  /// The answer, or a failure "crash" (the process ended: by which signal, with which code) or "timeout". `stop` is
  /// asked while it waits; when it says so the process is killed, and the failure is "stopped". Throws MachineError
  /// where the program can't be started.
  MeasureAnswer ask(const MeasureJob& job, double timeout_seconds, const std::function<bool()>& stop);

  /// Of a job of several schedules, once. One that ends the process, or takes longer than the timeout for one turn, is
  /// the one that broke it.
  MeasuredTogether ask_together(const MeasureJob& job, double timeout_seconds);

 private:
  void start();
  void send(const MeasureJob& job);
  /// The next line that it says, or a failure as `ask` has it; the process is gone then.
  std::variant<MeasureTurn, MeasureAnswer> next(double timeout_seconds, const std::function<bool()>& stop);
  /// Kills what is left of it, and says how it had ended.
  std::string end();

  std::vector<std::string> command_;
  pid_t process_ = -1;
  runtime::FileDescriptor socket_;
  std::string pending_;  // what was read beyond the last line
};

}  // namespace astatide
