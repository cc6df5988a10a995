#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "compiler/support/diagnostic.h"
#include "runtime/cache.h"
#include "runtime/cache_manifest.h"
#include "tests/support/messages.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::runtime;
using astatide::testing::contains;
using astatide::testing::read_bytes;
using astatide::testing::TemporaryFolder;
using astatide::testing::write_bytes;
namespace fs = std::filesystem;

namespace {

const std::string kKey = CacheKeyBuilder().add("source", "kernel one").key();
const CacheFiles kFiles = {{"kernel.cu", "__global__ void k() {}"},
                           {"kernel.cubin", std::string("\x7f"
                                                        "ELF\0\1\2",
                                                        7)},
                           {"log", ""}};
const CacheFiles kOther = {{"kernel.cu", "something else"}};

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

// What is in the cache's root besides entries, and what is left in its own folders.
std::size_t count_leftovers(const fs::path& root) {
  std::size_t count = 0;
  for (const auto& item : fs::recursive_directory_iterator(root)) {
    const fs::path relative = fs::relative(item.path(), root);
    const std::string top = relative.begin()->string();
    if (!is_cache_key(top) && relative != "tmp" && relative != "locks") ++count;
  }
  return count;
}

// What a place that can't be used must do: no exception, nothing found or stored, the artifact itself delivered, one
// warning.
void require_memory_only(DiskCache& cache, const std::string& reason) {
  CHECK_FALSE(cache.find(kKey).has_value());
  CHECK_FALSE(cache.store(kKey, kFiles));
  int builds = 0;
  const auto build = [&] { return ++builds, kFiles; };
  CHECK(cache.find_or_build(kKey, build).files == kFiles);
  CHECK(cache.find_or_build(kKey, build).built);
  CHECK(builds == 2);
  CHECK(cache.list().empty());
  const auto warnings = cache.take_warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], reason));
  CHECK(contains(warnings[0], cache.root().string()));
}

}  // namespace

TEST_CASE("a stored entry is found by another cache on the same folder, byte for byte") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  CHECK_FALSE(cache.find(kKey).has_value());
  CHECK(cache.store(kKey, kFiles));
  CHECK(DiskCache(folder / "cache").find(kKey) == kFiles);
  CHECK(read_bytes(folder / "cache" / kKey / "kernel.cu") == kFiles[0].bytes);
  CHECK(cache.take_warnings().empty());
}

TEST_CASE("folders of the cache have mode 0700 and its files 0600, whatever the umask") {
  TemporaryFolder folder;
  const mode_t before = ::umask(0);
  DiskCache cache(folder / "missing/parents/cache");
  CHECK(cache.store(kKey, kFiles));
  ::umask(before);
  CHECK(mode_of(cache.root()) == 0700);
  CHECK(mode_of(cache.root() / kKey) == 0700);
  CHECK(mode_of(cache.root() / kKey / "kernel.cubin") == 0600);
}

TEST_CASE("the builder runs once, then entries come from disk") {
  TemporaryFolder folder;
  int builds = 0;
  const auto build = [&] { return ++builds, kFiles; };
  DiskCache cache(folder / "cache");
  CHECK(cache.find_or_build(kKey, build).built);
  const auto again = cache.find_or_build(kKey, build);
  CHECK_FALSE(again.built);
  CHECK(again.files == kFiles);
  CHECK(builds == 1);
  CHECK(count_leftovers(cache.root()) == 0);
}

TEST_CASE("a builder that fails publishes nothing and doesn't block the next one") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  CHECK_THROWS_AS(cache.find_or_build(kKey, []() -> CacheFiles { throw std::runtime_error("tool failed"); }),
                  std::runtime_error);
  CHECK(cache.list().empty());
  CHECK(cache.find_or_build(kKey, [] { return kFiles; }).built);
  CHECK(count_leftovers(cache.root()) == 0);
}

TEST_CASE("a file that was cut, zeroed, or changed in any one bit is noticed and built anew, with one warning") {
  TemporaryFolder folder;
  const fs::path root = folder / "cache";
  for (const char* name : {"kernel.cu", "kernel.cubin", "manifest"}) {
    REQUIRE(DiskCache(root).find_or_build(kKey, [] { return kFiles; }).files == kFiles);
    const fs::path path = root / kKey / name;
    const std::string whole = read_bytes(path);
    std::vector<std::string> damaged = {"", whole.substr(0, whole.size() - 1), whole + "x",
                                        std::string(whole.size(), '\0')};
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      damaged.push_back(whole);
      damaged.back()[bit / 8] = static_cast<char>(damaged.back()[bit / 8] ^ (1 << bit % 8));
    }
    for (const std::string& bytes : damaged) {
      write_bytes(path, bytes);
      DiskCache cache(root);
      if (cache.find(kKey).has_value())
        FAIL("damage of " << name << " to " << bytes.size() << " bytes was not noticed");
      if (cache.take_warnings().size() != 1) FAIL("damage of " << name << " gave no warning, or more than one");
    }
    DiskCache cache(root);
    const auto rebuilt = cache.find_or_build(kKey, [] { return kFiles; });
    CHECK(rebuilt.built);
    CHECK(cache.take_warnings().size() == 1);
    CHECK(DiskCache(root).find(kKey) == kFiles);
    CHECK(count_leftovers(root) == 0);
  }
}

TEST_CASE("an entry that lacks a file, or holds another key's manifest, is built anew") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  REQUIRE(cache.store(kKey, kFiles));
  fs::remove(cache.root() / kKey / "kernel.cubin");
  CHECK_FALSE(cache.find(kKey).has_value());
  CHECK(cache.store(kKey, kFiles));
  CHECK(cache.find(kKey) == kFiles);

  const std::string other = CacheKeyBuilder().add("source", "kernel two").key();
  fs::copy(cache.root() / kKey, cache.root() / other);
  CHECK_FALSE(cache.find(other).has_value());
  CHECK(cache.find_or_build(other, [] { return kOther; }).files == kOther);
  CHECK(cache.find(other) == kOther);
}

TEST_CASE("what stands in an entry's place but is no folder is replaced") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  REQUIRE(cache.store(kKey, kFiles));
  fs::remove_all(cache.root() / kKey);
  SECTION("a file") { write_bytes(cache.root() / kKey, "not a folder"); }
  SECTION("a link to a folder with good files") {
    REQUIRE(DiskCache(folder / "elsewhere").store(kKey, kFiles));
    fs::create_directory_symlink(folder / "elsewhere" / kKey, cache.root() / kKey);
  }
  SECTION("an empty folder") { fs::create_directory(cache.root() / kKey); }
  CHECK_FALSE(cache.find(kKey).has_value());
  CHECK(cache.find_or_build(kKey, [] { return kOther; }).built);
  CHECK(cache.find(kKey) == kOther);
  CHECK(fs::exists(folder / "cache"));
}

TEST_CASE("a file of an entry that is a link, a fifo or of another user is never read") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  REQUIRE(cache.store(kKey, kFiles));
  const fs::path path = cache.root() / kKey / "kernel.cubin";
  SECTION("a link to a file with the right bytes") {
    fs::rename(path, folder / "moved");
    fs::create_symlink(folder / "moved", path);
  }
  SECTION("a fifo") {
    fs::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  }
  SECTION("another user's file") {
    if (::chown(path.c_str(), 65534, 65534) != 0) ASTATIDE_SKIP("only root can give a file away");
  }
  SECTION("another user's entry") {
    if (::chown(path.parent_path().c_str(), 65534, 65534) != 0) ASTATIDE_SKIP("only root can give a folder away");
  }
  CHECK_FALSE(cache.find(kKey).has_value());
  CHECK(cache.find_or_build(kKey, [] { return kFiles; }).built);
  CHECK(cache.find(kKey) == kFiles);
}

TEST_CASE("a place that can't be used means memory only and one warning that names it") {
  TemporaryFolder folder;
  SECTION("a file in its place") {
    write_bytes(folder / "file", "");
    DiskCache cache(folder / "file");
    require_memory_only(cache, "no directory");
  }
  SECTION("a file in place of a parent") {
    write_bytes(folder / "file", "");
    DiskCache cache(folder / "file/cache");
    require_memory_only(cache, "Not a directory");
  }
  SECTION("a file system that can't be written") {
    DiskCache cache("/proc/astatide_cache");
    require_memory_only(cache, "can't be");
  }
  SECTION("a folder without the right to write") {
    const auto root = folder / "cache";
    fs::create_directory(root);
    REQUIRE(::chmod(root.c_str(), 0555) == 0);
    // Root may write everywhere, so the test becomes another user for a while.
    const bool is_root = ::geteuid() == 0;
    if (is_root) {
      REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
      REQUIRE(::chown(root.c_str(), 65534, 65534) == 0);
      REQUIRE(::seteuid(65534) == 0);
    }
    DiskCache cache(root);
    require_memory_only(cache, "can't be written");
    if (is_root) REQUIRE(::seteuid(0) == 0);
  }
  SECTION("a folder that all may write to") {
    fs::create_directory(folder / "cache");
    ::chmod((folder / "cache").c_str(), 0777);
    DiskCache cache(folder / "cache");
    require_memory_only(cache, "others may write to it (mode 0777)");
  }
  SECTION("a link to a folder") {
    fs::create_directory(folder / "real");
    fs::create_directory_symlink(folder / "real", folder / "cache");
    DiskCache cache(folder / "cache");
    require_memory_only(cache, "symbolic link");
    CHECK(fs::is_empty(folder / "real"));
  }
  SECTION("a folder of another user") {
    REQUIRE(DiskCache(folder / "cache").store(kKey, kOther));
    if (::chown((folder / "cache").c_str(), 65534, 65534) != 0) ASTATIDE_SKIP("only root can give a folder away");
    DiskCache cache(folder / "cache");
    require_memory_only(cache, "belongs to user 65534");
    CHECK_THROWS_AS(cache.clear(), UserError);
  }
}

TEST_CASE("the place is ASTATIDE_CACHE_DIR, else XDG_CACHE_HOME, else HOME, else none with a warning") {
  Environment environment;
  environment.cache_dir = "/a/cache";
  environment.xdg_cache_home = "/x";
  environment.home = "/h";
  CHECK(DiskCache::from_environment(environment).root() == "/a/cache");
  environment.cache_dir.reset();
  CHECK(DiskCache::from_environment(environment).root() == "/x/astatide");
  environment.xdg_cache_home = "relative";
  CHECK(DiskCache::from_environment(environment).root() == "/h/.cache/astatide");
  environment.home.reset();
  DiskCache none = DiskCache::from_environment(environment);
  CHECK(none.find_or_build(kKey, [] { return kFiles; }).files == kFiles);
  const auto warnings = none.take_warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], "ASTATIDE_CACHE_DIR"));
}

TEST_CASE("a variable that is set to the empty string counts as unset") {
  REQUIRE(::setenv("ASTATIDE_CACHE_DIR", "", 1) == 0);
  CHECK_FALSE(read_environment().cache_dir.has_value());
  REQUIRE(::setenv("ASTATIDE_CACHE_DIR", "/somewhere", 1) == 0);
  CHECK(read_environment().cache_dir == "/somewhere");
  ::unsetenv("ASTATIDE_CACHE_DIR");
}

TEST_CASE("keys depend on each field's name and value and on where one field ends") {
  const auto key = [](std::string_view a, std::string_view b) {
    return CacheKeyBuilder().add("one", a).add("two", b).key();
  };
  CHECK(key("ab", "c") == key("ab", "c"));
  CHECK(key("ab", "c") != key("a", "bc"));
  CHECK(key("ab", "c") != CacheKeyBuilder().add("two", "ab").add("one", "c").key());
  CHECK(CacheKeyBuilder().add("one", "x").key() != CacheKeyBuilder().add("one", "x").add("two", "").key());
  CHECK(is_cache_key(key("", "")));
}

TEST_CASE("time stamps of cache files mean nothing") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  REQUIRE(cache.store(kKey, kFiles));
  for (const auto& item : fs::recursive_directory_iterator(cache.root())) {
    fs::last_write_time(item.path(), fs::file_time_type::clock::now() - std::chrono::hours(24 * 365 * 20));
  }
  CHECK(cache.find(kKey) == kFiles);
}

TEST_CASE("list gives entries in order of their keys, and clear removes them and nothing else") {
  TemporaryFolder folder;
  DiskCache cache(folder / "cache");
  CHECK(cache.list().empty());
  CHECK(cache.clear() == 0);
  const std::string other = CacheKeyBuilder().add("source", "kernel two").key();
  REQUIRE(cache.store(kKey, kFiles));
  REQUIRE(cache.store(other, kOther));
  write_bytes(cache.root() / "notes.txt", "mine");
  const auto entries = cache.list();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].key == std::min(kKey, other));
  CHECK(entries[0].bytes + entries[1].bytes == 22 + 7 + 14);
  CHECK(cache.clear() == 2);
  CHECK(cache.list().empty());
  CHECK_FALSE(cache.find(kKey).has_value());
  CHECK(read_bytes(cache.root() / "notes.txt") == "mine");
}

TEST_CASE("a manifest is read only in exactly the form in which it is printed") {
  const std::string text = print_manifest(kKey, kFiles);
  const auto manifest = parse_manifest(text);
  REQUIRE(manifest.has_value());
  CHECK(manifest->key == kKey);
  REQUIRE(manifest->files.size() == 3);
  CHECK(manifest->files[1].size == 7);
  for (const std::string& bad : {text + "\n", text.substr(0, text.size() - 1), std::string(), "end\n" + text}) {
    CHECK_FALSE(parse_manifest(bad).has_value());
  }
  for (const char* name : {"../kernel.cu", ".hidden", "a/b", "", "manifest", "sp ace"})
    CHECK_FALSE(is_cache_file_name(name));
}
