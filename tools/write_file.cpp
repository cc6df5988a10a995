#include "tools/write_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "compiler/support/diagnostic.h"

namespace astatide::tools {

void write_file(const std::string& path, const std::string& text) {
  const std::string aside = fmt::format("{}.{}", path, ::getpid());
  const int file = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool written = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool closed = file >= 0 && ::close(file) == 0;
  if (written && closed && ::rename(aside.c_str(), path.c_str()) == 0) return;
  const std::string why = std::strerror(errno);
  ::unlink(aside.c_str());
  throw UserError({path, 0, 0, {}}, fmt::format("can't be written: {}", why));
}

}  // namespace astatide::tools
