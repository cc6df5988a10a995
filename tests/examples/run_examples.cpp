// Every shipped algorithm runs on the CPU, and is checked.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "api/astatide.h"
#include "runtime/tensor_file.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

using namespace astatide;
using namespace astatide::testing;
using nlohmann::json;

namespace {

/// Documents of seven tokens, as rows of a batch have them.
void write_documents(const std::filesystem::path& path, std::int64_t batch, std::int64_t length) {
  runtime::HostTensor documents = runtime::zeros(ScalarType::i32, {batch, length});
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t i = 0; i < length; ++i)
      runtime::set(documents, std::vector<std::int64_t>{b, i}, static_cast<double>(i / (7 + b)));
  runtime::write_npy(path.string(), documents);
}

void write_integers(const std::filesystem::path& path, ScalarType type, std::vector<std::int64_t> shape,
                    const std::vector<double>& values) {
  runtime::HostTensor tensor = runtime::zeros(type, shape);
  std::vector<std::int64_t> at(shape.size(), 0);
  for (const double value : values) {
    runtime::set(tensor, at, value);
    for (std::size_t d = shape.size(); d-- > 0 && ++at[d] == shape[d];) at[d] = 0;
  }
  runtime::write_npy(path.string(), tensor);
}

/// A small shape with lengths that no tile divides, for the extents that an algorithm has.
std::string shape_of(const Algorithm& algorithm) {
  const std::map<std::string, std::string> small = {
      {"B", "2"},     {"Hq", "4"},   {"Hkv", "2"},    {"Sq", "37"},     {"Sk", "70"}, {"D", "24"},
      {"Dv", "40"},   {"Left", "9"}, {"Right", "2"},  {"Prefix", "11"}, {"H", "3"},   {"Step", "3"},
      {"Reach", "5"}, {"R", "8"},    {"Pages", "11"}, {"Tq", "60"},     {"Tk", "70"}, {"Buckets", "8"}};
  std::string shape;
  for (const Extent& extent : algorithm.extents)
    shape += (shape.empty() ? "" : ",") + extent.name + "=" + small.at(extent.name);
  return shape;
}

void run_checked(const TemporaryFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), "run");
  words.insert(words.end(), {"--device", "cpu", "--check", "--json", "--repeat", "1"});
  std::string line;
  for (const std::string& word : words) line += word + " ";
  const ProgramResult result = run_astatide(words, {{"ASTATIDE_CACHE_DIR", (folder / "cache").string()}});
  INFO(line << "\n" << result.out << result.err);
  CHECK(result.code == 0);
  if (result.code == 0) CHECK(json::parse(result.out).at("ok") == true);
}

}  // namespace

TEST_CASE("every shipped algorithm computes what it says under the schedules of its device") {
  const TemporaryFolder folder;
  write_documents(folder / "doc_q.npy", 2, 37);
  write_documents(folder / "doc_k.npy", 2, 70);
  write_integers(folder / "length.npy", ScalarType::i32, {2}, {70, 33});
  write_integers(folder / "q_offset.npy", ScalarType::i32, {3}, {0, 25, 60});
  write_integers(folder / "k_offset.npy", ScalarType::i32, {3}, {0, 70, 70});
  write_integers(folder / "page.npy", ScalarType::i32, {2, 5}, {3, 0, 10, 7, 2, 9, 1, 5, 8, 4});
  write_integers(folder / "sees.npy", ScalarType::boolean, {4, 1, 2}, {1, 0, 0, 1, 1, 1, 0, 0});
  for (const char* of : {"paged_decode", "append_decode"})
    write_integers(folder / (std::string(of) + "_page.npy"), ScalarType::i32, {2, 2}, {3, 0, 10, 7});
  // Guess n follows from guess (n - 1) / 2: a binary tree.
  std::vector<double> tree;
  for (int n = 0; n < 2 * 37 * 37; ++n) {
    int at = n / 37 % 37;
    while (at > n % 37) at = (at - 1) / 2;
    tree.push_back(at == n % 37 ? 1 : 0);
  }
  write_integers(folder / "tree_decode_sees.npy", ScalarType::boolean, {2, 37, 37}, tree);
  // Distances of 5 at most: in both directions half of 8 buckets for each, and all of them for those behind.
  write_integers(folder / "t5_bucket.npy", ScalarType::i32, {11}, {3, 3, 3, 2, 1, 0, 5, 6, 7, 7, 7});
  write_integers(folder / "t5_causal_bucket.npy", ScalarType::i32, {6}, {0, 1, 2, 3, 5, 7});
  const std::vector<std::string> names = shipped_algorithms();
  REQUIRE(names.size() >= 10);
  for (const std::string& name : names) {
    const Algorithm algorithm = load_algorithm(name);
    // The schedule of the device, and one for GPUs where it speaks of names that the algorithm has: V is one.
    std::vector<std::string> schedules = {"", "simt/flash2"};
    for (const char* other : {"Q2", "Qr"})
      if (algorithm.find_input(other) != nullptr) schedules.resize(1);
    if (algorithm.find_input("V") == nullptr) schedules.resize(1);
    for (const std::string& schedule : schedules) {
      std::vector<std::string> words = {source_path("examples/" + name + ".yaml").string(), "--shape",
                                        shape_of(algorithm)};
      if (!schedule.empty()) words.insert(words.end(), {"--schedule", schedule});
      for (const char* integers : {"doc_q", "doc_k", "length", "page", "sees", "q_offset", "k_offset", "bucket"}) {
        if (algorithm.find_input(integers) == nullptr) continue;
        // What one algorithm needs by itself, or what serves all.
        std::filesystem::path file = folder / (name + "_" + integers + ".npy");
        if (!std::filesystem::exists(file)) file = folder / (std::string(integers) + ".npy");
        words.insert(words.end(), {"--input", std::string(integers) + "=" + file.string()});
      }
      run_checked(folder, words);
    }
  }
}

TEST_CASE("the real input of examples/data runs and is checked") {
  const TemporaryFolder folder;
  const std::string input = source_path("examples/data/minilm_qkv.safetensors").string();
  run_checked(folder, {"attention", "--schedule", "cpu/flash2", "--input", input});
}
