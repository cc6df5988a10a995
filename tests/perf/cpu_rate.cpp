#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "compiler/algorithm/evaluate.h"
#include "compiler/pipeline.h"
#include "tests/support/cpu_runner.h"
#include "tests/support/paths.h"
#include "tests/support/schedule_cases.h"

#ifdef ASTATIDE_HAVE_OPENBLAS
#include <cblas.h>
#endif

// Rates on the CPU: an algorithm under a schedule against OpenBLAS's matrix product with as many threads, and schedules
// against each other. Everything is measured in turns, so that what else the machine does touches all alike.

using namespace astatide;
using namespace astatide::testing;

namespace {

constexpr int kRounds = 9;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Best {
  double seconds = std::numeric_limits<double>::infinity();
  void take(double measured) { seconds = std::min(seconds, measured); }
};

// attention.yaml under a schedule of schedules/cpu, with data of ones and small numbers.
class Subject {
 public:
  Subject(const std::string& schedule, ScalarType type, std::int64_t heads, std::int64_t length)
      : algorithm_(example_algorithm("attention")) {
    extents_ = {{"B", 1}, {"Hq", heads}, {"Hkv", heads}, {"Sq", length}, {"Sk", length}, {"D", 64}, {"Dv", 64}};
    CompileOptions options;
    options.target = *find_target("cpu");
    options.sizes = extents_;
    options.dtype = type;
    const tile::Program program =
        compile(algorithm_, parse_schedule(shipped_schedule("cpu/" + schedule), schedule), options);
    code_ = std::make_unique<CpuProgram>(program, cpu::detect_host());
    for (const tile::Tensor& tensor : program.tensors) {
      if (tensor.role == tile::Tensor::Role::scratch) continue;
      std::vector<std::int64_t> shape;
      for (const Expr& dim : tensor.dims) shape.push_back(evaluate_integer(dim, extents_));
      HostArray array = HostArray::poisoned(tensor.type, shape);
      if (tensor.role == tile::Tensor::Role::input) {
        std::vector<double> values(static_cast<std::size_t>(array.count()));
        for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>((k * 7919) % 17) / 8 - 1;
        array = HostArray::of(tensor.type, shape, values);
      }
      arrays_[tensor.name] = std::move(array);
    }
    for (auto& [name, array] : arrays_) tensors_[name] = &array;
    flops_ = 2.0 * static_cast<double>(heads * length * length * 128);
  }

  double run(runtime::CpuWorkers& workers) {
    return seconds_of([&] {
      std::map<std::string, float> scalars;
      for (const auto& [name, value] : resolve_scalars(algorithm_, extents_, {}))
        scalars[name] = static_cast<float>(value);
      code_->run(tensors_, extents_, scalars, workers);
    });
  }
  double flops() const { return flops_; }
  const CpuProgram& code() const { return *code_; }

 private:
  Algorithm algorithm_;
  std::map<std::string, std::int64_t> extents_;
  std::unique_ptr<CpuProgram> code_;
  std::map<std::string, HostArray> arrays_;
  std::map<std::string, HostArray*> tensors_;
  double flops_ = 0;
};

void write_results(const std::string& name, const nlohmann::json& results) {
  const std::filesystem::path folder = source_path("tests/perf/results");
  std::filesystem::create_directories(folder);
  std::ofstream(folder / (name + ".json")) << results.dump(2) << '\n';
  std::cout << results.dump(2) << std::endl;
}

}  // namespace

TEST_CASE("Rate of cpu/flash2 beside OpenBLAS's sgemm, and of each type of input") {
  runtime::CpuWorkers workers;
  Subject f32("flash2", ScalarType::f32, 8, 2048), f16("flash2", ScalarType::f16, 8, 2048),
      bf16("flash2", ScalarType::bf16, 8, 2048);
  Best best_f32, best_f16, best_bf16, best_product;
#ifdef ASTATIDE_HAVE_OPENBLAS
  constexpr int kSize = 2048;
  const std::vector<float> a(kSize * kSize, 0.5f), b(kSize * kSize, 0.25f);
  std::vector<float> c(kSize * kSize);
  openblas_set_num_threads(workers.threads());
#endif
  for (int round = 0; round < kRounds; ++round) {
    best_f32.take(f32.run(workers));
#ifdef ASTATIDE_HAVE_OPENBLAS
    best_product.take(seconds_of([&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1, a.data(), kSize, b.data(), kSize,
                  0, c.data(), kSize);
    }));
#endif
    best_f16.take(f16.run(workers));
    best_bf16.take(bf16.run(workers));
  }
  const auto rate = [&](const Subject& subject, const Best& best) { return subject.flops() / best.seconds * 1e-9; };
  nlohmann::json results = {{"host", f32.code().module().host.cpu},
                            {"threads", workers.threads()},
                            {"shape", "B=1,Hq=8,Hkv=8,Sq=2048,Sk=2048,D=64,Dv=64"},
                            {"rounds", kRounds},
                            {"gflops",
                             {{"cpu/flash2 f32", rate(f32, best_f32)},
                              {"cpu/flash2 f16", rate(f16, best_f16)},
                              {"cpu/flash2 bf16", rate(bf16, best_bf16)}}},
                            {"compile_ms",
                             {{"emit", f32.code().emit_seconds * 1e3},
                              {"llvm", f32.code().compile_seconds * 1e3},
                              {"load", f32.code().load_seconds * 1e3}}}};
#ifdef ASTATIDE_HAVE_OPENBLAS
  const double product = 2.0 * kSize * kSize * kSize / best_product.seconds * 1e-9;
  results["gflops"]["OpenBLAS sgemm 2048"] = product;
  results["share_of_sgemm"] = rate(f32, best_f32) / product;
#endif
  write_results("cpu_rate", results);
  CHECK(best_f32.seconds > 0);
}

TEST_CASE("cpu/flash2 beside cpu/standard as the rows grow, and the memory of each") {
  runtime::CpuWorkers workers;
  nlohmann::json results = nlohmann::json::array();
  for (std::int64_t length : {2048, 8192}) {
    Subject flash("flash2", ScalarType::f32, 2, length), standard("standard", ScalarType::f32, 2, length);
    Best best_flash, best_standard;
    for (int round = 0; round < 3; ++round) {
      best_flash.take(flash.run(workers));
      best_standard.take(standard.run(workers));
    }
    const auto workspace = [](const Subject& subject) {
      std::int64_t most = 0;
      for (const cpu::CpuKernel& kernel : subject.code().module().kernels)
        most = std::max(most, kernel.workspace_bytes);
      return most;
    };
    results.push_back({{"host", flash.code().module().host.cpu},
                       {"threads", workers.threads()},
                       {"shape", "B=1,Hq=2,Hkv=2,D=64,Dv=64,Sq=Sk=" + std::to_string(length)},
                       {"cpu/flash2 ms", best_flash.seconds * 1e3},
                       {"cpu/standard ms", best_standard.seconds * 1e3},
                       {"ratio", best_standard.seconds / best_flash.seconds},
                       {"cpu/flash2 workspace bytes a thread", workspace(flash)},
                       {"cpu/standard scratch bytes", 2 * 2 * length * length * 4}});
  }
  write_results("cpu_schedules", results);
  CHECK(results.size() == 2);
}
