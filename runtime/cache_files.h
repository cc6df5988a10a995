#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/file_descriptor.h"

// Files and folders of the cache, of which only those of this user count, and no symbolic link.

namespace astatide::runtime {

FileDescriptor open_directory_at(const FileDescriptor& parent, const std::string& name);

/// Whether this process's user owns what is open.
bool is_own(const FileDescriptor& file);

/// Makes a directory with mode 0700 where there is none, and opens it. Nothing, with errno, where it can't be or
/// belongs to somebody else.
FileDescriptor make_directory_at(const FileDescriptor& parent, const std::string& name);

/// Whether `name` still stands for what is open: others rename and remove.
bool still_names(const FileDescriptor& parent, const std::string& name, const FileDescriptor& open);

/// Reads a file of at most `most` bytes. Says in `damage` why it can't.
std::optional<std::string> read_own_file(const FileDescriptor& directory, const std::string& name, std::uint64_t most,
                                         std::string& damage);

/// A new file with mode 0600; false with errno.
bool write_new_file(const FileDescriptor& directory, const std::string& name, std::string_view bytes);

/// Removes what is there, and does nothing where it can't.
void remove_tree(const std::filesystem::path& path);

}  // namespace astatide::runtime
