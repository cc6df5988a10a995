// Tests of what several processes do at once.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <vector>

namespace astatide::testing {

/// Adds a byte to a file: what many processes did can be counted in it.
inline void count_in(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
  if (file < 0 || ::write(file, "x", 1) != 1) ::_exit(9);
  ::close(file);
}

inline std::size_t counted(const std::filesystem::path& path) {
  return std::filesystem::exists(path) ? std::filesystem::file_size(path) : 0;
}

/// A process that calls `act` and ends, with code 0 where it returned true.
inline pid_t start_process(const std::function<bool()>& act) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child != 0) return child;
  bool good = false;
  try {
    good = act();
  } catch (...) {
  }
  ::_exit(good ? 0 : 1);
}

/// Waits for a process; its exit code, or 128 and the signal that ended it.
inline int wait_for(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Runs `act(number)` in processes that start together; returns how many of them returned true.
inline int run_together(int processes, const std::function<bool(int)>& act) {
  int gate[2];
  REQUIRE(::pipe(gate) == 0);
  std::vector<pid_t> children;
  for (int number = 0; number < processes; ++number) {
    children.push_back(start_process([&] {
      // The gate opens for all when the parent closes its end.
      char ignored;
      ::close(gate[1]);
      while (::read(gate[0], &ignored, 1) > 0) {
      }
      return act(number);
    }));
  }
  ::close(gate[0]);
  ::close(gate[1]);
  int good = 0;
  for (pid_t child : children) good += wait_for(child) == 0 ? 1 : 0;
  return good;
}

inline std::size_t count_items(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

}  // namespace astatide::testing
