#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "compiler/algorithm/names.h"
#include "compiler/rewrite/derive_merge.h"
#include "compiler/support/contains.h"
#include "tools/commands.h"
#include "tools/request.h"
#include "tools/run_result.h"

namespace astatide::tools {
namespace {

struct MergeWords {
  std::string algorithm, dtype;
  std::vector<std::string> parts, inputs, scalars, shapes;
  LaunchWords launch;
};

Location at_part() { return {"--part", 0, 0, {}}; }

/// "O=o.npy,L=l.npy", or a file that holds all.
std::vector<FileWord> files_of_part(const std::string& word, const std::vector<std::string>& outputs) {
  std::vector<std::string> pieces{""};
  std::size_t begin = 0;
  while (begin <= word.size()) {
    const std::size_t end = std::min(word.find(',', begin), word.size());
    const std::string piece = word.substr(begin, end - begin);
    const std::size_t equals = piece.find('=');
    // A comma of a path has no name behind it.
    const bool is_named = equals != std::string::npos && problem_with_name(piece.substr(0, equals)).empty();
    if (begin == 0)
      pieces.back() = piece;
    else if (is_named)
      pieces.push_back(piece);
    else
      pieces.back() += "," + piece;
    begin = end + 1;
  }
  return parse_file_words("--part", pieces, outputs);
}

/// Outputs of each part.
std::vector<HostTensors> read_parts(const Algorithm& algorithm, const std::vector<std::string>& words,
                                    std::vector<std::string>& warnings) {
  std::vector<HostTensors> parts;
  Diagnostics errors;
  for (const std::string& word : words) {
    parts.push_back(
        read_tensors(files_of_part(word, algorithm.outputs), algorithm.outputs, "output", algorithm, warnings));
    for (const std::string& output : algorithm.outputs) {
      const auto own = parts.back().find(output), first = parts.front().find(output);
      if (own == parts.back().end()) {
        errors.error(
            at_part(), fmt::format("part {} ({}) has no {}", parts.size() - 1, quoted(word), output),
            {fmt::format("merging {} takes {} of every part", algorithm.name, fmt::join(algorithm.outputs, ", "))});
      } else if (first != parts.front().end() && own->second.shape != first->second.shape) {
        errors.error(at_part(), fmt::format("{} of part {} is [{}], that of part 0 is [{}]", output, parts.size() - 1,
                                            fmt::join(own->second.shape, ", "), fmt::join(first->second.shape, ", ")));
      } else if (!is_floating(own->second.dtype)) {
        errors.error(at_part(), fmt::format("{} of part {} is {}, wanted is a floating type", output, parts.size() - 1,
                                            name_of(own->second.dtype)));
      }
    }
  }
  errors.throw_if_any();
  return parts;
}

/// Of outputs with an axis beyond the rows: the type that the parts agree on, else f32.
ScalarType type_of_parts(const Merge& merge, const std::vector<HostTensors>& parts) {
  std::optional<ScalarType> common;
  for (const HostTensors& part : parts)
    for (const auto& [output, tensor] : part) {
      // One number a row is f32 whatever the request says.
      if (merge.algorithm.find_input(merge.parts_of.at(output))->dtype) continue;
      if (common && *common != tensor.dtype) return ScalarType::f32;
      common = tensor.dtype;
    }
  const bool computes = common == ScalarType::f16 || common == ScalarType::bf16;
  return computes ? *common : ScalarType::f32;
}

/// The tensors of an output of all parts in one, with the parts for its first dimension.
runtime::HostTensor stacked(const std::vector<HostTensors>& parts, const std::string& output, ScalarType dtype) {
  std::vector<std::int64_t> shape = parts.front().at(output).shape;
  shape.insert(shape.begin(), static_cast<std::int64_t>(parts.size()));
  runtime::HostTensor all = runtime::zeros(dtype, shape);
  std::byte* to = all.origin();
  for (const HostTensors& part : parts) {
    const runtime::HostTensor own = runtime::dense_copy(part.at(output), dtype);
    to = std::copy(own.origin(), own.origin() + own.element_count() * size_in_bytes(dtype), to);
  }
  return all;
}

/// What finalize reads beside the parts has no value that could be thought up.
void require_inputs(const Merge& merge, const HostTensors& given) {
  Diagnostics errors;
  for (const Input& input : merge.algorithm.inputs)
    if (!given.contains(input.name))
      errors.error({"--input", 0, 0, {}},
                   fmt::format("{} is read where parts are merged, and is not given", input.name),
                   {fmt::format("--input {}=FILE.npy", input.name)});
  errors.throw_if_any();
}

Result compute(const MergeWords& words) {
  Result result;
  const Algorithm algorithm = load_algorithm(words.algorithm);
  // Refused before a file is read.
  Merge merge = derive_merge(algorithm);
  if (words.parts.empty()) throw UserError(at_part(), "there is no part to merge", {"--part results.safetensors"});
  std::vector<std::string> beside;
  for (const std::string& name : input_names(merge.algorithm))
    if (algorithm.find_input(name) != nullptr) beside.push_back(name);
  const std::vector<FileWord> files = parse_file_words("--input", words.inputs, beside);
  const std::vector<FileWord> destinations = parse_file_words("--output", words.launch.outputs, algorithm.outputs);
  const TimingWish wish = words.launch.timing();
  const EngineOptions engine_options = words.launch.engine();
  std::map<std::string, double> scalars;
  for (const std::string& text : words.scalars) parse_scalars(text, merge.algorithm, scalars);
  result.algorithm = algorithm.name;
  result.schedule = "merge";
  result.device = choose_device(words.launch.device);

  const std::vector<HostTensors> parts = read_parts(algorithm, words.parts, result.warnings);
  const ScalarType parts_type = type_of_parts(merge, parts);
  result.dtype = words.dtype.empty() ? parts_type : parse_dtype(words.dtype);
  merge = derive_merge(algorithm, parts_type);
  for (const std::string& note : merge.states.notes) result.warnings.push_back(note);
  HostTensors given = read_tensors(files, beside, "input", algorithm, result.warnings);
  for (const auto& [output, input] : merge.parts_of)
    given.emplace(input, stacked(parts, output, *merge.algorithm.find_input(input)->dtype));
  require_inputs(merge, given);
  result.extents = choose_extents(merge.algorithm, given, words.shapes);

  Engine engine(engine_options);
  const Executable executable =
      engine.build_merge(algorithm, {result.device.device, result.dtype, result.extents, {}}, parts_type);
  const HostTensors inputs = result.launch(engine, executable, given, scalars, wish);
  if (words.launch.check) result.check(merge.algorithm, scalars, inputs, {});
  write_outputs(destinations, result.outputs);
  return result;
}

}  // namespace

Command add_merge_command(CLI::App& program) {
  const auto words = std::make_shared<MergeWords>();
  CLI::App* app = program.add_subcommand(
      "merge", "Merges the outputs of an algorithm for parts of its axis into those of the whole.");
  app->add_option("ALG", words->algorithm, "algorithm whose outputs the parts are")->required();
  app->add_option("--part", words->parts, "outputs of one part: part.safetensors, or O=o.npy,L=l.npy; one a part")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app->add_option("--input", words->inputs, "what the outputs are made with beside, such as sink=sink.npy")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  app->add_option("--scalar", words->scalars, "scalars that differ from their defaults")
      ->type_name("NAME=X,..")
      ->allow_extra_args(false);
  app->add_option("--shape", words->shapes, "extents that no file shows")
      ->type_name("NAME=N,..")
      ->allow_extra_args(false);
  app->add_option("--dtype", words->dtype, "type of the results: f32, f16 or bf16; else that of the parts");
  add_launch_options(*app, words->launch);
  return {app, [words] { return report_result(compute(*words), words->launch.json); }};
}

}  // namespace astatide::tools
