#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

namespace astatide::cpu {

/// Registers LLVM's backends, once.
void initialize_llvm();
/// Throws UserError where LLVM has no backend for the triple.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const std::string& triple, const std::string& cpu,
                                                         const std::string& features);

}  // namespace astatide::cpu
