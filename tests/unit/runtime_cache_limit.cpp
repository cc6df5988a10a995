// How much the cache holds, what goes first, and what of it can't be used.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "compiler/support/diagnostic.h"
#include "runtime/build_notes.h"
#include "runtime/cache.h"
#include "tests/support/messages.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::runtime;
using namespace astatide::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string limit_key(int number) { return CacheKeyBuilder().add("limit", std::to_string(number)).key(); }
CacheFiles limit_files() { return {{"kernel.cubin", std::string(1000, 'x')}}; }

/// As if the entry had been used so long ago.
void age(const DiskCache& cache, int number, int hours) {
  fs::last_write_time(cache.root() / limit_key(number) / "manifest",
                      fs::file_time_type::clock::now() - std::chrono::hours(hours));
}

void make_of_version_2(const DiskCache& cache, int number) {
  const fs::path path = cache.root() / limit_key(number) / "manifest";
  std::string text = read_bytes(path);
  REQUIRE(text.starts_with("astatide cache 1\n"));
  text[15] = '2';
  write_bytes(path, text);
}

}  // namespace

TEST_CASE("what was used least recently goes first, and as little as brings the rest under the limit") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache", std::nullopt);
  for (int number = 0; number < 4; ++number) {
    REQUIRE(cache.store(limit_key(number), limit_files()));
    age(cache, number, 10 - number);
  }
  const std::uint64_t one = cache.usage().bytes / 4;
  CHECK(cache.usage().entries == 4);
  CHECK(one > 1000);
  // Reading is use.
  REQUIRE(cache.find(limit_key(0)));
  CHECK(cache.evict(4 * one) == 0);
  CHECK(cache.evict(3 * one) == 1);
  CHECK_FALSE(cache.find(limit_key(1)));
  age(cache, 3, 1);
  CHECK(cache.evict(2 * one - 1) == 2);
  CHECK_FALSE(cache.find(limit_key(2)));
  CHECK_FALSE(cache.find(limit_key(3)));
  CHECK(cache.find(limit_key(0)) == limit_files());
  CHECK(cache.evict(0) == 1);
  CHECK(cache.usage().bytes == 0);
}

TEST_CASE("a store that goes over the limit lets go of old entries, and keeps none that is larger than it") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache", 2500);
  for (int number = 0; number < 3; ++number) {
    REQUIRE(cache.store(limit_key(number), limit_files()));
    age(cache, number, 10 - number);
  }
  CHECK(cache.usage().entries == 2);
  CHECK_FALSE(cache.find(limit_key(0)));
  CHECK(cache.find(limit_key(2)));
  CHECK_FALSE(cache.store(limit_key(3), {{"kernel.cubin", std::string(3000, 'x')}}));
  CHECK(cache.usage().entries == 2);
  const auto warnings = cache.take_warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], "an entry of 3000 bytes is not kept, the limit of the kernel cache is 2500"));
}

TEST_CASE("damaged entries and those of other versions take room, and go like others") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  for (int number = 0; number < 3; ++number) REQUIRE(cache.store(limit_key(number), limit_files()));
  CHECK(cache.verify().empty());
  make_of_version_2(cache, 0);
  write_bytes(cache.root() / limit_key(1) / "kernel.cubin", std::string(1000, 'y'));
  const auto damaged = cache.verify();
  REQUIRE(damaged.size() == 2);
  for (const CacheDamage& damage : damaged) {
    CHECK(damage.other_version == (damage.key == limit_key(0)));
    CHECK(damage.what == (damage.other_version ? "it is of another version" : "kernel.cubin was changed"));
  }
  CHECK(cache.usage().entries == 3);
  CHECK(cache.usage().bytes > 3000);
  CHECK_FALSE(cache.find(limit_key(0)));
  CHECK(cache.find_or_build(limit_key(0), limit_files).built);
  CHECK(cache.find(limit_key(0)) == limit_files());
  CHECK(cache.verify().size() == 1);
  CHECK(cache.evict(0) == 3);
}

TEST_CASE("the limit is ASTATIDE_CACHE_LIMIT, by powers of 1024, else 1 GiB") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("123") == 123);
  CHECK(parse_bytes("2K") == 2048);
  CHECK(parse_bytes("3T") == std::uint64_t{3} << 40);
  for (const char* bad : {"", "K", "-1", "1.5G", "2GB", "1P", "99999999999999999999", "99999999T"})
    CHECK_FALSE(parse_bytes(bad));
  CHECK(read_environment().cache_limit == std::uint64_t{1} << 30);
  REQUIRE(::setenv("ASTATIDE_CACHE_LIMIT", "64M", 1) == 0);
  CHECK(DiskCache::from_environment(read_environment()).limit() == std::uint64_t{64} << 20);
  REQUIRE(::setenv("ASTATIDE_CACHE_LIMIT", "none", 1) == 0);
  CHECK_FALSE(read_environment().cache_limit);
  REQUIRE(::setenv("ASTATIDE_CACHE_LIMIT", "much", 1) == 0);
  CHECK(
      contains(message_of<UserError>([] { read_environment(); }), "ASTATIDE_CACHE_LIMIT: error: 'much' is no number"));
  ::unsetenv("ASTATIDE_CACHE_LIMIT");
}

TEST_CASE("an entry holds what it was made from and how long that took") {
  CacheFiles files;
  add_notes(files, {"the algorithm", "the schedule", 1.5}, 0.25);
  REQUIRE(files.size() == 3);
  CHECK(*find_file(files, "algorithm") == "the algorithm");
  CHECK(*find_file(files, "schedule") == "the schedule");
  CHECK(*find_file(files, "timings") == "lower_ms 1.500\ncompile_ms 250.000\n");
}

#if ASTATIDE_WITH_CPU

TEST_CASE("astatide cache says how much there is, checks it, and lets go of it") {
  TemporaryFolder folder;
  std::map<std::string, std::string> environment = {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()},
                                                    {"ASTATIDE_CACHE_LIMIT", "10M"}};
  const auto ask = [&](std::vector<std::string> words, int code = 0) {
    words.insert(words.begin(), "cache");
    words.emplace_back("--json");
    const ProgramResult result = run_astatide(words, environment);
    INFO(result.out << result.err);
    CHECK(result.code == code);
    return json::parse(result.out);
  };
  const std::vector<std::string> prepare = {"prepare", "causal_gqa", "--device", "cpu",
                                            "--shape", "D=8,Dv=8",   "--shape",  "D=16,Dv=16"};
  REQUIRE(run_astatide(prepare, environment).code == 0);
  const json size = ask({"size"});
  CHECK(size.at("entries") == 2);
  CHECK(size.at("limit") == 10 << 20);
  CHECK(ask({"limit"}).at("limit") == 10 << 20);
  CHECK(ask({"verify"}).at("damaged").empty());
  const json entry = ask({"list"}).at("entries")[0];
  for (const char* name : {"kernel.o", "kernel.bc", "algorithm", "schedule", "timings"})
    CHECK(contains(entry.at("files").dump(), name));
  const fs::path first = folder / "cache" / entry.at("key").get<std::string>();
  CHECK(contains(read_bytes(first / "algorithm"), "logsumexp"));
  CHECK(contains(read_bytes(first / "schedule"), "tile"));

  write_bytes(first / "kernel.o", "broken");
  const json damaged = ask({"verify"}, 1);
  REQUIRE(damaged.at("damaged").size() == 1);
  CHECK(damaged.at("damaged")[0].at("key") == entry.at("key"));
  CHECK(ask({"evict", "--limit", "20"}).at("removed") == 2);
  CHECK(ask({"size"}).at("bytes") == 0);
  CHECK(contains(ask({"evict", "--limit", "x"}, 2).dump(), "'x' is no number of bytes"));
  CHECK(contains(ask({"clear", "--limit", "1M"}, 2).dump(), "only evict takes a limit"));
  // Smaller than one kernel.
  environment["ASTATIDE_CACHE_LIMIT"] = "1K";
  const ProgramResult small = run_astatide(prepare, environment);
  CHECK(small.code == 0);
  CHECK(contains(small.err, "is not kept, the limit of the kernel cache is 1024"));
}

#endif
