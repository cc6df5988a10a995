// Files of the source tree that the library carries as text, so that an installed program needs no data directory.
// The build generates the definitions (cmake/AstatideEmbed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace astatide {

struct EmbeddedFile {
  std::string_view name;  ///< Path below its folder, for example `simt/flash2.yaml`.
  std::string_view text;
};

/// The files of `runtime/device/` (`*.cuh`), sorted by name.
std::span<const EmbeddedFile> embedded_device_headers();

/// The files of `schedules/` (`*.yaml`) but for the spaces, sorted by name.
std::span<const EmbeddedFile> embedded_schedules();

/// The files of `schedules/spaces/` (`*.yaml`), sorted by name.
std::span<const EmbeddedFile> embedded_spaces();

/// The files of `examples/` (`*.yaml`), sorted by name.
std::span<const EmbeddedFile> embedded_examples();

/// The files of `runtime/stub/` (C), sorted by name.
std::span<const EmbeddedFile> embedded_stub_files();

}  // namespace astatide
