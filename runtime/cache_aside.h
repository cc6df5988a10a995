#pragma once

#include <filesystem>
#include <string>

#include "runtime/file_descriptor.h"

namespace astatide::runtime {

/// A name that no other process, thread or earlier call uses; it begins with what `key` begins with.
std::string unique_name(const std::string& key);

/// A new folder in which an entry is written before it is renamed into place. It is locked (flock) as long as this
/// lives, so that others see whether its writer died: in which process, container or machine that was is of no matter.
class AsideFolder {
 public:
  AsideFolder() = default;
  /// Nothing, with errno, where none can be made.
  static AsideFolder make(const FileDescriptor& parent, const std::string& key);

  explicit operator bool() const { return static_cast<bool>(folder_); }
  const FileDescriptor& folder() const { return folder_; }
  const std::string& name() const { return name_; }

 private:
  FileDescriptor folder_;
  std::string name_;
};

/// Removes what writers that died left in the folder `parent`, which lies at `path`.
void remove_abandoned(const FileDescriptor& parent, const std::filesystem::path& path);

}  // namespace astatide::runtime
