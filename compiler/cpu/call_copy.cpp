#include <llvm/IR/Constants.h>

#include <algorithm>
#include <limits>

#include "compiler/cpu/kernel_emitter.h"
#include "compiler/support/diagnostic.h"

// The same copy stands in several loops of a kernel, and copies of different tensors often differ in nothing but
// numbers. Each form is compiled once, as a function of the numbers.
namespace astatide::cpu {

using llvm::Value;

namespace {

// Beyond every coordinate, and far enough from the end of 64 bits to add to.
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max() / 4;

}  // namespace

/// A copy with its names replaced by positions, and what stands in their places at this call.
struct KernelEmitter::CopyForm {
  tile::Mem mem;    // "tile", axes "axis_0", ..
  Storage storage;  // of `mem`, at offset 0
  tile::Tensor tensor;
  tile::View view;  // of "tensor", over "axis_k", "origin_k", "limit_k", "number_k"
  bool is_load = false;
  std::vector<std::pair<std::string, Value*>> numbers;  // i64
  std::string key;
};

/// Emits into another function, and comes back to the one before.
class FunctionScope {
 public:
  FunctionScope(KernelEmitter& kernel, llvm::Function* function)
      : k_(kernel), guard_(kernel.builder_), outer_function_(kernel.function_), workspace_(kernel.workspace_) {
    std::swap(names_, k_.names_);
    std::swap(tensors_, k_.tensors_);
    k_.function_ = function;
    k_.builder_.SetInsertPoint(llvm::BasicBlock::Create(k_.context_, "entry", function));
  }
  ~FunctionScope() {
    std::swap(names_, k_.names_);
    std::swap(tensors_, k_.tensors_);
    k_.function_ = outer_function_;
    k_.workspace_ = workspace_;
  }
  FunctionScope(const FunctionScope&) = delete;
  FunctionScope& operator=(const FunctionScope&) = delete;

 private:
  KernelEmitter& k_;
  llvm::IRBuilderBase::InsertPointGuard guard_;
  llvm::Function* outer_function_;
  Value* workspace_;
  std::map<std::string, Element> names_;
  std::map<std::string, TensorArguments> tensors_;
};

bool KernelEmitter::is_idle_limit(const tile::Coordinate& coordinate, const tile::Mem& mem) const {
  const auto constant = [&](const Expr& e) -> std::optional<std::int64_t> {
    for (const std::string& name : free_variables(e))
      if (!program_.known.count(name)) return std::nullopt;
    if (!tensors_read(e).empty()) return std::nullopt;
    return evaluate_integer(e, program_.known);
  };
  if (!coordinate.limit) return true;
  const auto origin = constant(coordinate.origin), limit = constant(*coordinate.limit);
  return origin && limit && *origin + mem.extent_of(coordinate.axis) <= *limit;
}

bool KernelEmitter::may_have_limit(const tile::TileName& tile, const std::string& tensor,
                                   const std::string& axis) const {
  const tile::Mem& mem = *kernel_.find(tile);
  bool found = false;
  tile::walk(kernel_.body, [&](const tile::Stmt& stmt) {
    const auto* copy = std::get_if<tile::Copy>(&stmt.node);
    if (!copy) return;
    for (const auto& [side, other] : {std::pair(&copy->dst, &copy->src), std::pair(&copy->src, &copy->dst)}) {
      const auto* view = std::get_if<tile::View>(side);
      const auto* name = std::get_if<tile::TileName>(other);
      if (!view || !name || view->tensor != tensor || *name != tile) continue;
      for (const tile::Coordinate& coordinate : view->at)
        found = found || (coordinate.axis == axis && !is_idle_limit(coordinate, mem));
    }
  });
  return found;
}

KernelEmitter::CopyForm KernelEmitter::form_of_copy(const tile::TileName& tile, const tile::View& view, bool is_load) {
  const Storage& storage = storage_of(tile);
  CopyForm form;
  form.is_load = is_load;
  form.mem = *storage.mem;
  form.mem.name = "tile";
  form.tensor = *tensors_.at(view.tensor).tensor;
  form.tensor.name = "tensor";
  std::map<std::string, std::string> axis_names;
  for (std::size_t d = 0; d < form.mem.dims.size(); ++d) {
    std::string& axis = form.mem.dims[d].axis;
    axis_names[axis] = "axis_" + std::to_string(d);
    axis = axis_names[axis];
  }
  form.storage = storage;
  form.storage.offset = 0;
  form.storage.slots = 1;
  form.storage.vector_axis = storage.vector_axis.empty() ? "" : axis_names.at(storage.vector_axis);
  form.storage.stride.clear();
  for (const auto& [axis, stride] : storage.stride) form.storage.stride[axis_names.at(axis)] = stride;

  // Coordinates, in their order in the view; one of an axis that the tile has not is a single number.
  std::map<std::string, Expr> renamed;
  form.view.tensor = "tensor";
  form.view.absent = view.absent;
  for (std::size_t c = 0; c < view.at.size(); ++c) {
    const tile::Coordinate& coordinate = view.at[c];
    const auto axis = axis_names.emplace(coordinate.axis, "single_" + std::to_string(c)).first->second;
    renamed[coordinate.axis] = variable(axis);
    const std::string origin = "origin_" + std::to_string(c), limit = "limit_" + std::to_string(c);
    tile::Coordinate& made = form.view.at.emplace_back(tile::Coordinate{axis, variable(origin), std::nullopt});
    form.numbers.emplace_back(origin, integer(coordinate.origin));
    if (!may_have_limit(tile, view.tensor, coordinate.axis)) continue;
    made.limit = variable(limit);
    form.numbers.emplace_back(limit,
                              is_idle_limit(coordinate, *storage.mem) ? index(kNoLimit) : integer(*coordinate.limit));
  }
  // What an index holds beside coordinates are numbers too; an index without coordinates is one number.
  for (const Expr& e : view.indices) {
    const std::set<std::string> names = free_variables(e);
    const bool moves = std::any_of(names.begin(), names.end(), [&](const auto& n) { return renamed.count(n) != 0; });
    const auto number = [&](const Expr& value) {
      const std::string name = "number_" + std::to_string(form.numbers.size());
      form.numbers.emplace_back(name, integer(value));
      return variable(name);
    };
    if (!moves) {
      form.view.indices.push_back(number(e));
      continue;
    }
    std::map<std::string, Expr> values = renamed;
    for (const std::string& name : names)
      if (!renamed.count(name)) values[name] = number(variable(name));
    form.view.indices.push_back(substitute(e, values));
  }

  const auto add = [&](const std::string& text) { form.key += text + ";"; };
  add(is_load ? "load" : "store");
  add(std::string(name_of(form.mem.type)) + " " + std::string(name_of(form.tensor.type)));
  for (const tile::Dim& dim : form.mem.dims)
    add(std::to_string(dim.extent) + ":" + std::to_string(form.storage.stride_of(dim.axis)));
  add(form.storage.vector_axis + " " + std::to_string(form.storage.lanes) + " " + std::to_string(view.absent));
  for (const tile::Coordinate& coordinate : form.view.at)
    add(coordinate.axis + (coordinate.limit ? " < " + to_string(*coordinate.limit) : ""));
  for (const Expr& e : form.view.indices) add(to_string(e));
  return form;
}

llvm::Function* KernelEmitter::copy_function(const CopyForm& form) {
  llvm::Function*& function = copies_[form.key];
  if (function) return function;
  std::vector<llvm::Type*> types = {builder_.getPtrTy(), builder_.getPtrTy()};
  types.resize(2 + form.tensor.dims.size() + form.numbers.size(), builder_.getInt64Ty());
  std::string name = form.is_load ? "load." : "store.";
  for (const tile::Dim& dim : form.mem.dims) {
    if (name.back() != '.') name += 'x';
    name += std::to_string(dim.extent);
  }
  function = make_function(name, llvm::FunctionType::get(builder_.getVoidTy(), types, false), true);
  function->addFnAttr(llvm::Attribute::NoInline);
  for (unsigned a = 0; a < 2; ++a) function->addParamAttr(a, llvm::Attribute::NoAlias);

  const FunctionScope scope(*this, function);
  unsigned next = 0;
  const auto take = [&](const std::string& argument) {
    Value* value = function->getArg(next++);
    value->setName(argument);
    return value;
  };
  workspace_ = take("tile");
  TensorArguments& tensor = tensors_["tensor"];
  tensor.tensor = &form.tensor;
  tensor.data = take("tensor");
  for (std::size_t d = 0; d < form.tensor.dims.size(); ++d)
    tensor.strides.push_back(take("stride_" + std::to_string(d)));
  for (const auto& [number, value] : form.numbers) names_[number] = {Element::Kind::integer, take(number)};

  Storage storage = form.storage;
  storage.mem = &form.mem;
  storage_.tiles["tile"] = storage;
  if (form.is_load)
    emit_load("tile", form.view);
  else
    emit_store(form.view, "tile");
  storage_.tiles.erase("tile");
  builder_.CreateRetVoid();
  return function;
}

void KernelEmitter::call_copy(const tile::TileName& tile, const tile::View& view, bool is_load) {
  const auto tensor = tensors_.find(view.tensor);
  if (tensor == tensors_.end()) throw InternalError("tensor " + view.tensor + " is no argument");
  bool reads = storage_.tiles.count("tile") != 0;  // a program may name a tile so
  for (const Expr& e : view.indices) reads = reads || !tensors_read(e).empty();
  if (reads) return is_load ? emit_load(tile, view) : emit_store(view, tile);

  const CopyForm form = form_of_copy(tile, view, is_load);
  std::vector<Value*> arguments = {slot_base(storage_of(tile), is_load), tensor->second.data};
  arguments.insert(arguments.end(), tensor->second.strides.begin(), tensor->second.strides.end());
  for (const auto& [name, value] : form.numbers) arguments.push_back(value);
  builder_.CreateCall(copy_function(form), arguments);
}

Value* KernelEmitter::unread_place() {
  llvm::Function* function = builder_.GetInsertBlock()->getParent();
  Value*& place = unread_places_[function];
  if (!place) {
    const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
    builder_.SetInsertPoint(&function->getEntryBlock(), function->getEntryBlock().begin());
    place = builder_.CreateAlloca(builder_.getInt64Ty(), nullptr, "unread");
  }
  return place;
}

}  // namespace astatide::cpu
