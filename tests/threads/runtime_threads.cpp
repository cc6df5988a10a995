// What threads of the runtime share, under the thread sanitizer: this program is built with it from the sources that
// matter, whatever the rest is built with. Ends with 1 where a result is wrong; the sanitizer with its own code.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cache.h"
#include "runtime/slots.h"
#include "runtime/thread_pool.h"

using namespace astatide::runtime;

namespace {

constexpr int kThreads = 8;
std::atomic<int> failures{0};

void expect(bool good, const char* claim) {
  if (good) return;
  ++failures;
  std::printf("WRONG: %s\n", claim);
}

void in_threads(const std::function<void(int)>& act) {
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) threads.emplace_back(act, number);
  for (std::thread& thread : threads) thread.join();
}

void lend_slots() {
  struct Value {
    std::uint64_t hash = 0;
    long uses = 0;  // by one thread at a time
  };
  Slots<Value> slots;
  std::atomic<long> found{0}, kept{0};
  in_threads([&](int number) {
    for (int n = 0; n < 4000; ++n) {
      // More than there are slots.
      const std::uint64_t hash = static_cast<std::uint64_t>((n + number) % 24);
      if (const auto loan = slots.find(hash, [&](const Value& value) { return value.hash == hash; })) {
        ++loan->uses;
        ++found;
        continue;
      }
      ++kept;
      slots.keep(hash, std::make_unique<Value>(Value{hash, 0}));
    }
  });
  expect(found + kept == kThreads * 4000, "a value is found or made");
  expect(found > 0, "values are found again");
}

void share_a_pool() {
  ThreadPool pool(3);
  in_threads([&](int) {
    for (int n = 0; n < 100; ++n) {
      std::atomic<std::int64_t> sum{0};
      std::vector<std::int64_t> by_worker(3, 0);
      pool.for_each_range(50, 3, [&](int worker, std::int64_t begin, std::int64_t end) {
        by_worker[static_cast<std::size_t>(worker)] += end - begin;
        sum += end - begin;
      });
      expect(sum == 50 && by_worker[0] + by_worker[1] + by_worker[2] == 50, "a range is covered once");
    }
  });
}

std::string key_of(int request) { return CacheKeyBuilder().add("threads", std::to_string(request)).key(); }
CacheFiles files_of(int request) { return {{"kernel", std::string(2000, static_cast<char>('a' + request))}}; }

void share_a_cache(const std::filesystem::path& root) {
  // Half of what is used fits.
  DiskCache cache(root / "cache", 6 * 2200);
  in_threads([&](int number) {
    for (int n = 0; n < 40; ++n) {
      const int request = (n * 5 + number) % 12;
      expect(cache.find_or_build(key_of(request), [&] { return files_of(request); }).files == files_of(request),
             "an entry is what was built");
      if (n % 10 == 0) cache.usage();
      if (n % 13 == number) cache.take_warnings();
    }
  });
  expect(cache.verify().empty(), "no entry is damaged");
  expect(!cache.why_unusable(), "the cache works");
}

}  // namespace

int main() {
  std::string pattern = (std::filesystem::temp_directory_path() / "astatide_threads_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return 1;
  lend_slots();
  share_a_pool();
  share_a_cache(pattern);
  std::error_code ignored;
  std::filesystem::remove_all(pattern, ignored);
  return failures == 0 ? 0 : 1;
}
