#pragma once

#include <vector>

#include "runtime/cache.h"
#include "runtime/nvrtc.h"

namespace astatide::runtime {

/// What a request's key and target depend on.
struct NvrtcFacts {
  NvrtcVersion version;
  std::vector<int> supported;  // architectures, in order
};

/// The facts of the library that nvrtc() loads. Loading takes longer than reading a kernel from the cache, so what
/// keep_nvrtc_facts left there is used; it belongs to one file: path, inode, size and time of change. Throws as
/// nvrtc().
NvrtcFacts nvrtc_facts(DiskCache& disk);

/// Keeps them for other processes. Does nothing where the file is only known to the loader's search path.
void keep_nvrtc_facts(DiskCache& disk, const NvrtcFacts& facts);

}  // namespace astatide::runtime
