// The cache under fire: processes that are killed, full and read-only disks, folders of others, damage and eviction
// while it is used. What comes out is always right, nobody waits for the dead, and at most what was killed is built
// twice.
#include <grp.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <random>
#include <thread>

#include "runtime/cache.h"
#include "runtime/cache_aside.h"
#include "runtime/cache_files.h"
#include "tests/support/messages.h"
#include "tests/support/processes.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace astatide::runtime;
using namespace astatide::testing;
namespace fs = std::filesystem;

namespace {

constexpr int kMany = 16;
constexpr int kSkipped = 77;

std::string fire_key(int request) { return CacheKeyBuilder().add("fire", std::to_string(request)).key(); }

CacheFiles fire_files(int request) {
  return {{"kernel.cu", "request " + std::to_string(request)},
          {"kernel.cubin", std::string(100000, static_cast<char>('a' + request % 26))}};
}

void nap(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

/// Asks for the keys 0 .. count-1 in an order of its own; builds are counted and take a while.
bool ask_all(const fs::path& root, int count, int first, const fs::path& builds) {
  DiskCache cache(root);
  for (int n = 0; n < count; ++n) {
    const int request = (first + n) % count;
    const auto found = cache.find_or_build(fire_key(request), [&] {
      count_in(builds);
      nap(2);
      return fire_files(request);
    });
    if (found.files != fire_files(request)) return false;
  }
  return cache.take_warnings().empty();
}

/// Gives up root where this process has it: what follows meets the permissions that a user meets.
bool become_nobody() {
  constexpr unsigned kNobody = 65534;
  if (::geteuid() != 0) return true;
  return ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
}

/// A folder that nobody may use, whoever runs the test.
void open_for_all(const fs::path& path) { fs::permissions(path, fs::perms::all); }

}  // namespace

TEST_CASE("of 16 processes on a cold cache many are killed: the others get every kernel, built once more at most") {
  constexpr int kKeys = 60;
  constexpr int kKills = 16;
  TemporaryFolder folder;
  std::mt19937 random(7);
  std::vector<pid_t> children;
  const auto start = [&](int number) {
    return start_process([&] {
      ::alarm(60);  // nobody is stuck
      return ask_all(folder / "cache", kKeys, 13 * number, folder / "builds");
    });
  };
  for (int number = 0; number < kMany; ++number) children.push_back(start(number));
  int killed = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    nap(static_cast<int>(random() % 15));
    pid_t& victim = children[random() % children.size()];
    ::kill(victim, SIGKILL);
    const int code = wait_for(victim);
    REQUIRE((code == 0 || code == 128 + SIGKILL));
    if (code != 0) ++killed;
    victim = start(kill);
  }
  for (const pid_t child : children) REQUIRE(wait_for(child) == 0);
  INFO(killed << " of " << kKills << " were killed before they were done");
  CHECK(killed > 0);
  const std::size_t builds = counted(folder / "builds");
  CHECK(builds >= kKeys);
  CHECK(builds <= static_cast<std::size_t>(kKeys + killed));
  // Nothing is missing, damaged or left over.
  REQUIRE(ask_all(folder / "cache", kKeys, 0, folder / "builds"));
  CHECK(counted(folder / "builds") == builds);
  DiskCache cache(folder / "cache");
  CHECK(cache.verify().empty());
  CHECK(cache.clear() == kKeys);
  CHECK(count_items(folder / "cache/tmp") == 0);
  CHECK(count_items(folder / "cache/locks") == 0);
}

TEST_CASE("clearing a cache takes along the locks that killed processes left, of entries and of eviction") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  REQUIRE(cache.store(fire_key(0), fire_files(0)));
  fs::create_directories(folder / "cache/locks");
  for (const std::string& name : {fire_key(1), std::string("evict")}) write_bytes(folder / "cache/locks" / name, "");
  CHECK(cache.clear() == 1);
  CHECK(count_items(folder / "cache/locks") == 0);
}

TEST_CASE("a writer is known to live by its lock: none of another process is taken for dead, in whichever container") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  REQUIRE(cache.store(fire_key(0), fire_files(0)));
  // A name with the number of a process that is not: as a writer in another container has it.
  const fs::path alive = folder / "cache/tmp/0123456789abcdef.999999999.0.00000000";
  fs::create_directory(alive);
  const FileDescriptor held(::open(alive.c_str(), O_RDONLY | O_DIRECTORY));
  REQUIRE(::flock(held.number(), LOCK_EX | LOCK_NB) == 0);
  // And of one that is: a writer that died, and whose number another process has now.
  fs::create_directory(folder / "cache/tmp" / ("0123456789abcdef." + std::to_string(::getpid()) + ".0.00000000"));
  REQUIRE(cache.store(fire_key(1), fire_files(1)));
  CHECK(fs::exists(alive));
  CHECK(count_items(folder / "cache/tmp") == 1);
}

TEST_CASE("a writer that has made its folder and not yet locked it does not lose it to those who tidy up") {
  TemporaryFolder folder;
  const fs::path path = folder.path();
  const int good = run_together(8, [&](int number) {
    ::alarm(60);
    const FileDescriptor parent(::open(path.c_str(), O_RDONLY | O_DIRECTORY));
    for (int round = 0; round < 500; ++round) {
      if (number % 2 == 0) {
        remove_abandoned(parent, path);
        continue;
      }
      const AsideFolder made = AsideFolder::make(parent, fire_key(number));
      if (!made) continue;  // every name was taken by those who tidy up: said by errno
      if (!write_new_file(made.folder(), "kernel.cu", "of this round")) return false;
      std::this_thread::yield();
      if (read_bytes(path / made.name() / "kernel.cu") != "of this round") return false;
      remove_tree(path / made.name());
    }
    return true;
  });
  CHECK(good == 8);
}

TEST_CASE("while entries are cut, flipped and emptied, 8 processes read what was built") {
  constexpr int kKeys = 6;
  TemporaryFolder folder;
  const int good = run_together(9, [&](int number) {
    ::alarm(60);
    std::mt19937 random(static_cast<unsigned>(number));
    for (int round = 0; round < 40; ++round) {
      const int request = static_cast<int>(random() % kKeys);
      if (number > 0) {
        DiskCache cache(folder / "cache");
        if (cache.find_or_build(fire_key(request), [&] { return fire_files(request); }).files != fire_files(request))
          return false;
        continue;
      }
      nap(2);
      constexpr const char* kNames[] = {"kernel.cu", "kernel.cubin", "manifest"};
      const fs::path path = folder / "cache" / fire_key(request) / kNames[random() % 3];
      std::string bytes = read_bytes(path);
      if (bytes.empty()) continue;
      const auto at = static_cast<std::size_t>(random() % bytes.size());
      if (round % 3 == 0) bytes.resize(at);
      if (round % 3 == 1) bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
      if (round % 3 == 2) bytes.clear();
      // Written over, not renamed: as a disk damages it.
      std::error_code gone;
      if (fs::exists(path, gone)) write_bytes(path, bytes);
    }
    return true;
  });
  CHECK(good == 9);
  DiskCache cache(folder / "cache");
  for (int request = 0; request < kKeys; ++request)
    CHECK(cache.find_or_build(fire_key(request), [&] { return fire_files(request); }).files == fire_files(request));
  CHECK(cache.verify().empty());
}

TEST_CASE(
    "16 processes whose cache holds half of what they use evict each other's kernels and never see a part of one") {
  constexpr int kKeys = 8;
  TemporaryFolder folder;
  const std::uint64_t limit = 4 * 100500;
  const int good = run_together(kMany, [&](int number) {
    ::alarm(60);
    DiskCache cache(folder / "cache", limit);
    for (int step = 0; step < 30; ++step) {
      const int request = (number * 5 + step * 3) % kKeys;
      if (cache.find_or_build(fire_key(request), [&] { return fire_files(request); }).files != fire_files(request))
        return false;
    }
    return cache.take_warnings().empty();
  });
  CHECK(good == kMany);
  DiskCache cache(folder / "cache", limit);
  CHECK(cache.verify().empty());
  cache.evict(limit);
  CHECK(cache.usage().bytes <= limit);
  CHECK(cache.usage().entries == 4);
  CHECK(count_items(folder / "cache/tmp") == 0);
}

TEST_CASE("of 16 processes half meet a full disk: all get their kernels, and what the others wrote is whole") {
  constexpr int kKeys = 6;
  TemporaryFolder folder;
  const int good = run_together(kMany, [&](int number) {
    ::alarm(60);
    if (number % 2 == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{static_cast<rlim_t>(7000 * number), static_cast<rlim_t>(7000 * number)};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    }
    DiskCache cache(folder / "cache");
    for (int request = 0; request < kKeys; ++request)
      if (cache.find_or_build(fire_key(request), [&] { return fire_files(request); }).files != fire_files(request))
        return false;
    return cache.take_warnings().size() <= 1;
  });
  CHECK(good == kMany);
  DiskCache cache(folder / "cache");
  CHECK(cache.verify().empty());
  CHECK(cache.usage().entries == kKeys);
  CHECK(count_items(folder / "cache/tmp") == 0);
}

TEST_CASE("on a file system that is full what fits is kept, what does not is built, and nothing half-written stays") {
  TemporaryFolder folder;
  const int code = wait_for(start_process([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0)
      ::_exit(kSkipped);
    DiskCache cache(folder / "cache");
    for (int round = 0; round < 2; ++round)
      for (int request = 0; request < 4; ++request)
        if (cache.find_or_build(fire_key(request), [&] { return fire_files(request); }).files != fire_files(request))
          return false;
    const bool whole = cache.verify().empty() && cache.usage().entries == 2;
    return whole && cache.take_warnings().size() == 1 && count_items(folder / "cache/tmp") == 0;
  }));
  if (code == kSkipped) ASTATIDE_SKIP("no file system of one's own may be mounted here");
  CHECK(code == 0);
}

TEST_CASE("a cache that may only be read gives what it has, takes nothing, and says so once") {
  TemporaryFolder folder;
  open_for_all(folder.path());
  const int code = wait_for(start_process([&] {
    ::alarm(60);
    if (!become_nobody()) ::_exit(kSkipped);
    const fs::path root = folder / "cache";
    if (!DiskCache(root).store(fire_key(0), fire_files(0))) return false;
    fs::permissions(root / fire_key(0), fs::perms::owner_read | fs::perms::owner_exec);
    fs::permissions(root / "tmp", fs::perms::owner_read | fs::perms::owner_exec);
    fs::permissions(root, fs::perms::owner_read | fs::perms::owner_exec);
    DiskCache cache(root);
    const bool found = cache.find(fire_key(0)) == fire_files(0) && cache.take_warnings().empty();
    bool built = true;
    for (int round = 0; round < 2; ++round)
      built = built && cache.find_or_build(fire_key(1), [] { return fire_files(1); }).files == fire_files(1);
    const std::vector<std::string> warnings = cache.take_warnings();
    const bool said = warnings.size() == 1 && contains(warnings[0], "it can't be written: Permission denied");
    const bool kept = cache.evict(0) == 0 && cache.find(fire_key(0)) == fire_files(0) && !cache.find(fire_key(1));
    fs::permissions(root, fs::perms::owner_all);
    fs::permissions(root / "tmp", fs::perms::owner_all);
    fs::permissions(root / fire_key(0), fs::perms::owner_all);
    return found && built && said && kept;
  }));
  if (code == kSkipped) ASTATIDE_SKIP("this process can't become another user");
  CHECK(code == 0);
}

TEST_CASE("a cache of another user is neither read nor written, though its permissions would allow it") {
  if (::geteuid() != 0) ASTATIDE_SKIP("only root has a folder of another user");
  TemporaryFolder folder;
  open_for_all(folder.path());
  REQUIRE(DiskCache(folder / "cache").store(fire_key(0), {{"kernel.cu", "not ours"}}));
  for (const auto& item : fs::recursive_directory_iterator(folder / "cache"))
    fs::permissions(item.path(), fs::perms::all & ~fs::perms::group_write & ~fs::perms::others_write);
  fs::permissions(folder / "cache", fs::perms::all & ~fs::perms::group_write & ~fs::perms::others_write);
  const int code = wait_for(start_process([&] {
    ::alarm(60);
    if (!become_nobody()) ::_exit(kSkipped);
    DiskCache cache(folder / "cache");
    const auto found = cache.find_or_build(fire_key(0), [] { return fire_files(0); });
    const std::vector<std::string> warnings = cache.take_warnings();
    return found.built && found.files == fire_files(0) && warnings.size() == 1 &&
           contains(warnings[0], "it belongs to user 0") && cache.usage().entries == 0 && cache.evict(0) == 0;
  }));
  if (code == kSkipped) ASTATIDE_SKIP("this process can't become another user");
  CHECK(code == 0);
  CHECK(DiskCache(folder / "cache").usage().entries == 1);
}
