#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include "compiler/cpu/emit.h"
#include "compiler/cpu/target_machine.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/llvm_targets.h"

namespace astatide::cpu {

void initialize_llvm() {
  std::call_once(llvm_targets_started, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
  });
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const std::string& triple, const std::string& cpu,
                                                         const std::string& features) {
  initialize_llvm();
  std::string message;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target) throw UserError("LLVM has no backend for " + triple, {message});
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, cpu, features, llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

CpuHost describe_host(const std::string& triple, const std::string& cpu, const std::string& features) {
  const auto machine = make_target_machine(triple, cpu, features);
  const llvm::MCSubtargetInfo& facts = *machine->getMCSubtargetInfo();
  CpuHost host;
  host.triple = triple;
  host.cpu = cpu;
  host.features = features;
  if (llvm::Triple(triple).isX86()) {
    const auto has = [&](const char* feature) { return facts.checkFeatures(std::string("+") + feature); };
    host.avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
    host.gather = has("avx2");
    host.half_conversion = has("f16c") || host.avx512;
    host.vector_bytes = host.avx512 ? 64 : has("avx") ? 32 : 16;
    host.vector_registers = host.avx512 ? 32 : 16;
  } else if (llvm::Triple(triple).isAArch64()) {
    host.half_conversion = true;
    host.vector_registers = 32;
  }
  return host;
}

CpuHost detect_host() {
  llvm::StringMap<bool> found = llvm::sys::getHostCPUFeatures();
  std::vector<std::string> names;
  for (const auto& feature : found) names.push_back((feature.second ? "+" : "-") + feature.first().str());
  // LLVM 19 swaps the operands of a masked comparison of halves and not its sense (llvm/llvm-project#159723).
  // Everything is computed in f32, so nothing else of avx512fp16 is missed.
  std::erase(names, "+avx512fp16");
  if (llvm::Triple(llvm::sys::getProcessTriple()).isX86()) names.emplace_back("-avx512fp16");
  std::sort(names.begin(), names.end());  // the map's order is not fixed, and the text is part of a cache key
  std::string features;
  for (const std::string& name : names) features += (features.empty() ? "" : ",") + name;
  return describe_host(llvm::sys::getProcessTriple(), llvm::sys::getHostCPUName().str(), features);
}

}  // namespace astatide::cpu
