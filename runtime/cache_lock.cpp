#include "runtime/cache_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "runtime/cache_files.h"

namespace astatide::runtime {
CacheLock CacheLock::acquire(const FileDescriptor& directory, const std::string& name,
                             std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::chrono::milliseconds pause{1};
  while (true) {
    FileDescriptor file(::openat(directory.number(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return {};
    while (::flock(file.number(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() >= deadline) return {};
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::milliseconds(20));
    }
    // A holder removes the file, and a waiter may then own a lock on nothing.
    if (still_names(directory, name, file)) {
      CacheLock lock;
      lock.directory_ = FileDescriptor(::fcntl(directory.number(), F_DUPFD_CLOEXEC, 0));
      lock.file_ = std::move(file);
      lock.name_ = name;
      return lock;
    }
    if (std::chrono::steady_clock::now() >= deadline) return {};
  }
}

CacheLock::~CacheLock() { release(); }

CacheLock::CacheLock(CacheLock&& other) noexcept
    : directory_(std::move(other.directory_)), file_(std::move(other.file_)), name_(std::move(other.name_)) {}

CacheLock& CacheLock::operator=(CacheLock&& other) noexcept {
  if (this != &other) {
    release();
    directory_ = std::move(other.directory_);
    file_ = std::move(other.file_);
    name_ = std::move(other.name_);
  }
  return *this;
}

void CacheLock::release() {
  if (!file_) return;
  // Removed while the lock is held: after it, the name may be another holder's file.
  if (directory_ && still_names(directory_, name_, file_)) ::unlinkat(directory_.number(), name_.c_str(), 0);
  file_ = FileDescriptor();
}

}  // namespace astatide::runtime
