#include "runtime/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/file_descriptor.h"

namespace astatide::runtime {
namespace {

class FileSource : public ByteSource {
 public:
  FileSource(std::string path, FileDescriptor file, std::uint64_t size)
      : ByteSource(std::move(path), size), file_(std::move(file)) {}

 private:
  void fetch(std::uint64_t offset, std::span<std::byte> to) const override {
    while (!to.empty()) {
      const ssize_t got = ::pread(file_.number(), to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(offset, "the file can't be read: " + error_text(errno));
      if (got == 0) fail(offset, "the file became shorter while it was read");
      to = to.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
  }

  FileDescriptor file_;
};

class MemorySource : public ByteSource {
 public:
  MemorySource(std::span<const std::byte> bytes, std::string name)
      : ByteSource(std::move(name), bytes.size()), bytes_(bytes) {}

 private:
  void fetch(std::uint64_t offset, std::span<std::byte> to) const override {
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
  }

  std::span<const std::byte> bytes_;
};

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  Location where;
  where.file = path;
  throw UserError(where, "the file can't be written: " + error_text(error));
}

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

void ByteSource::read(std::uint64_t offset, std::span<std::byte> to) const {
  if (offset > size_ || to.size() > size_ - offset) {
    fail(size_, fmt::format("the file ends here, {} bytes from byte {} on are needed", to.size(), offset));
  }
  fetch(offset, to);
}

std::string ByteSource::read_text(std::uint64_t offset, std::uint64_t length) const {
  if (offset > size_ || length > size_ - offset) {
    fail(size_, fmt::format("the file ends here, {} bytes from byte {} on are needed", length, offset));
  }
  std::string text(length, '\0');
  fetch(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

void ByteSource::fail(std::uint64_t offset, const std::string& message, std::vector<std::string> notes) const {
  Location where;
  where.file = name_;
  throw UserError(where, fmt::format("byte {}: {}", offset, message), std::move(notes));
}

std::unique_ptr<ByteSource> open_file(const std::string& path) {
  Location where;
  where.file = path;
  // O_NONBLOCK: opening a fifo must not wait for a writer.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.number(), &status) != 0)
    throw UserError(where, "the file can't be read: " + error_text(errno));
  if (!S_ISREG(status.st_mode)) throw UserError(where, "this is no regular file");
  return std::make_unique<FileSource>(path, std::move(file), static_cast<std::uint64_t>(status.st_size));
}

std::unique_ptr<ByteSource> view_memory(std::span<const std::byte> bytes, std::string name) {
  return std::make_unique<MemorySource>(bytes, std::move(name));
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    // A device or a pipe is written as it is: a rename would replace it.
    const FileDescriptor target(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!target || !write_all(target.number(), bytes)) fail_to_write(path, errno);
    return;
  }
  static std::atomic<std::uint64_t> calls{0};
  const std::string aside = fmt::format("{}.{}.{}.tmp", path, ::getpid(), calls++);
  const FileDescriptor file(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) fail_to_write(path, errno);
  const bool written = write_all(file.number(), bytes) && ::rename(aside.c_str(), path.c_str()) == 0;
  if (!written) {
    const int error = errno;
    ::unlink(aside.c_str());
    fail_to_write(path, error);
  }
}

std::string quote_for_message(std::string_view text) {
  std::string shown = "'";
  for (const char c : text.substr(0, 60)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '\'' || c == '\\') {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  return shown + (text.size() > 60 ? "…'" : "'");
}

}  // namespace astatide::runtime
