#include "runtime/cache_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

namespace astatide::runtime {

FileDescriptor open_directory_at(const FileDescriptor& parent, const std::string& name) {
  return FileDescriptor(::openat(parent.number(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_own(const FileDescriptor& file) {
  struct stat status {};
  return ::fstat(file.number(), &status) == 0 && status.st_uid == ::geteuid();
}

FileDescriptor make_directory_at(const FileDescriptor& parent, const std::string& name) {
  if (::mkdirat(parent.number(), name.c_str(), 0700) != 0 && errno != EEXIST) {
    // A place that can only be read says so before it looks whether the directory is there.
    const int error = errno;
    FileDescriptor directory = open_directory_at(parent, name);
    if (!directory || !is_own(directory)) return errno = error, FileDescriptor();
    return directory;
  }
  FileDescriptor directory = open_directory_at(parent, name);
  if (directory && !is_own(directory)) return errno = EPERM, FileDescriptor();
  return directory;
}

bool still_names(const FileDescriptor& parent, const std::string& name, const FileDescriptor& open) {
  struct stat held {};
  struct stat named {};
  return ::fstat(open.number(), &held) == 0 &&
         ::fstatat(parent.number(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

std::optional<std::string> read_own_file(const FileDescriptor& directory, const std::string& name, std::uint64_t most,
                                         std::string& damage) {
  // O_NONBLOCK: a fifo that somebody put there must not stop us.
  const FileDescriptor file(::openat(directory.number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.number(), &status) != 0) {
    damage = fmt::format("{} can't be read: {}", name, error_text(errno));
    return std::nullopt;
  }
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) {
    damage = fmt::format("{} is no file of this user", name);
    return std::nullopt;
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > most) {
    damage = fmt::format("{} has {} bytes, at most {} are expected", name, size, most);
    return std::nullopt;
  }
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.number(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      damage = fmt::format("{} ends after {} of {} bytes", name, done, bytes.size());
      return std::nullopt;
    }
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

bool write_new_file(const FileDescriptor& directory, const std::string& name, std::string_view bytes) {
  const FileDescriptor file(
      ::openat(directory.number(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return false;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void remove_tree(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace astatide::runtime
