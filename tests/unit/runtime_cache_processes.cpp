#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <thread>

#include "runtime/cache.h"
#include "runtime/cache_lock.h"
#include "runtime/cache_manifest.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_folder.h"

using namespace astatide::runtime;
using namespace astatide::testing;
namespace fs = std::filesystem;

namespace {

constexpr int kProcesses = 16;

std::string key_of(int request) { return CacheKeyBuilder().add("request", std::to_string(request)).key(); }

// Large enough that it isn't written in one piece.
CacheFiles files_of(int request) {
  return {{"kernel.cu", "request " + std::to_string(request)},
          {"kernel.cubin", std::string(40000, static_cast<char>('a' + request))}};
}

}  // namespace

TEST_CASE("16 processes on one cold cache build one key once, all get the same bytes, and nothing is left over") {
  for (int round = 0; round < 50; ++round) {
    TemporaryFolder folder;
    const int good = run_together(kProcesses, [&](int) {
      DiskCache cache(folder / "cache");
      const auto found = cache.find_or_build(key_of(0), [&] {
        count_in(folder / "builds");
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return files_of(0);
      });
      return found.files == files_of(0) && cache.take_warnings().empty();
    });
    REQUIRE(good == kProcesses);
    CHECK(counted(folder / "builds") == 1);
    CHECK(DiskCache(folder / "cache").list().size() == 1);
    CHECK(count_items(folder / "cache/tmp") == 0);
    CHECK(count_items(folder / "cache/locks") == 0);
  }
}

TEST_CASE("16 processes that want four keys build each once") {
  TemporaryFolder folder;
  const int good = run_together(kProcesses, [&](int number) {
    DiskCache cache(folder / "cache");
    for (int step = 0; step < 4; ++step) {
      const int request = (number + step) % 4;
      const auto found = cache.find_or_build(key_of(request), [&] {
        count_in(folder / ("builds" + std::to_string(request)));
        return files_of(request);
      });
      if (found.files != files_of(request)) return false;
    }
    return cache.take_warnings().empty();
  });
  CHECK(good == kProcesses);
  for (int request = 0; request < 4; ++request) CHECK(counted(folder / ("builds" + std::to_string(request))) == 1);
}

TEST_CASE("a tool that fails in one process publishes nothing; another process builds") {
  TemporaryFolder folder;
  const int good = run_together(kProcesses, [&](int number) {
    DiskCache cache(folder / "cache");
    const auto found = cache.find_or_build(key_of(0), [&]() -> CacheFiles {
      if (number == 0) throw std::runtime_error("tool failed");
      return files_of(0);
    });
    return found.files == files_of(0);
  });
  CHECK(good >= kProcesses - 1);
  CHECK(DiskCache(folder / "cache").find(key_of(0)) == files_of(0));
}

TEST_CASE("a process that is killed while it builds stops nobody, and what it left is removed") {
  TemporaryFolder folder;
  const int good = run_together(4, [&](int) {
    DiskCache cache(folder / "cache");
    const auto found = cache.find_or_build(key_of(0), [&] {
      if (counted(folder / "killed") == 0) {
        count_in(folder / "killed");
        // As after a crash in the middle of a store.
        fs::create_directories(folder / "cache/tmp" /
                               ("0123456789abcdef." + std::to_string(::getpid()) + ".0.00000000"));
        ::kill(::getpid(), SIGKILL);
      }
      return files_of(0);
    });
    return found.files == files_of(0);
  });
  CHECK(good == 3);
  DiskCache cache(folder / "cache");
  CHECK(cache.find(key_of(0)) == files_of(0));
  CHECK(cache.store(key_of(1), files_of(1)));
  CHECK(count_items(folder / "cache/tmp") == 0);
}

TEST_CASE("who waits for a stopped process longer than its patience builds for itself") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  REQUIRE(cache.store(key_of(1), files_of(1)));
  fs::create_directory(folder / "cache/locks");
  const FileDescriptor locks(::open((folder / "cache/locks").c_str(), O_RDONLY | O_DIRECTORY));
  const CacheLock held = CacheLock::acquire(locks, key_of(0), std::chrono::seconds(1));
  REQUIRE(held);
  const auto found = cache.find_or_build(
      key_of(0), [] { return files_of(0); }, std::chrono::milliseconds(50));
  CHECK(found.built);
  CHECK(cache.find(key_of(0)) == files_of(0));
}

TEST_CASE("a full disk means memory only, one warning and no half-written entry") {
  TemporaryFolder folder;
  const int good = run_together(1, [&](int) {
    // Writes past this size fail, as they do on a full disk.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    DiskCache cache(folder / "cache");
    const auto found = cache.find_or_build(key_of(0), [] { return files_of(0); });
    return found.files == files_of(0) && found.built && cache.take_warnings().size() == 1 && cache.list().empty();
  });
  CHECK(good == 1);
  CHECK(count_items(folder / "cache/tmp") == 0);
}

TEST_CASE("threads of one process build a key once") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  std::atomic<int> builds{0}, good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto found = cache.find_or_build(key_of(0), [&] { return ++builds, files_of(0); });
      if (found.files == files_of(0)) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(builds == 1);
  CHECK(good == 8);
}

TEST_CASE("clear while others build leaves them their result") {
  TemporaryFolder folder;
  const int good = run_together(8, [&](int number) {
    DiskCache cache(folder / "cache");
    for (int step = 0; step < 20; ++step) {
      if (number == 0) {
        cache.clear();
      } else if (cache.find_or_build(key_of(step % 3), [&] { return files_of(step % 3); }).files !=
                 files_of(step % 3)) {
        return false;
      }
    }
    return true;
  });
  CHECK(good == 8);
}
