#include <llvm/IR/Constants.h>

#include <bit>

#include "compiler/cpu/kernel_emitter.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/match.h"
#include "compiler/tile/parameters.h"

namespace astatide::cpu {

using llvm::Value;

namespace {

// The schedule's number of lanes in place of the host's.
CpuHost with_lanes(CpuHost host, const tile::Kernel& kernel) {
  if (kernel.vector_lanes == 0) return host;
  const int most = 64;
  if (kernel.vector_lanes < 1 || kernel.vector_lanes > most || !std::has_single_bit(unsigned(kernel.vector_lanes)))
    throw UserError("vectors of " + std::to_string(kernel.vector_lanes) + " lanes on the CPU",
                    {"a power of two up to " + std::to_string(most) + " would do"});
  host.vector_bytes = 4 * kernel.vector_lanes;
  return host;
}

}  // namespace

KernelEmitter::KernelEmitter(llvm::Module& module, const tile::Program& program, const tile::Kernel& kernel,
                             const CpuHost& host)
    : context_(module.getContext()),
      module_(module),
      program_(program),
      kernel_(kernel),
      host_(with_lanes(host, kernel)),
      builder_(context_),
      math_(builder_, host_),
      storage_(plan_storage(kernel, host_)) {
  make_alias_scopes();
}

namespace {

bool writes_tile(const tile::Stmt& stmt, const std::string& name) {
  return match(
      stmt.node, [&](const tile::Fill& s) { return s.dst == name; }, [&](const tile::Map& s) { return s.dst == name; },
      [&](const tile::RowReduce& s) { return s.dst == name; }, [&](const tile::Mma& s) { return s.dst == name; },
      [&](const tile::Copy& s) {
        const auto* dst = std::get_if<tile::TileName>(&s.dst);
        const auto* strip = std::get_if<tile::Strip>(&s.dst);
        return (dst && *dst == name) || (strip && strip->tile == name);
      },
      [](const auto&) { return false; });
}

}  // namespace

llvm::Function* KernelEmitter::make_function(const std::string& name, llvm::FunctionType* type, bool internal) {
  auto* function = llvm::Function::Create(
      type, internal ? llvm::GlobalValue::InternalLinkage : llvm::GlobalValue::ExternalLinkage, name, module_);
  function->addFnAttr("target-cpu", host_.cpu);
  function->addFnAttr("target-features", host_.features);
  function->addFnAttr("prefer-vector-width", std::to_string(host_.vector_bytes * 8));
  function->addFnAttr("no-builtins");
  function->setDoesNotThrow();
  return function;
}

CpuKernel KernelEmitter::emit() {
  CpuKernel result;
  // With a dot, which no name of a program has, so that no kernel takes the name of a library's function.
  result.symbol = "kernel." + kernel_.name;
  result.parameters = tile::parameters_of(program_, kernel_);
  result.tiles = kernel_.tiles;

  llvm::Type *pointer = builder_.getPtrTy(), *word = builder_.getInt64Ty();
  function_ = make_function(
      result.symbol, llvm::FunctionType::get(builder_.getVoidTy(), {pointer, word, word, pointer}, false), false);
  const char* names[] = {"args", "tile_begin", "tile_end", "workspace"};
  for (unsigned a = 0; a < 4; ++a) function_->getArg(a)->setName(names[a]);
  workspace_ = function_->getArg(3);
  function_->addParamAttr(3, llvm::Attribute::NoAlias);
  function_->addParamAttr(3, llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
  builder_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));

  bind_arguments(function_->getArg(0), result.parameters);
  result.workspace_bytes = bind_block_tensors();
  for (const auto& [name, storage] : storage_.tiles) {
    if (storage.slots == 1) continue;
    write_slots_[name] = builder_.CreateAlloca(word, nullptr, name + "_written");
    read_slots_[name] = builder_.CreateAlloca(word, nullptr, name + "_read");
    builder_.CreateStore(index(storage.slots - 1), write_slots_[name]);
    builder_.CreateStore(index(0), read_slots_[name]);
    rings_without_reserve_.insert(name);
  }
  tile::walk(kernel_.body, [&](const tile::Stmt& stmt) {
    if (const auto* s = std::get_if<tile::Reserve>(&stmt.node)) rings_without_reserve_.erase(s->tile);
  });
  std::vector<Value*> counts;
  for (const tile::TileAxis& axis : kernel_.tiles) counts.push_back(integer(axis.count));

  loop(function_->getArg(1), function_->getArg(2), 1, [&](Value* tile) {
    Value* rest = tile;
    for (std::size_t a = 0; a < counts.size(); ++a) {
      const bool last = a + 1 == counts.size();
      Value* i = last ? rest : builder_.CreateURem(rest, counts[a], kernel_.tiles[a].var);
      if (!last) rest = builder_.CreateUDiv(rest, counts[a]);
      names_[kernel_.tiles[a].var] = {Element::Kind::integer, i};
    }
    emit_block(kernel_.body);
  });
  builder_.CreateRetVoid();
  return result;
}

/// Behind a worker's tiles, one team's part behind the other: a worker runs teams in turn.
std::int64_t KernelEmitter::bind_block_tensors() {
  constexpr std::int64_t kAlignment = 64;
  std::int64_t bytes = storage_.bytes;
  for (const std::string& name : tile::block_tensors_of(program_, kernel_)) {
    TensorArguments& arguments = tensors_[name];
    arguments.tensor = program_.find_tensor(name);
    arguments.data = builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), workspace_, bytes, name);
    const std::int64_t elements = tile::elements_of_team(*arguments.tensor);
    arguments.strides.push_back(index(elements));
    for (const std::int64_t stride : tile::strides_in_team(*arguments.tensor))
      arguments.strides.push_back(index(stride));
    bytes +=
        (elements * kernel_.teams * static_cast<std::int64_t>(size_in_bytes(arguments.tensor->type)) + kAlignment - 1) /
        kAlignment * kAlignment;
  }
  return bytes;
}

void KernelEmitter::bind_arguments(Value* args, const std::vector<tile::Parameter>& parameters) {
  using Kind = tile::Parameter::Kind;
  for (const auto& [name, value] : program_.known) names_[name] = {Element::Kind::integer, index(value)};
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const tile::Parameter& parameter = parameters[p];
    Value* place = builder_.CreateConstInBoundsGEP1_64(builder_.getInt64Ty(), args, p);
    switch (parameter.kind) {
      case Kind::arrivals:
      case Kind::pointer: {
        TensorArguments& tensor = tensors_[parameter.name];
        tensor.tensor = program_.find_tensor(parameter.name);
        if (!tensor.tensor) throw InternalError("no tensor " + parameter.name);
        tensor.data = builder_.CreateLoad(builder_.getPtrTy(), place, parameter.name);
        tensor.strides.resize(tensor.tensor->dims.size());
        break;
      }
      case Kind::stride:
        tensors_.at(parameter.name).strides.at(parameter.dim) = builder_.CreateLoad(
            builder_.getInt64Ty(), place, parameter.name + "_stride_" + std::to_string(parameter.dim));
        break;
      case Kind::extent:
        if (!program_.known.count(parameter.name))
          names_[parameter.name] = {Element::Kind::integer,
                                    builder_.CreateLoad(builder_.getInt64Ty(), place, parameter.name)};
        break;
      case Kind::tensor_map:
      case Kind::counter:
        throw InternalError("parameter " + parameter.name + " is one of GPUs");
      case Kind::scalar:
        names_[parameter.name] = {Element::Kind::real,
                                  builder_.CreateLoad(builder_.getFloatTy(), place, parameter.name)};
        break;
    }
  }
}

Value* KernelEmitter::integer(const Expr& e) {
  Indices none;
  ElementEmitter elements(*this, 1, "", none, {});
  return elements.integers(elements.evaluate(e));
}

Value* KernelEmitter::flag_of(const std::string& name) {
  Value*& flag = flags_[name];
  if (!flag) {
    const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
    llvm::BasicBlock& entry = function_->getEntryBlock();
    builder_.SetInsertPoint(&entry, entry.begin());
    flag = builder_.CreateAlloca(builder_.getInt1Ty(), nullptr, name);
  }
  return flag;
}

void KernelEmitter::advance_slot(const std::string& tile, const std::map<std::string, Value*>& counters) {
  const auto counter = counters.find(tile);
  if (counter == counters.end()) return;
  Value* next = builder_.CreateAdd(builder_.CreateLoad(builder_.getInt64Ty(), counter->second), index(1));
  Value* wraps = builder_.CreateICmpEQ(next, index(storage_of(tile).slots));
  builder_.CreateStore(builder_.CreateSelect(wraps, index(0), next), counter->second);
}

void KernelEmitter::emit_block(const tile::Block& block) {
  for (const tile::Stmt& stmt : block) emit_stmt(stmt);
}

void KernelEmitter::emit_stmt(const tile::Stmt& stmt) {
  // Where nothing reserves slots, each statement that writes a ring takes the next.
  for (const std::string& name : rings_without_reserve_)
    if (writes_tile(stmt, name)) advance_slot(name, write_slots_);
  match(
      stmt.node, [&](const tile::For& s) { emit_for(s); }, [&](const tile::If& s) { emit_if(s); },
      [&](const tile::Role&) {
        throw InternalError("kernel " + kernel_.name + " has roles: they are the GPU's, and have no order here");
      },
      [&](const tile::Let& s) { emit_let(s); }, [&](const tile::Fill& s) { emit_fill(s); },
      [&](const tile::Map& s) { emit_map(s); }, [&](const tile::RowReduce& s) { emit_row_reduce(s); },
      [](const tile::AllReduce&) {},  // one worker holds whole rows
      [&](const tile::Vote& s) { emit_vote(s); }, [&](const tile::Mma& s) { emit_mma(s); },
      [&](const tile::Copy& s) { emit_copy(s); }, [](const tile::Await&) {},  // a copy is done when its code has run
      [&](const tile::Advance&) {
        throw InternalError("kernel " + kernel_.name + " has an advance: relax_rescale comes before the CPU's code");
      },
      [&](const tile::Reserve& s) { advance_slot(s.tile, write_slots_); }, [](const tile::Acquire&) {},
      [&](const tile::Release& s) { advance_slot(s.tile, read_slots_); }, [](const tile::Sync&) {},
      [](const tile::Turn&) {}, [&](const tile::Arrive& s) { emit_arrive(s); });
}

void KernelEmitter::emit_for(const tile::For& s) {
  Value *begin = integer(s.begin), *end = integer(s.end);
  const auto outer = names_.find(s.var) == names_.end() ? std::optional<Element>() : names_.at(s.var);
  const auto body = [&](Value* i) {
    names_[s.var] = {Element::Kind::integer, i};
    emit_block(s.body);
  };
  const auto *first = llvm::dyn_cast<llvm::ConstantInt>(begin), *past = llvm::dyn_cast<llvm::ConstantInt>(end);
  constexpr std::int64_t kMostUnrolled = 64;
  if (s.kind == tile::For::Kind::once) {
    body(begin);
  } else if (s.kind == tile::For::Kind::unrolled && first && past &&
             past->getSExtValue() - first->getSExtValue() <= kMostUnrolled) {
    const std::int64_t low = first->getSExtValue(), high = past->getSExtValue();
    for (std::int64_t i = low; i < high; ++i) body(index(s.descending ? low + high - 1 - i : i));
  } else {
    loop(begin, end, 1, [&](Value* i) {
      i->setName(s.var);
      body(s.descending ? builder_.CreateSub(builder_.CreateAdd(begin, builder_.CreateSub(end, index(1))), i) : i);
    });
  }
  if (outer)
    names_[s.var] = *outer;
  else
    names_.erase(s.var);
}

void KernelEmitter::emit_if(const tile::If& s) {
  Indices none;
  ElementEmitter elements(*this, 1, "", none, {});
  branch(elements.predicate(elements.evaluate(s.condition)), [&] { emit_block(s.body); });
}

void KernelEmitter::emit_arrive(const tile::Arrive& s) {
  Indices none;
  ElementEmitter elements(*this, 1, "", none, {});
  const ElementEmitter::Place place = elements.place_of(s.counters, s.indices);
  Value* counter = builder_.CreateInBoundsGEP(builder_.getInt32Ty(), place.arguments->data, place.offset);
  // What this worker has stored lies in front of its arrival, and what the last one loads behind all.
  Value* before = builder_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, counter, builder_.getInt32(1), llvm::MaybeAlign(4),
                                           llvm::AtomicOrdering::AcquireRelease);
  Value* last = builder_.CreateICmpEQ(builder_.CreateSExt(before, builder_.getInt64Ty()),
                                      builder_.CreateSub(integer(s.of), index(1)));
  builder_.CreateStore(last, flag_of(s.flag));
  branch(last, [&] { builder_.CreateStore(builder_.getInt32(0), counter); });
}

void KernelEmitter::emit_let(const tile::Let& s) { names_[s.name] = {Element::Kind::integer, integer(s.value)}; }

}  // namespace astatide::cpu
