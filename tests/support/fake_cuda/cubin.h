// What a driver reads in a file of machine code: the architecture, the kernels and their parameters.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <vector>

namespace fake {

struct Cubin {
  struct Kernel {
    std::string name;
    std::vector<std::size_t> parameters;  // bytes of each
  };
  int capability = 0;  // 90 for 9.0
  std::list<Kernel> kernels;
};

/// None where the image is no ELF file of a GPU. Of its length nothing is known but what it says itself.
std::optional<Cubin> read_cubin(const void* image);

}  // namespace fake
