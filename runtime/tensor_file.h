#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/host_tensor.h"

namespace astatide::runtime {

// Tensors as .npy (NumPy's format 1.0 to 3.0: numpy.lib.format) and .safetensors (huggingface/safetensors, README
// "Format") files. A file is data from somebody else: every number in it is checked against the file's size before
// memory is asked for, and what is wrong is a UserError with the file, the place in bytes, the number and the limit.
// Integer types that ScalarType lacks are widened to the next that holds all their values: 8- and 16-bit integers to
// i32, 32-bit unsigned ones to i64.

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};

struct SafetensorsFile {
  std::vector<NamedTensor> tensors;             // in order of their place in the file
  std::map<std::string, std::string> metadata;  // the entry __metadata__
};

/// Elements f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 b1, either byte order, C or Fortran order (which becomes strides), and
/// bfloat16 in the form that ml_dtypes writes (V2).
HostTensor read_npy(const std::string& path);
/// From memory; `name` stands for the file in messages.
HostTensor parse_npy(std::span<const std::byte> bytes, const std::string& name);

/// Elements F64 F32 F16 BF16 I64 I32 I16 I8 U32 U16 U8 BOOL.
SafetensorsFile read_safetensors(const std::string& path);
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

/// The bytes of a file of format 1.0 (2.0 where the header is longer), little endian, C order.
std::vector<std::byte> print_npy(const HostTensor& tensor);
/// Throws UserError when two tensors have one name, or one is called __metadata__.
std::vector<std::byte> print_safetensors(const SafetensorsFile& file);

/// The file appears whole, in place of an old one, or not at all. Throws UserError when it can't be written.
void write_npy(const std::string& path, const HostTensor& tensor);
void write_safetensors(const std::string& path, const SafetensorsFile& file);

}  // namespace astatide::runtime
