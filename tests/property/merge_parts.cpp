// Outputs for parts of the keys, merged, are those of one pass, whatever the algorithm, the parts and their order; and
// every stage of the merging kernel has the values of the merge as an algorithm.

#include <catch2/catch.hpp>
#include <random>

#include "compiler/pipeline.h"
#include "tests/support/merge_cases.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/stage_values.h"

namespace astatide::testing {
namespace {

using Outputs = std::map<std::string, DoubleTensor>;

const std::map<std::string, std::int64_t> kSizes = {{"B", 2}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 3},
                                                    {"D", 5}, {"Dv", 6}, {"Sk", 0}};

std::map<std::string, std::int64_t> sizes_for(const Algorithm& algorithm, std::int64_t keys) {
  std::map<std::string, std::int64_t> out;
  for (const Extent& extent : algorithm.extents) out[extent.name] = extent.name == "Sk" ? keys : kSizes.at(extent.name);
  return out;
}

/// Keys begin .. end of the third dimension.
DoubleTensor keys_of(const DoubleTensor& tensor, std::int64_t begin, std::int64_t end) {
  DoubleTensor out{tensor.shape, {}};
  out.shape[2] = end - begin;
  const std::int64_t outer = tensor.shape[0] * tensor.shape[1], width = tensor.shape[3];
  for (std::int64_t n = 0; n < outer; ++n)
    for (std::int64_t j = begin; j < end; ++j)
      for (std::int64_t d = 0; d < width; ++d)
        out.values.push_back(tensor.values[static_cast<std::size_t>((n * tensor.shape[2] + j) * width + d)]);
  return out;
}

Arguments with_keys(const Arguments& whole, std::int64_t begin, std::int64_t end) {
  Arguments out = whole;
  out.extents["Sk"] = end - begin;
  for (const char* name : {"K", "V"})
    if (const auto input = out.inputs.find(name); input != out.inputs.end())
      input->second = keys_of(input->second, begin, end);
  return out;
}

/// What a kernel gives: a mean of nothing is 0 there, not 0 divided by 0.
Outputs outputs_of(const Algorithm& algorithm, const Arguments& arguments) {
  Outputs out = evaluate(algorithm, arguments);
  for (auto& [name, tensor] : out)
    for (double& value : tensor.values)
      if (std::isnan(value)) value = 0;
  return out;
}

/// So many parts, some of them empty.
std::vector<Outputs> in_parts(const Algorithm& algorithm, const Arguments& whole, int count, std::mt19937& random) {
  const std::int64_t keys = whole.extents.at("Sk");
  std::vector<std::int64_t> cuts{0, keys};
  for (int n = 1; n < count; ++n) cuts.push_back(static_cast<std::int64_t>(random()) % (keys + 1));
  std::sort(cuts.begin(), cuts.end());
  std::vector<Outputs> parts;
  for (int n = 0; n < count; ++n) {
    const auto at = static_cast<std::size_t>(n);
    parts.push_back(outputs_of(algorithm, with_keys(whole, cuts[at], cuts[at + 1])));
  }
  return parts;
}

/// What the merge, as an algorithm, is given.
Arguments arguments_of(const Merge& merge, const Arguments& whole, const std::vector<Outputs>& parts) {
  Arguments out;
  for (const Extent& extent : merge.algorithm.extents)
    out.extents[extent.name] =
        extent.name == merge.count ? static_cast<std::int64_t>(parts.size()) : whole.extents.at(extent.name);
  for (const Input& input : merge.algorithm.inputs)
    if (const auto given = whole.inputs.find(input.name); given != whole.inputs.end()) out.inputs.insert(*given);
  for (const auto& [output, input] : merge.parts_of) {
    DoubleTensor all = parts.front().at(output);
    all.shape.insert(all.shape.begin(), static_cast<std::int64_t>(parts.size()));
    all.values.clear();
    for (const Outputs& part : parts)
      all.values.insert(all.values.end(), part.at(output).values.begin(), part.at(output).values.end());
    out.inputs[input] = std::move(all);
  }
  return out;
}

Outputs merged(const Merge& merge, const Arguments& whole, const std::vector<Outputs>& parts) {
  return evaluate(merge.algorithm, arguments_of(merge, whole, parts));
}

Arguments inputs_for(const Algorithm& algorithm, std::int64_t keys, double scale, unsigned seed) {
  std::mt19937 random(seed);
  Arguments out = random_inputs(algorithm, sizes_for(algorithm, keys), random);
  for (double& value : out.inputs.at("Q").values) value *= scale;
  return out;
}

}  // namespace

TEST_CASE("any number of parts gives what one pass gives, small scores and large") {
  for (const MergeCase& c : merge_cases()) {
    const Merge merge = derive_merge(c.algorithm);
    unsigned seed = 1;
    // Where a weight is 0 an entropy as it is written is 0 times infinity, in the oracle too.
    const double large = c.name == "entropy" ? 40 : 2000;
    for (const double scale : {1.0, large}) {
      const Arguments whole = inputs_for(c.algorithm, 40, scale, ++seed);
      const Outputs expected = evaluate(c.algorithm, whole);
      for (const int count : {1, 2, 3, 7, 64}) {
        std::mt19937 random(seed * 100 + static_cast<unsigned>(count));
        INFO(c.name << ", " << count << " parts, scores times " << scale);
        CHECK(distance(merged(merge, whole, in_parts(c.algorithm, whole, count, random)), expected) < kTolerance);
      }
    }
  }
}

TEST_CASE("merging is associative and commutative, with empty parts for identity") {
  for (const MergeCase& c : merge_cases()) {
    INFO(c.name);
    const Merge merge = derive_merge(c.algorithm);
    const Arguments whole = inputs_for(c.algorithm, 30, 1, 7);
    const auto part = [&](int begin, int end) { return outputs_of(c.algorithm, with_keys(whole, begin, end)); };
    const Outputs x = part(0, 4), y = part(4, 19), z = part(19, 30), none = part(9, 9);
    const auto join = [&](const std::vector<Outputs>& parts) { return merged(merge, whole, parts); };
    CHECK(distance(join({join({x, y}), z}), join({x, join({y, z})})) < kTolerance);
    CHECK(distance(join({x, y}), join({y, x})) < kTolerance);
    CHECK(distance(join({x, none}), x) < kTolerance);
    CHECK(distance(join({none, x}), x) < kTolerance);
    CHECK(distance(join({x}), x) < kTolerance);
    // No NaN: what a row without keys has.
    for (const std::vector<Outputs>& parts : {std::vector{none}, {none, none}, {none, none, none}})
      CHECK(distance(join(parts), none) == 0);
  }
}

TEST_CASE("chunks of a prefill: what all rows see, then what the mask cuts") {
  const Algorithm masked = example_algorithm("causal_gqa"), whole_keys = example_algorithm("attention");
  const Merge merge = derive_merge(masked);
  for (const std::int64_t keys : {3, 4, 17, 40}) {
    const Arguments whole = inputs_for(masked, keys, 1, static_cast<unsigned>(keys));
    const std::int64_t before = keys - whole.extents.at("Sq"), half = before / 2;
    INFO(keys << " keys");
    CHECK(distance(merged(merge, whole,
                          {evaluate(whole_keys, with_keys(whole, 0, half)),
                           evaluate(whole_keys, with_keys(whole, half, before)),
                           evaluate(masked, with_keys(whole, before, keys))}),
                   evaluate(masked, whole)) < kTolerance);
  }
}

TEST_CASE("a prefix that items share: its keys once, then each item's own") {
  const Algorithm algorithm = example_algorithm("attention");
  const Merge merge = derive_merge(algorithm);
  Arguments whole = inputs_for(algorithm, 23, 1, 5);
  // The first 9 keys of both items are the same, so as one item they have the queries of both.
  for (const char* name : {"K", "V"}) {
    DoubleTensor& tensor = whole.inputs.at(name);
    const auto item = static_cast<std::ptrdiff_t>(tensor.values.size() / 2);
    std::copy(tensor.values.begin(), tensor.values.begin() + 9 * tensor.shape[3], tensor.values.begin() + item);
  }
  const Arguments prefix = with_keys(whole, 0, 9);
  CHECK(distance(merged(merge, whole, {evaluate(algorithm, prefix), evaluate(algorithm, with_keys(whole, 9, 23))}),
                 evaluate(algorithm, whole)) < kTolerance);
}

TEST_CASE("every stage of a merging kernel has the values of the merge") {
  unsigned seed = 30;
  for (const MergeCase& c : merge_cases()) {
    const Merge merge = derive_merge(c.algorithm);
    for (const auto& [count, target] : {std::pair{1, "cpu"}, {3, "sm_80"}, {7, "sm_90a"}}) {
      std::mt19937 random(++seed);
      const Arguments whole = inputs_for(c.algorithm, 11, 1, seed);
      const Arguments arguments = arguments_of(merge, whole, in_parts(c.algorithm, whole, count, random));
      const Outputs expected = evaluate(merge.algorithm, arguments);
      INFO(c.name << ", " << count << " parts, " << target);
      CompileOptions options;
      options.target = *find_target(target);
      options.sizes = arguments.extents;
      Changes changes;
      compile_merge(merge, options, [&](std::string_view stage, const tile::Program& program) {
        if (changes.in(program)) require_stage_values(stage, program, merge.algorithm, arguments, expected);
      });
    }
  }
}

}  // namespace astatide::testing
