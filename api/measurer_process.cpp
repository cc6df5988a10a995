#include "api/measurer_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "api/clock.h"
#include "compiler/support/diagnostic.h"

extern char** environ;

namespace astatide {
namespace {

constexpr int kSliceMs = 100;  // between looks at whether to stop
/// Of an answer: more is no answer.
constexpr std::size_t kLongestAnswer = std::size_t{1} << 22;

MeasureAnswer failure(std::string kind, std::string message) {
  MeasureAnswer answer;
  answer.failure = std::move(kind);
  answer.message = std::move(message);
  return answer;
}

}  // namespace

void MeasurerProcess::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw MachineError(fmt::format("no connection to a process that measures: {}", runtime::error_text(errno)));
  socket_ = runtime::FileDescriptor(ends[0]);
  const runtime::FileDescriptor theirs(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.number(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs.number(), STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: what a terminal sends to end this process must not tear a measurement.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> words;
  for (const std::string& word : command_) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int error = posix_spawnp(&process_, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    process_ = -1;
    throw MachineError(fmt::format("{} can't be started to measure: {}", command_[0], runtime::error_text(error)));
  }
  pending_.clear();
}

std::string MeasurerProcess::end() {
  if (process_ < 0) return "";
  // One that has ended stays ended as it did; with its group, what it had started itself.
  ::kill(-process_, SIGKILL);
  ::kill(process_, SIGKILL);
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  socket_ = runtime::FileDescriptor();
  if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

void MeasurerProcess::send(const MeasureJob& job) {
  if (process_ < 0) start();
  const std::string line = to_line(job) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t count = ::send(socket_.number(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;  // it has ended, as is seen when it should answer
    sent += static_cast<std::size_t>(count);
  }
}

std::variant<MeasureTurn, MeasureAnswer> MeasurerProcess::next(double timeout_seconds,
                                                               const std::function<bool()>& stop) {
  const auto begin = Clock::now();
  while (true) {
    if (const std::size_t newline = pending_.find('\n'); newline != std::string::npos) {
      const std::string said = pending_.substr(0, newline);
      pending_.erase(0, newline + 1);
      try {
        auto line = parse_measure_line(said);
        // A device that has faulted serves its process no more.
        if (const auto* answer = std::get_if<MeasureAnswer>(&line); answer != nullptr && answer->failure == "crash")
          end();
        return line;
      } catch (const UserError& error) {
        end();
        return failure("crash", fmt::format("the process that measures said what is no answer: {}", error.what()));
      }
    }
    if (stop && stop()) {
      end();
      return failure("stopped", "");
    }
    const double left = 1e3 * timeout_seconds - milliseconds_since(begin);
    if (left <= 0) {
      end();
      return failure("timeout", fmt::format("no answer after {:g} seconds; the process was killed", timeout_seconds));
    }
    struct pollfd wait = {socket_.number(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(std::min<double>(kSliceMs, left + 1))) <= 0) continue;
    char buffer[65536];
    const ssize_t count = ::recv(socket_.number(), buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) pending_.append(buffer, static_cast<std::size_t>(count));
    if (count <= 0 || pending_.size() > kLongestAnswer) {
      // How it ended is what it says, not that it is killed here: its exit follows the end of its connection.
      siginfo_t info = {};
      for (int n = 0; n < 100 && info.si_pid == 0; ++n)
        if (::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
          ::usleep(10000);
      return failure("crash", fmt::format("the process that measured it ended: {}", end()));
    }
  }
}

MeasureAnswer MeasurerProcess::ask(const MeasureJob& job, double timeout_seconds, const std::function<bool()>& stop) {
  send(job);
  auto line = next(timeout_seconds, stop);
  if (auto* answer = std::get_if<MeasureAnswer>(&line)) return std::move(*answer);
  end();
  return failure("crash", "the process that measures said what is no answer: a turn of one schedule");
}

MeasuredTogether MeasurerProcess::ask_together(const MeasureJob& job, double timeout_seconds) {
  send(job);
  MeasuredTogether out;
  std::size_t turn = 0;
  while (out.answers.size() < job.together.size()) {
    auto line = next(timeout_seconds, {});
    if (const auto* begins = std::get_if<MeasureTurn>(&line); begins != nullptr) {
      if (begins->schedule < job.together.size() && out.answers.empty()) {
        turn = begins->schedule;
        continue;
      }
      end();
      line = failure("crash", "the process that measures said what is no answer: a turn of no schedule");
    }
    auto& answer = std::get<MeasureAnswer>(line);
    // It is gone: what it has said of others before is void.
    if (process_ < 0) return {{std::move(answer)}, turn};
    if (answer.failure.empty() && static_cast<int>(answer.samples_ms.size()) != job.rounds) {
      end();
      return {{failure("crash", "the process that measured it gave no times of all rounds")}, out.answers.size()};
    }
    out.answers.push_back(std::move(answer));
  }
  return out;
}

}  // namespace astatide
