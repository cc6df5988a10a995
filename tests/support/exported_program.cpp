#include "tests/support/exported_program.h"

#include <catch2/catch.hpp>

namespace astatide::testing {
namespace {

const std::array<const char*, 7> kNames = {"B", "Hq", "Hkv", "Sq", "Sk", "D", "Dv"};

ProgramResult run_cc(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"cc"};
  all.insert(all.end(), words.begin(), words.end());
  return run_program("/usr/bin/env", all);
}

}  // namespace

std::map<std::string, std::int64_t> extents_of(const Lengths& lengths) {
  std::map<std::string, std::int64_t> extents;
  for (std::size_t n = 0; n < kNames.size(); ++n) extents[kNames[n]] = lengths[n];
  return extents;
}

bool has_c_compiler() { return run_cc({"--version"}).code == 0; }

ExportedProgram::ExportedProgram(const std::string& schedule, ScalarType dtype, const std::vector<std::string>& targets,
                                 const Lengths& lengths)
    : dtype_(dtype) {
  std::string shape;
  for (const auto& [name, value] : extents_of(lengths))
    shape += (shape.empty() ? "" : ",") + name + "=" + std::to_string(value);
  std::vector<std::string> words = {
      "export",  "causal_gqa", "--schedule", schedule,        "--dtype", std::string(name_of(dtype)),
      "--shape", shape,        "--output",   files().string()};
  for (const std::string& target : targets) words.insert(words.end(), {"--target", target});
  const ProgramResult exported = run_astatide(words);
  INFO(exported.out << exported.err);
  REQUIRE(exported.code == 0);
  const ProgramResult compiled =
      run_cc({"-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic",
              "-DELEMENT_BYTES=" + std::to_string(size_in_bytes(dtype)), "-I" + files().string(),
              source_path("examples/export/main.c").string(), (files() / "causal_gqa.c").string(),
              (files() / "causal_gqa_code.c").string(), (files() / "astatide_stub.c").string(), "-ldl", "-lm", "-o",
              (folder_ / "program").string()});
  INFO(compiled.err);
  REQUIRE(compiled.code == 0);
  std::filesystem::create_directory(data());
}

void ExportedProgram::write_zeros(const Lengths& lengths) const {
  const auto [b, hq, hkv, sq, sk, d, dv] = lengths;
  const auto zeros = [&](const char* name, std::int64_t count) {
    write_bytes(data() / name, std::string(static_cast<std::size_t>(count * size_in_bytes(dtype_)), '\0'));
  };
  zeros("Q.bin", b * hq * sq * d);
  zeros("K.bin", b * hkv * sk * d);
  zeros("V.bin", b * hkv * sk * dv);
}

ProgramResult ExportedProgram::run(const Lengths& lengths, const std::map<std::string, std::string>& environment,
                                   int device) const {
  std::vector<std::string> words = {data().string()};
  for (const std::int64_t length : lengths) words.push_back(std::to_string(length));
  words.push_back(std::to_string(device));
  return run_program(folder_ / "program", words, environment);
}

}  // namespace astatide::testing
