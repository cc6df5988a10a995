#include "runtime/cache_aside.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <random>
#include <vector>

#include "runtime/cache_files.h"

namespace astatide::runtime {
namespace {

namespace fs = std::filesystem;

// Where there are no locks: a process that writes an entry for longer than this has died.
constexpr std::chrono::hours kAbandonedAfter{1};
// Others may take a folder for abandoned between the calls that make and lock it.
constexpr int kMostNames = 16;

bool is_abandoned(const FileDescriptor& parent, const fs::directory_entry& item) {
  std::error_code failed;
  const auto written = fs::last_write_time(item.path(), failed);
  const bool old = !failed && fs::file_time_type::clock::now() - written > kAbandonedAfter;
  const FileDescriptor folder = open_directory_at(parent, item.path().filename().string());
  if (!folder) return old;
  if (::flock(folder.number(), LOCK_EX | LOCK_NB) == 0) return true;
  return errno != EWOULDBLOCK && old;
}

}  // namespace

std::string unique_name(const std::string& key) {
  static std::atomic<std::uint64_t> calls{0};
  std::random_device random;
  return fmt::format("{}.{}.{}.{:08x}", key.substr(0, 16), ::getpid(), calls++, random());
}

AsideFolder AsideFolder::make(const FileDescriptor& parent, const std::string& key) {
  for (int n = 0; n < kMostNames; ++n) {
    AsideFolder made;
    made.name_ = unique_name(key);
    if (::mkdirat(parent.number(), made.name_.c_str(), 0700) != 0) return {};
    made.folder_ = open_directory_at(parent, made.name_);
    if (!made.folder_ && errno != ENOENT) return {};
    if (!made.folder_) continue;
    if (::flock(made.folder_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) continue;
    if (still_names(parent, made.name_, made.folder_)) return made;
  }
  errno = EBUSY;
  return {};
}

void remove_abandoned(const FileDescriptor& parent, const fs::path& path) {
  std::error_code ignored;
  std::vector<fs::path> abandoned;
  for (const auto& item : fs::directory_iterator(path, ignored))
    if (is_abandoned(parent, item)) abandoned.push_back(item.path());
  for (const fs::path& left : abandoned) remove_tree(left);
}

}  // namespace astatide::runtime
