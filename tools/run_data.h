#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/astatide.h"
#include "api/check_reads.h"
#include "api/random_tensors.h"
#include "runtime/host_tensor.h"

namespace astatide::tools {

/// What the words of --input and --output say: a tensor's name, or none for all, and a file.
struct FileWord {
  std::string flag;
  std::string tensor;
  std::string path;
  bool is_safetensors() const { return path.ends_with(".safetensors"); }
};
std::vector<std::string> input_names(const Algorithm& algorithm);
/// Outputs, and inputs that are updated.
std::vector<std::string> written_names(const Algorithm& algorithm);

/// "Q=q.npy", "Q=layer.safetensors", "all.safetensors". Throws UserError where the extension is another, or an .npy
/// file has no name before it.
std::vector<FileWord> parse_file_words(const std::string& flag, const std::vector<std::string>& words,
                                       const std::vector<std::string>& known);

/// Tensors from files, as they are there: those of `names`, which are `kind`s ("input") of the algorithm. Another
/// tensor of a file gives a warning.
HostTensors read_tensors(const std::vector<FileWord>& files, const std::vector<std::string>& names,
                         const std::string& kind, const Algorithm& algorithm, std::vector<std::string>& warnings);
/// The type that the files agree on, or none.
std::optional<ScalarType> common_type(const Algorithm& algorithm, const HostTensors& inputs);

/// Extents from the files' shapes, then --shape, then the algorithm's own sizes. Throws UserError where files and
/// --shape disagree, or nothing gives an extent.
std::map<std::string, std::int64_t> choose_extents(const Algorithm& algorithm, const HostTensors& inputs,
                                                   const std::vector<std::string>& shapes);

/// The inputs that the executable takes: those of `files` in its types, the others random_tensor.
HostTensors prepare_inputs(const Executable& executable, const HostTensors& files,
                           const std::map<std::string, std::int64_t>& extents, std::uint64_t seed);
/// What a launch on a GPU can't look at: the data of indices.
void check_indices(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                   const HostTensors& inputs, PlacesChecked places);

void write_outputs(const std::vector<FileWord>& files, const HostTensors& outputs);

/// Throws MachineError when the machine has not the memory left for inputs and outputs.
void require_tensor_memory(const Executable& executable, const std::map<std::string, std::int64_t>& extents);

}  // namespace astatide::tools
