#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <thread>

#include "compiler/cpu/emit.h"
#include "runtime/environment.h"
#include "runtime/orc.h"
#include "runtime/thread_pool.h"
#include "tests/support/streaming_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::runtime;

TEST_CASE("A thread pool gives out every number once, whatever the chunks") {
  ThreadPool pool(4);
  CHECK(pool.workers() == 4);
  for (std::int64_t count : {0, 1, 3, 4, 1000}) {
    for (std::int64_t chunk : {0, 1, 7, 5000}) {
      std::vector<std::atomic<int>> taken(static_cast<std::size_t>(count));
      std::atomic<bool> in_range = true;
      pool.for_each_range(count, chunk, [&](int worker, std::int64_t begin, std::int64_t end) {
        in_range = in_range && worker >= 0 && worker < 4 && begin < end && end <= count;
        for (std::int64_t k = begin; k < end; ++k) ++taken[static_cast<std::size_t>(k)];
      });
      INFO(count << " in chunks of " << chunk);
      CHECK(in_range);
      CHECK(std::all_of(taken.begin(), taken.end(), [](const auto& n) { return n == 1; }));
    }
  }
}

TEST_CASE("ASTATIDE_THREADS is a number of threads or an error") {
  const auto with = [](const char* value) {
    ::setenv("ASTATIDE_THREADS", value, 1);
    const auto clear = std::shared_ptr<void>(nullptr, [](void*) { ::unsetenv("ASTATIDE_THREADS"); });
    return read_environment().threads;
  };
  CHECK(with("") == 0);
  CHECK(with("3") == 3);
  for (const char* wrong : {"0", "-1", "two", "2 ", "99999999999"})
    CHECK_THROWS_WITH(with(wrong), Catch::Contains("is no number of threads, 1 to 1024"));
}

TEST_CASE("A thread pool passes the first exception on and works again") {
  ThreadPool pool(3);
  CHECK_THROWS_WITH(pool.for_each_range(100, 1,
                                        [](int, std::int64_t begin, std::int64_t) {
                                          if (begin == 37) throw std::runtime_error("number 37");
                                        }),
                    "number 37");
  std::atomic<int> sum = 0;
  pool.for_each_range(10, 1, [&](int, std::int64_t begin, std::int64_t) { sum += static_cast<int>(begin); });
  CHECK(sum == 45);
}

TEST_CASE("Calls of several threads to one pool take turns") {
  ThreadPool pool(2);
  std::atomic<int> sum = 0;
  std::vector<std::thread> callers;
  for (int n = 0; n < 4; ++n)
    callers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) pool.for_each_range(8, 1, [&](int, std::int64_t, std::int64_t) { ++sum; });
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(sum == 4 * 50 * 8);
}

TEST_CASE("A module is compiled once, then comes from memory, and in a new process's cache from disk") {
  const testing::TemporaryFolder folder;
  const cpu::CpuModule module = cpu::emit_llvm(testing::streaming_program({}), cpu::detect_host());
  const OrcRequest request{module.name, module.bitcode, module.host.cpu, module.host.features};
  DiskCache disk(folder.path() / "cache");
  OrcCache first(disk), second(disk);
  const OrcCache::Loaded built = first.load(request);
  CHECK(built.origin == CacheOrigin::none);
  CHECK(built.compile_seconds > 0);
  CHECK(first.load(request).origin == CacheOrigin::memory);
  const OrcCache::Loaded found = second.load(request);
  CHECK(found.origin == CacheOrigin::disk);
  CHECK(found.compile_seconds == 0);
  CHECK(found.module->function("kernel.streaming") != nullptr);
}

TEST_CASE("The key of a module depends on code, processor and features") {
  const OrcRequest request{"name", "bitcode", "haswell", "+avx2"};
  const auto key_with = [&](auto change) {
    OrcRequest other = request;
    change(other);
    return orc_cache_key(other);
  };
  CHECK(orc_cache_key(request) == key_with([](OrcRequest&) {}));
  CHECK(orc_cache_key(request) != key_with([](OrcRequest& r) { r.bitcode = "other"; }));
  CHECK(orc_cache_key(request) != key_with([](OrcRequest& r) { r.cpu = "znver4"; }));
  CHECK(orc_cache_key(request) != key_with([](OrcRequest& r) { r.features = "+avx"; }));
}
