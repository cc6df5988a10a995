#include "compiler/cpu/emit.h"

#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "compiler/cpu/kernel_emitter.h"
#include "compiler/cpu/target_machine.h"
#include "compiler/support/diagnostic.h"

namespace astatide::cpu {
namespace {

std::unique_ptr<llvm::Module> build(const tile::Program& program, const CpuHost& host, llvm::LLVMContext& context,
                                    std::vector<CpuKernel>& kernels) {
  auto module = std::make_unique<llvm::Module>(program.name, context);
  module->setTargetTriple(host.triple);
  module->setDataLayout(make_target_machine(host.triple, host.cpu, host.features)->createDataLayout());
  for (const tile::Kernel& kernel : program.kernels)
    kernels.push_back(KernelEmitter(*module, program, kernel, host).emit());
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(*module, &stream))
    throw InternalError("LLVM refuses the code of " + program.name + ": " + problem);
  return module;
}

}  // namespace

CpuModule emit_llvm(const tile::Program& program, const CpuHost& host) {
  CpuModule result{program.name, "", host, {}};
  llvm::LLVMContext context;
  const auto module = build(program, host, context, result.kernels);
  llvm::raw_string_ostream stream(result.bitcode);
  llvm::WriteBitcodeToFile(*module, stream);
  return result;
}

std::string emit_llvm_text(const tile::Program& program, const CpuHost& host) {
  llvm::LLVMContext context;
  std::vector<CpuKernel> kernels;
  const auto module = build(program, host, context, kernels);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, nullptr);
  return text;
}

}  // namespace astatide::cpu
