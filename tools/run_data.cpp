#include "tools/run_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/available_memory.h"
#include "api/check_reads.h"
#include "compiler/algorithm/names.h"
#include "compiler/support/contains.h"
#include "runtime/tensor_file.h"
#include "tools/request.h"

namespace astatide::tools {
namespace {

void add_tensor(HostTensors& tensors, const FileWord& file, const std::string& name, runtime::HostTensor tensor) {
  if (!tensors.try_emplace(name, std::move(tensor)).second)
    throw UserError({file.flag, 0, 0, {}}, fmt::format("{} comes twice, again from {}", name, file.path));
}

/// NAME=FILE.safetensors: the tensor of this name, or the only one.
runtime::HostTensor choose_tensor(const FileWord& file, runtime::SafetensorsFile content) {
  std::vector<std::string> names;
  for (runtime::NamedTensor& named : content.tensors) {
    if (named.name == file.tensor) return std::move(named.tensor);
    names.push_back(named.name);
  }
  if (content.tensors.size() == 1) return std::move(content.tensors[0].tensor);
  throw UserError({file.flag, 0, 0, {}}, fmt::format("{} has no tensor {}", file.path, file.tensor),
                  suggestion(file.tensor, names));
}

std::int64_t bytes_of(const Executable& executable, const std::map<std::string, std::int64_t>& extents) {
  std::int64_t bytes = 0;
  for (const tile::Tensor& tensor : executable.program().tensors) {
    if (tensor.role != tile::Tensor::Role::input && tensor.role != tile::Tensor::Role::output) continue;
    std::int64_t own = size_in_bytes(tensor.type);
    for (const std::int64_t extent : describe_tensor(executable, tensor.name, extents).shape) own *= extent;
    if (__builtin_add_overflow(bytes, own, &bytes))
      throw MachineError("the tensors together need more than 2^63 bytes");
  }
  return bytes;
}

}  // namespace

std::vector<std::string> input_names(const Algorithm& algorithm) {
  std::vector<std::string> names;
  for (const Input& input : algorithm.inputs) names.push_back(input.name);
  return names;
}

std::vector<std::string> written_names(const Algorithm& algorithm) {
  std::vector<std::string> names = algorithm.outputs;
  for (const Input& input : algorithm.inputs)
    if (algorithm.updates_input(input.name)) names.push_back(input.name);
  return names;
}

std::vector<FileWord> parse_file_words(const std::string& flag, const std::vector<std::string>& words,
                                       const std::vector<std::string>& known) {
  std::vector<FileWord> files;
  for (const std::string& word : words) {
    FileWord file{flag, "", word};
    const std::size_t equals = word.find('=');
    // Paths may hold an equals sign; a name holds letters, digits and underscores.
    if (equals != std::string::npos && problem_with_name(word.substr(0, equals)).empty()) {
      file.tensor = word.substr(0, equals);
      file.path = word.substr(equals + 1);
      if (std::find(known.begin(), known.end(), file.tensor) == known.end())
        throw UserError({flag, 0, 0, {}}, fmt::format("no tensor {}", file.tensor), suggestion(file.tensor, known));
    }
    if (!file.is_safetensors() && !file.path.ends_with(".npy"))
      throw UserError({flag, 0, 0, {}},
                      fmt::format("'{}' ends neither in .npy nor in .safetensors", quoted(file.path)));
    if (!file.is_safetensors() && file.tensor.empty())
      throw UserError({flag, 0, 0, {}}, fmt::format("'{}' holds one tensor and does not say which", quoted(file.path)),
                      {fmt::format("write {}={}", known.empty() ? "NAME" : known.front(), quoted(file.path))});
    files.push_back(std::move(file));
  }
  return files;
}

HostTensors read_tensors(const std::vector<FileWord>& files, const std::vector<std::string>& names,
                         const std::string& kind, const Algorithm& algorithm, std::vector<std::string>& warnings) {
  HostTensors tensors;
  for (const FileWord& file : files) {
    if (!file.is_safetensors()) {
      add_tensor(tensors, file, file.tensor, runtime::read_npy(file.path));
      continue;
    }
    runtime::SafetensorsFile content = runtime::read_safetensors(file.path);
    if (!file.tensor.empty()) {
      add_tensor(tensors, file, file.tensor, choose_tensor(file, std::move(content)));
      continue;
    }
    std::vector<std::string> unused;
    const std::size_t before = tensors.size();
    for (runtime::NamedTensor& named : content.tensors) {
      if (contains(names, named.name)) {
        add_tensor(tensors, file, named.name, std::move(named.tensor));
      } else {
        unused.push_back(quoted(named.name));
      }
    }
    if (tensors.size() == before)
      throw UserError(
          {file.flag, 0, 0, {}}, fmt::format("{} holds no {} of {}", file.path, kind, algorithm.name),
          {fmt::format("{}s are {}; the file holds {}", kind, fmt::join(names, ", "), fmt::join(unused, ", "))});
    if (!unused.empty())
      warnings.push_back(fmt::format("{} of {} are no {}s of {} and are not used", fmt::join(unused, ", "), file.path,
                                     kind, algorithm.name));
  }
  return tensors;
}

std::optional<ScalarType> common_type(const Algorithm& algorithm, const HostTensors& inputs) {
  std::optional<ScalarType> common;
  for (const auto& [name, tensor] : inputs) {
    if (algorithm.find_input(name)->dtype) continue;
    if (common && *common != tensor.dtype) return std::nullopt;
    common = tensor.dtype;
  }
  const bool computes = common == ScalarType::f32 || common == ScalarType::f16 || common == ScalarType::bf16;
  return computes ? common : std::nullopt;
}

std::map<std::string, std::int64_t> choose_extents(const Algorithm& algorithm, const HostTensors& inputs,
                                                   const std::vector<std::string>& shapes) {
  std::map<std::string, std::int64_t> extents;
  for (const std::string& text : shapes) parse_shape(text, algorithm, extents);
  std::map<std::string, TensorView> views;
  for (const auto& [name, tensor] : inputs) views[name] = view_of(tensor);
  Diagnostics errors;
  for (const auto& [name, value] : extents_of(algorithm, views)) {
    const auto [given, added] = extents.try_emplace(name, value);
    if (!added && given->second != value)
      errors.error({"--shape", 0, 0, {}}, fmt::format("{} is {}, in the files it is {}", name, given->second, value));
  }
  errors.throw_if_any();
  for (const auto& [name, value] : algorithm.sizes) extents.try_emplace(name, value);
  for (const Extent& extent : algorithm.extents)
    if (!extents.contains(extent.name))
      errors.error(
          {"--shape", 0, 0, {}}, fmt::format("nothing says how large {} is", extent.name),
          {fmt::format("no file, no --shape {0}=N and no `sizes` of {1} names it", extent.name, algorithm.name)});
  errors.throw_if_any();
  return extents;
}

HostTensors prepare_inputs(const Executable& executable, const HostTensors& files,
                           const std::map<std::string, std::int64_t>& extents, std::uint64_t seed) {
  HostTensors inputs;
  for (const Input& input : executable.algorithm().inputs) {
    const auto file = files.find(input.name);
    if (file == files.end()) {
      inputs.emplace(input.name, random_tensor(executable, input.name, extents, seed));
    } else {
      const ScalarType wanted = describe_tensor(executable, input.name, extents).dtype;
      if (is_floating(wanted) != is_floating(file->second.dtype))
        throw UserError({"--input", 0, 0, {}}, fmt::format("{} is {} in the file, the algorithm wants {}", input.name,
                                                           name_of(file->second.dtype), name_of(wanted)));
      // A tensor of the right type keeps its strides: the kernels take any.
      inputs.emplace(input.name,
                     file->second.dtype == wanted ? file->second : runtime::dense_copy(file->second, wanted));
    }
  }
  return inputs;
}

void check_indices(const Algorithm& algorithm, const std::map<std::string, std::int64_t>& extents,
                   const HostTensors& inputs, PlacesChecked places) {
  const ReadSites reads = find_read_sites(algorithm);
  HostIntegers data;
  for (const std::string& name : index_inputs(reads)) data[name] = view_of(inputs.at(name));
  Diagnostics errors;
  check_reads(reads, extents, data, errors, places);
  errors.throw_if_any();
}

void write_outputs(const std::vector<FileWord>& files, const HostTensors& outputs) {
  for (const FileWord& file : files) {
    if (!file.is_safetensors()) {
      runtime::write_npy(file.path, outputs.at(file.tensor));
      continue;
    }
    runtime::SafetensorsFile content;
    for (const auto& [name, tensor] : outputs)
      if (file.tensor.empty() || file.tensor == name) content.tensors.push_back({name, tensor});
    runtime::write_safetensors(file.path, content);
  }
}

void require_tensor_memory(const Executable& executable, const std::map<std::string, std::int64_t>& extents) {
  require_memory(bytes_of(executable, extents), "the tensors");
}

}  // namespace astatide::tools
