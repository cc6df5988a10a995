#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include "compiler/support/diagnostic.h"
#include "compiler/support/llvm_targets.h"
#include "runtime/orc.h"

namespace astatide::runtime {
namespace {

std::unique_ptr<llvm::TargetMachine> make_machine(const std::string& triple, const OrcRequest& request) {
  initialize_llvm();
  std::string message;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target) throw UserError("LLVM has no backend for " + triple, {message});
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, request.cpu, request.features, llvm::TargetOptions(), llvm::Reloc::PIC_,
                                  std::nullopt, llvm::CodeGenOptLevel::Default));
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  // The code is in vectors and in register blocks already: what is left is common subexpressions, addresses and masks
  // that do not change in a loop. The standard pipelines take five times as long and give no faster code.
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  llvm::ModulePassManager passes;
  // Named in a text, instcombine ends the process where one iteration leaves something to combine.
  constexpr const char* kPipeline =
      "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse)";
  if (llvm::Error error = builder.parsePassPipeline(passes, kPipeline))
    throw InternalError("LLVM refuses the pipeline: " + llvm::toString(std::move(error)));
  passes.run(module, modules);
}

std::string compile(const OrcRequest& request, llvm::CodeGenFileType kind) {
  llvm::LLVMContext context;
  auto parsed = llvm::parseBitcodeFile(llvm::MemoryBufferRef(request.bitcode, request.name), context);
  if (!parsed) throw InternalError("LLVM refuses " + request.name + ": " + llvm::toString(parsed.takeError()));
  llvm::Module& module = **parsed;
  const auto machine = make_machine(module.getTargetTriple(), request);
  optimise(module, *machine);
  llvm::SmallString<0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, stream, nullptr, kind))
    throw InternalError("LLVM writes no object files for " + module.getTargetTriple());
  codegen.run(module);
  return object.str().str();
}

}  // namespace

void initialize_llvm() {
  std::call_once(llvm_targets_started, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
  });
}

std::string llvm_version() { return LLVM_VERSION_STRING; }

std::string compile_object(const OrcRequest& request) { return compile(request, llvm::CodeGenFileType::ObjectFile); }

std::string compile_assembly(const OrcRequest& request) {
  return compile(request, llvm::CodeGenFileType::AssemblyFile);
}

}  // namespace astatide::runtime
