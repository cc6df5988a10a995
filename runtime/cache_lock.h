#pragma once

#include <chrono>
#include <string>

#include "runtime/file_descriptor.h"

namespace astatide::runtime {

/// The right to build one key, held by one process and thread at a time (flock on a file that the holder removes). It
/// is advice: whoever doesn't get it in time builds as well, and the renames keep the result right. The system frees it
/// when its holder dies.
class CacheLock {
 public:
  CacheLock() = default;
  /// Waits for at most `patience`. The lock that comes back may be empty: time was up
  /// (errno is EWOULDBLOCK), or the file system has no locks.
  static CacheLock acquire(const FileDescriptor& directory, const std::string& name,
                           std::chrono::milliseconds patience);
  ~CacheLock();
  CacheLock(CacheLock&& other) noexcept;
  CacheLock& operator=(CacheLock&& other) noexcept;
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

  explicit operator bool() const { return static_cast<bool>(file_); }

 private:
  void release();

  FileDescriptor directory_;
  FileDescriptor file_;
  std::string name_;
};

}  // namespace astatide::runtime
