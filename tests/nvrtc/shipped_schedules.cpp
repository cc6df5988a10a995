// Every shipped schedule for GPUs compiles to a cubin without spills. Needs NVRTC and no GPU.

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "compiler/cuda/emit.h"
#include "compiler/pipeline.h"
#include "compiler/support/embedded.h"
#include "runtime/nvrtc.h"
#include "tests/support/paged_case.h"
#include "tests/support/schedule_cases.h"
#include "tests/support/schedule_texts.h"
#include "tests/support/skip.h"

using namespace astatide;

namespace {

const runtime::Nvrtc* find_nvrtc() {
  try {
    return &runtime::nvrtc();
  } catch (const MachineError&) {
    return nullptr;
  }
}

const EmbeddedFile& example(std::string_view name) {
  for (const EmbeddedFile& file : embedded_examples())
    if (file.name == name) return file;
  throw std::runtime_error("no example " + std::string(name));
}

runtime::CompiledBinary compiled(const runtime::Nvrtc& nvrtc, const std::string& source, const std::string& target,
                                 runtime::BinaryKind output = runtime::BinaryKind::cubin) {
  runtime::CompileRequest request;
  request.output = output;
  request.name = "kernel.cu";
  request.source = source;
  request.target = target;
  request.options = {"--std=c++17"};
  for (const EmbeddedFile& header : embedded_device_headers())
    request.headers.push_back({std::string(header.name), std::string(header.text)});
  return nvrtc.compile(request);
}

std::vector<const EmbeddedFile*> gpu_schedules() {
  std::vector<const EmbeddedFile*> out;
  for (const EmbeddedFile& file : embedded_schedules())
    if (file.name.rfind("cpu/", 0) != 0) out.push_back(&file);
  return out;
}

bool on_tensor_cores(const EmbeddedFile& schedule) { return schedule.text.find("mma: ") != std::string_view::npos; }

std::string source_of(const EmbeddedFile& algorithm_file, const EmbeddedFile& schedule_file, const Target& target,
                      ScalarType dtype) {
  const Algorithm algorithm = parse_algorithm(std::string(algorithm_file.text), std::string(algorithm_file.name));
  const Schedule schedule = parse_schedule(std::string(schedule_file.text), std::string(schedule_file.name));
  CompileOptions options;
  options.target = target;
  options.sizes = algorithm.sizes;
  // The head size that a schedule is for.
  if (on_tensor_cores(schedule_file))
    options.sizes["D"] = options.sizes["Dv"] = testing::head_size_of(std::filesystem::path(schedule_file.name).stem());
  options.dtype = dtype;
  return cuda::emit(compile(algorithm, schedule, options)).text;
}

void check_no_spills(const runtime::CompiledBinary& binary) {
  const auto resources = runtime::parse_ptxas_report(binary.log);
  REQUIRE(!resources.empty());
  for (const runtime::KernelResources& kernel : resources) {
    INFO(kernel.kernel << " uses " << kernel.registers << " registers");
    CHECK(kernel.spill_store_bytes == 0);
    CHECK(kernel.spill_load_bytes == 0);
  }
}

/// ptxas warns with these where it makes wgmma wait for itself, or ignores setmaxnreg.
void check_no_waits(const runtime::CompiledBinary& binary) {
  for (const char* warning : {"C7508", "C7510", "C7512", "C7519"}) {
    INFO(warning);
    CHECK(binary.log.find(warning) == std::string::npos);
  }
}

}  // namespace

TEST_CASE("every shipped schedule compiles without spills, for each type of inputs") {
  const runtime::Nvrtc* nvrtc = find_nvrtc();
  if (!nvrtc) ASTATIDE_SKIP("no NVRTC on this machine");
  for (const EmbeddedFile* schedule : gpu_schedules())
    for (const char* name : {"attention.yaml", "causal_gqa.yaml"})
      for (const ScalarType dtype : {ScalarType::f32, ScalarType::bf16}) {
        // What takes f32 as tf32 has a test of its own.
        if (dtype == ScalarType::f32 && on_tensor_cores(*schedule)) continue;
        // A minute's worth of ptxas is enough: without tensor cores the plain kernel in f32 and the masked one in bf16;
        // with them the plain one is disassembled by the test of hot loops, which finds spills.
        const bool plain = std::string_view(name) == "attention.yaml";
        if (on_tensor_cores(*schedule) ? plain : (dtype == ScalarType::f32) != plain) continue;
        // For the machine that it is written for; one of tensor cores, masked, for newer ones too.
        const std::string own = parse_schedule(std::string(schedule->text), std::string(schedule->name)).target;
        std::set<std::string> targets{own};
        if (on_tensor_cores(*schedule)) targets.insert("sm_90a");
        for (const std::string& target : targets) {
          INFO(schedule->name << " " << name << " " << name_of(dtype) << " " << target);
          const runtime::CompiledBinary binary =
              compiled(*nvrtc, source_of(example(name), *schedule, *find_target(target), dtype), target);
          check_no_spills(binary);
          check_no_waits(binary);
        }
      }
}

TEST_CASE("lengths of items bound loops and clear slots without spills, and no product waits for them") {
  const runtime::Nvrtc* nvrtc = find_nvrtc();
  if (!nvrtc) ASTATIDE_SKIP("no NVRTC on this machine");
  const std::set<std::string_view> names{"sm90/flash3.yaml", "sm90/flash3_plain.yaml", "sm90/flash3_d256.yaml",
                                         "sm90/flash2_wgmma.yaml"};
  for (const EmbeddedFile* schedule : gpu_schedules()) {
    if (!names.contains(schedule->name)) continue;
    INFO(schedule->name);
    const runtime::CompiledBinary binary = compiled(
        *nvrtc, source_of(example("padded.yaml"), *schedule, *find_target("sm_90a"), ScalarType::bf16), "sm_90a");
    check_no_spills(binary);
    check_no_waits(binary);
  }
}

TEST_CASE("a producer of few registers copies pages of 16 rows without spills") {
  const runtime::Nvrtc* nvrtc = find_nvrtc();
  if (!nvrtc) ASTATIDE_SKIP("no NVRTC on this machine");
  testing::PagedItems items{16, {300}, 300, 3};
  items.width = 128;
  const testing::Case c = testing::paged_case(items);
  const Schedule schedule = parse_schedule(testing::shipped_schedule("sm90/flash3"), "sm90/flash3.yaml");
  const runtime::CompiledBinary binary = compiled(
      *nvrtc, cuda::emit(compile(c.algorithm, schedule, {*find_target("sm_90a"), c.extents, c.dtype})).text, "sm_90a");
  check_no_spills(binary);
  check_no_waits(binary);
}

TEST_CASE("lazy and optimistic references compile without spills") {
  const runtime::Nvrtc* nvrtc = find_nvrtc();
  if (!nvrtc) ASTATIDE_SKIP("no NVRTC on this machine");
  const Algorithm algorithm = parse_algorithm(std::string(example("causal_gqa.yaml").text), "causal_gqa.yaml");
  for (const EmbeddedFile* file : gpu_schedules())
    for (const RescaleMode mode : {RescaleMode::lazy, RescaleMode::optimistic}) {
      // One of each family; those of FlashAttention-3 are optimistic as they are.
      const std::set<std::string_view> families{"simt/flash2.yaml", "sm80/flash2.yaml", "sm90/flash2_wgmma.yaml"};
      if (!families.contains(file->name)) continue;
      INFO(file->name << " " << name_of(mode));
      Schedule schedule = parse_schedule(std::string(file->text), std::string(file->name));
      schedule.rescale.mode = mode;
      const CompileOptions options{*find_target("sm_90a"), algorithm.sizes, ScalarType::bf16};
      const runtime::CompiledBinary binary =
          compiled(*nvrtc, cuda::emit(compile(algorithm, schedule, options)).text, "sm_90a");
      check_no_spills(binary);
      check_no_waits(binary);
    }
}

TEST_CASE("clusters of two and four blocks compile without spills, of blocks that stay and of others, in each mode") {
  const runtime::Nvrtc* nvrtc = find_nvrtc();
  if (!nvrtc) ASTATIDE_SKIP("no NVRTC on this machine");
  const std::string text = testing::shipped_schedule("sm90/flash3_cluster");
  const std::string four = testing::with(text, "cluster: 2", "cluster: 4");
  const auto grid = [](const std::string& schedule) {
    return testing::with(schedule, ", persistent: longest_first", "");
  };
  const auto by = [](const std::string& schedule, const std::string& mode) {
    return testing::with(schedule, "rescale: optimistic", "rescale: " + mode);
  };
  for (const std::string& schedule : {four, grid(text), by(grid(four), "plain"), by(grid(text), "lazy")}) {
    INFO(schedule);
    const CompileOptions options{*find_target("sm_90a"), {{"D", 128}, {"Dv", 128}}, ScalarType::bf16};
    const tile::Program program =
        compile(testing::example_algorithm("causal_gqa"), parse_schedule(schedule, "s.yaml"), options);
    const runtime::CompiledBinary binary = compiled(*nvrtc, cuda::emit(program).text, "sm_90a");
    check_no_spills(binary);
    check_no_waits(binary);
  }
}

TEST_CASE("turns and polynomials compile without spills, to named barriers and fewer powers of two by the unit") {
  const runtime::Nvrtc* nvrtc = find_nvrtc();
  if (!nvrtc) ASTATIDE_SKIP("no NVRTC on this machine");
  const Algorithm algorithm = parse_algorithm(std::string(example("causal_gqa.yaml").text), "causal_gqa.yaml");
  const auto occurrences = [](const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  };
  for (const testing::Turns& turns : {testing::Turns{"optimistic", "1/2", 2, 2, true, "1/8", 128},
                                      testing::Turns{"plain", "", 3, 2, false, "1", 64}}) {
    INFO(turns.text());
    const auto source = [&](const testing::Turns& from) {
      return cuda::emit(compile(algorithm, parse_schedule(from.text(), "turns.yaml"),
                                {*find_target("sm_90a"), {{"D", 128}, {"Dv", 128}}, ScalarType::bf16}))
          .text;
    };
    const runtime::CompiledBinary binary = compiled(*nvrtc, source(turns), "sm_90a");
    check_no_spills(binary);
    check_no_waits(binary);
    testing::Turns by_unit = turns;
    by_unit.polynomial.clear();
    const auto ptx = [&](const testing::Turns& from) {
      const runtime::CompiledBinary text = compiled(*nvrtc, source(from), "sm_90a", runtime::BinaryKind::ptx);
      return std::string(reinterpret_cast<const char*>(text.bytes.data()), text.bytes.size());
    };
    const std::string text = ptx(turns);
    CHECK(text.find("bar.sync") != std::string::npos);
    CHECK(text.find("bar.arrive") != std::string::npos);
    CHECK(text.find("add.rm.f32") != std::string::npos);
    // Those of rows stay.
    const std::size_t all = occurrences(ptx(by_unit), "ex2.approx"), left = occurrences(text, "ex2.approx");
    const std::size_t replaced = occurrences(text, "add.rm.f32");
    CHECK(left + replaced == all);
    CHECK(replaced > 0);
  }
}

TEST_CASE("f32 becomes tf32 without spills for heads of 64 and 128, from sm_80 on") {
  const runtime::Nvrtc* nvrtc = find_nvrtc();
  if (!nvrtc) ASTATIDE_SKIP("no NVRTC on this machine");
  const Schedule schedule = parse_schedule(testing::shipped_schedule("sm80/flash2_tf32"), "flash2_tf32.yaml");
  for (const char* target : {"sm_80", "sm_90a"})
    for (const std::int64_t width : {64, 128}) {
      INFO(target << " D " << width);
      const Algorithm algorithm = parse_algorithm(std::string(example("causal_gqa.yaml").text), "causal_gqa.yaml");
      const CompileOptions options{*find_target(target), {{"D", width}, {"Dv", width}}, ScalarType::f32};
      const std::string source = cuda::emit(compile(algorithm, schedule, options)).text;
      check_no_spills(compiled(*nvrtc, source, target));
      if (width == 128 || std::string_view(target) != "sm_80") continue;
      const runtime::CompiledBinary ptx = compiled(*nvrtc, source, target, runtime::BinaryKind::ptx);
      const std::string text(reinterpret_cast<const char*>(ptx.bytes.data()), ptx.bytes.size());
      for (const char* instruction :
           {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "cvt.rna.tf32.f32",
            "ldmatrix.sync.aligned.m8n8.x4.shared", "ld.shared.b32", "cp.async.cg.shared.global"}) {
        INFO(instruction);
        CHECK(text.find(instruction) != std::string::npos);
      }
    }
}

TEST_CASE("a left operand that is held in registers is read from there by wgmma, without spills") {
  const runtime::Nvrtc* nvrtc = find_nvrtc();
  if (!nvrtc) ASTATIDE_SKIP("no NVRTC on this machine");
  const Algorithm algorithm = parse_algorithm(std::string(example("causal_gqa.yaml").text), "causal_gqa.yaml");
  for (const auto& [name, width] : {std::pair<const char*, std::int64_t>{"sm90/flash3", 128},
                                    {"sm90/flash3", 64},
                                    {"sm90/flash3_plain", 64},
                                    {"sm90/flash2_wgmma", 128}}) {
    INFO(name << " D " << width);
    const std::string text = testing::with(testing::shipped_schedule(name), "Q: {stage_at: i.o, store_in: shared",
                                           "Q: {stage_at: i.o, store_in: [shared, register]");
    const CompileOptions options{*find_target("sm_90a"), {{"D", width}, {"Dv", width}}, ScalarType::bf16};
    const std::string source = cuda::emit(compile(algorithm, parse_schedule(text, "held.yaml"), options)).text;
    CHECK(source.find("x16_bf16_s(") == std::string::npos);
    CHECK(source.find("x16_bf16_r(") != std::string::npos);
    const runtime::CompiledBinary binary = compiled(*nvrtc, source, "sm_90a");
    check_no_spills(binary);
    check_no_waits(binary);
  }
}

TEST_CASE("the instructions that a schedule asks for stand in the code") {
  const runtime::Nvrtc* nvrtc = find_nvrtc();
  if (!nvrtc) ASTATIDE_SKIP("no NVRTC on this machine");
  const std::map<std::string_view, std::vector<std::string>> wanted{
      {"sm80/flash2.yaml",
       {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "ldmatrix.sync.aligned.m8n8.x4.shared",
        "ldmatrix.sync.aligned.m8n8.x4.trans", "cp.async.cg.shared.global", "cp.async.wait_group"}},
      {"sm90/flash3.yaml",
       {"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", "cp.async.bulk.tensor", "mbarrier.try_wait",
        "setmaxnreg.dec", "setmaxnreg.inc", "ex2.approx", "st.global.v4", "atom.global.add"}},
      {"sm90/flash3_cluster.yaml",
       {".reqnctapercluster 2", "complete_tx::bytes.multicast::cluster", "mapa.shared::cluster",
        "mbarrier.arrive.shared::cluster", "mbarrier.arrive.release.cluster.shared::cluster",
        "mbarrier.try_wait.parity.acquire.cluster", "barrier.cluster.arrive.release", "barrier.cluster.wait.acquire"}},
      {"sm90/flash3_tma_store.yaml",
       {"cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group", "cp.async.bulk.commit_group",
        "cp.async.bulk.wait_group.read", "stmatrix.sync.aligned.m8n8.x4.shared.b16", "fence.proxy.async.shared::cta"}},
      {"simt/flash2.yaml", {"fma.rn.f32", "ld.shared.v4.f32", "ex2.approx"}}};
  for (const EmbeddedFile* schedule : gpu_schedules()) {
    const auto found = wanted.find(schedule->name);
    if (found == wanted.end()) continue;
    const ScalarType type = on_tensor_cores(*schedule) ? ScalarType::bf16 : ScalarType::f32;
    const runtime::CompiledBinary ptx =
        compiled(*nvrtc, source_of(example("causal_gqa.yaml"), *schedule, *find_target("sm_90a"), type), "sm_90a",
                 runtime::BinaryKind::ptx);
    const std::string text(reinterpret_cast<const char*>(ptx.bytes.data()), ptx.bytes.size());
    for (const std::string& instruction : found->second) {
      INFO(schedule->name << " " << instruction);
      CHECK(text.find(instruction) != std::string::npos);
    }
  }
}

TEST_CASE("shipped schedules compile for every target that they allow") {
  const runtime::Nvrtc* nvrtc = find_nvrtc();
  if (!nvrtc) ASTATIDE_SKIP("no NVRTC on this machine");
  const std::set<int> supported(nvrtc->supported_architectures().begin(), nvrtc->supported_architectures().end());
  for (const Target& target : known_targets()) {
    if (!target.is_cuda() || !supported.contains(target.compute_capability)) continue;
    // Spills of each schedule are those of its own target, in the tests before: one of each family is enough here. For
    // the newest instructions all pass the front end.
    const bool every = target.name == "sm_120";
    for (const EmbeddedFile* schedule : gpu_schedules()) {
      const bool of_family = schedule->name == "simt/flash2.yaml" || schedule->name == "sm80/flash2.yaml";
      if (!every && !of_family) continue;
      INFO(schedule->name << " " << target.name);
      std::string source;
      try {
        source = source_of(example("causal_gqa.yaml"), *schedule, target, ScalarType::f16);
      } catch (const UserError& error) {
        // A smaller GPU may lack the shared memory; then the refusal must say so.
        const std::string message = error.what();
        INFO(message);
        CHECK((message.find("shared memory") != std::string::npos ||
               message.find("the schedule needs") != std::string::npos));
        continue;
      }
      if (of_family)
        check_no_spills(compiled(*nvrtc, source, target.name));
      else
        CHECK(!compiled(*nvrtc, source, target.name, runtime::BinaryKind::ptx).bytes.empty());
    }
  }
}

TEST_CASE("every example compiles under the schedule that takes most of them") {
  const runtime::Nvrtc* nvrtc = find_nvrtc();
  if (!nvrtc) ASTATIDE_SKIP("no NVRTC on this machine");
  int taken = 0;
  for (const EmbeddedFile& file : embedded_examples())
    for (const EmbeddedFile* schedule : gpu_schedules()) {
      if (schedule->name != "simt/flash2.yaml") continue;
      std::string source;
      try {
        source = source_of(file, *schedule, *find_target("sm_90a"), ScalarType::f16);
      } catch (const UserError&) {
        continue;  // another shape of cascade: what refuses it has tests of its own
      }
      ++taken;
      INFO(schedule->name << " " << file.name);
      CHECK(!compiled(*nvrtc, source, "sm_90a", runtime::BinaryKind::ptx).bytes.empty());
    }
  CHECK(taken >= 10);
}
