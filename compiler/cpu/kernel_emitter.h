#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/cpu/emit.h"
#include "compiler/cpu/storage.h"
#include "compiler/cpu/vector_math.h"
#include "compiler/tile/ir.h"
#include "compiler/tile/parameters.h"

namespace astatide::cpu {

/// The value of an expression for one vector of elements: f32, i64 or i1.
struct Element {
  enum class Kind : std::uint8_t { real, integer, predicate };
  Kind kind = Kind::real;
  llvm::Value* value = nullptr;
  /// `value` is a vector, one lane an element; else all lanes have the same, up to `lane_step`.
  bool varies = false;
  /// Of an integer that does not vary otherwise: lane k has value + k * lane_step. Keeps coordinates and what is affine
  /// in them scalar.
  std::int64_t lane_step = 0;

  bool uniform() const { return !varies && lane_step == 0; }
};

using Indices = std::map<std::string, llvm::Value*>;  // i64, by axis of a tile

struct AxisRange {
  std::string axis;
  int begin = 0, end = 0;
};

/// A tensor's arguments.
struct TensorArguments {
  const tile::Tensor* tensor = nullptr;
  llvm::Value* data = nullptr;
  std::vector<llvm::Value*> strides;  // in elements, i64
};

/// Emits one kernel into a module. One family of statements a file: emit_kernel, emit_map, emit_reduce, emit_mma,
/// emit_copy; expressions in emit_element.
class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const tile::Program& program, const tile::Kernel& kernel, const CpuHost& host);

  /// The function; call once.
  CpuKernel emit();

 private:
  friend class ElementEmitter;
  friend class FunctionScope;

  // emit_kernel.cpp: the frame, control flow.
  llvm::Function* make_function(const std::string& name, llvm::FunctionType* type, bool internal);
  /// Gives the bytes of a worker's workspace.
  std::int64_t bind_block_tensors();
  void bind_arguments(llvm::Value* args, const std::vector<tile::Parameter>& parameters);
  void emit_block(const tile::Block& block);
  void emit_stmt(const tile::Stmt& stmt);
  void emit_for(const tile::For& loop);
  void emit_if(const tile::If& branch);
  void emit_let(const tile::Let& let);
  void emit_arrive(const tile::Arrive& arrive);
  /// The next slot of a ring; nothing for other tiles.
  void advance_slot(const std::string& tile, const std::map<std::string, llvm::Value*>& counters);

  // emit_map.cpp
  void emit_fill(const tile::Fill& fill);
  void emit_map(const tile::Map& map);
  /// Some part that is dear to compute varies along the vectors of `dst` and along no other of its axes.
  bool has_row_invariant(const Expr& value, const Storage& dst) const;
  void emit_vote(const tile::Vote& vote);

  // emit_reduce.cpp
  void emit_row_reduce(const tile::RowReduce& reduce);
  void reduce_down(const tile::RowReduce& reduce, const Storage& dst, const Storage& src,
                   const std::vector<AxisRange>& reduced, Indices& indices);
  void reduce_across(const tile::RowReduce& reduce, const Storage& dst, const Storage& src,
                     const std::vector<AxisRange>& reduced, const AxisRange& along, Indices& indices);
  void finish_reduce(const tile::RowReduce& reduce, const Storage& dst, const Indices& indices, llvm::Value* result);
  llvm::Value* combine(Reduction op, llvm::Value* x, llvm::Value* y);
  llvm::Value* across_lanes(Reduction op, llvm::Value* vector, int lanes);

  // emit_mma.cpp
  struct ProductShape;
  void emit_mma(const tile::Mma& product);
  llvm::Function* product_function(const ProductShape& shape);
  void emit_product_block(const ProductShape& shape, llvm::Value* dst, llvm::Value* vectors, llvm::Value* scalars,
                          int rows, int columns);
  llvm::Value* packed(const Storage& operand, const Indices& base, const std::string& contracted, const Storage& dst);
  void round_tile(const Storage& storage);

  // emit_copy.cpp
  void emit_copy(const tile::Copy& copy);
  void emit_tile_copy(const tile::TileName& dst, const tile::TileName& src);
  /// Copies between a tile and a tensor are functions of their own, one for all copies of one form.
  void call_copy(const tile::TileName& tile, const tile::View& view, bool is_load);
  struct CopyForm;
  CopyForm form_of_copy(const tile::TileName& tile, const tile::View& view, bool is_load);
  llvm::Function* copy_function(const CopyForm& form);
  bool may_have_limit(const tile::TileName& tile, const std::string& tensor, const std::string& axis) const;
  /// The limit keeps no element of the tile out, whatever the shapes.
  bool is_idle_limit(const tile::Coordinate& coordinate, const tile::Mem& mem) const;
  /// Where a lane that may not store writes: a place in the frame that nothing reads.
  llvm::Value* unread_place();
  void emit_load(const tile::TileName& dst, const tile::View& view);
  void load_transposed(const Storage& dst, const tile::View& view, const std::string& across, bool round);
  void emit_store(const tile::View& view, const tile::TileName& src);
  void store_transposed(const tile::View& view, const Storage& src, const std::string& across,
                        const std::function<void(llvm::Value*, llvm::Value*, llvm::Value*)>& put);
  void store_lanes(llvm::Value* pointers, llvm::Value* value, int lanes, llvm::Value* mask);
  llvm::Value* to_memory(ScalarType type, const Element& element, int lanes);
  /// Every element of a tile lies within the limits.
  llvm::Value* within_limits(const std::vector<tile::Coordinate>& at, const tile::Mem& mem);
  /// Neighbours along the axis lie side by side in the tensor.
  llvm::Value* is_contiguous(const tile::View& view, const tile::Mem& mem, const std::string& axis);
  /// The axis along which a tensor lies, where that is another than the tile's and blocks can be transposed.
  std::optional<std::string> transposed_axis(const tile::View& view, const Storage& storage) const;
  std::vector<llvm::Value*> transposed(std::vector<llvm::Value*> rows);
  /// Calls `body` with the first index of each square block of vector axis (rows) and `across` (columns).
  void for_each_square(const Storage& storage, const std::string& across,
                       const std::function<void(Indices&, int rows, int columns)>& body);
  void emit_from_strip(const tile::TileName& dst, const tile::Strip& strip);
  void emit_to_strip(const tile::Strip& strip, const tile::TileName& src);
  Indices in_strip(const tile::Strip& strip, const Indices& indices);
  llvm::Value* admitted_in_strip(class ElementEmitter& elements, const tile::Strip& strip, const Storage& storage,
                                 const tile::Mem& piece, llvm::Value* tail);

  // nest.cpp: building blocks of all families.
  /// for i in begin .. end by step.
  void loop(llvm::Value* begin, llvm::Value* end, std::int64_t step, const std::function<void(llvm::Value*)>& body);
  /// The same with values carried from iteration to iteration; returns the last.
  std::vector<llvm::Value*> loop_carrying(
      llvm::Value* begin, llvm::Value* end, std::int64_t step, std::vector<llvm::Value*> values,
      const std::function<std::vector<llvm::Value*>(llvm::Value*, const std::vector<llvm::Value*>&)>& body);
  void branch(llvm::Value* condition, const std::function<void()>& then, const std::function<void()>& otherwise = {});
  /// One call of `body` for each vector of a tile: all axes of `storage` over their ranges, the vector axis in steps of
  /// its lanes. `tail` is null for whole vectors, else the constant mask of the lanes inside the range.
  void for_each_vector(const Storage& storage, const std::vector<AxisRange>& ranges,
                       const std::function<void(const Indices&, llvm::Constant* tail)>& body);
  void for_each_element(const Storage& storage, const std::function<void(const Indices&)>& body);
  std::vector<AxisRange> whole(const Storage& storage) const;
  std::vector<AxisRange> columns_of(const Storage& storage, const std::optional<tile::Columns>& columns) const;
  llvm::Constant* lanes_below(int lanes, int count);

  const Storage& storage_of(const std::string& tile) const;
  /// Address of an element of a tile: in the slot that is being written, or in the one that is being read.
  llvm::Value* address(const Storage& storage, const Indices& indices, bool write);
  llvm::Value* slot_base(const Storage& storage, bool write);
  llvm::Type* element_type(const Storage& storage);
  /// Of one element in global memory; 16-bit floats are i16, booleans i8.
  llvm::Type* memory_type(ScalarType type);
  /// The address of 8 bytes of zero: what a lane that may not read reads.
  llvm::Value* zero_element();
  llvm::Type* vector_type(llvm::Type* element, int lanes);
  llvm::Value* splat(llvm::Value* scalar, int lanes);
  llvm::ConstantInt* index(std::int64_t value) { return builder_.getInt64(static_cast<std::uint64_t>(value)); }
  /// What a tile holds: a vector of its element type, rounded to its type.
  llvm::Value* as_tile_value(const Storage& storage, const Element& element, int lanes, bool round = true);
  llvm::Value* absent_value(const Storage& storage, double absent, int lanes);
  /// Stores the lanes of `mask`; null: the whole vector, where what lies beyond the extent is padding.
  void store_value(const Storage& storage, const Indices& indices, llvm::Value* value, llvm::Value* mask);
  llvm::Value* flag_of(const std::string& name);
  /// Tells LLVM that a load or store of a tile touches no other tile. Returns its argument.
  template <class Instruction>
  Instruction* of_tile(Instruction* access, const Storage& storage) {
    tag_tile(access, storage);
    return access;
  }
  void tag_tile(llvm::Instruction* access, const Storage& storage);
  void make_alias_scopes();
  /// An integer expression over loop variables, lets and extents.
  llvm::Value* integer(const Expr& e);

  llvm::LLVMContext& context_;
  llvm::Module& module_;
  const tile::Program& program_;
  const tile::Kernel& kernel_;
  const CpuHost host_;
  llvm::IRBuilder<> builder_;
  VectorMath math_;
  StoragePlan storage_;
  llvm::Function* function_ = nullptr;
  llvm::Value* workspace_ = nullptr;
  std::map<std::string, TensorArguments> tensors_;
  std::map<std::string, Element> names_;             // loop variables, lets, extents, scalars
  std::map<std::string, llvm::Value*> flags_;        // of votes: i1 in memory
  std::map<std::string, llvm::Value*> write_slots_;  // of rings: i64 in memory
  std::map<std::string, llvm::Value*> read_slots_;
  std::set<std::string> rings_without_reserve_;
  std::map<std::string, llvm::Function*> products_;  // microkernels, by shape
  std::map<std::string, llvm::Function*> copies_;    // by form
  std::map<llvm::Function*, llvm::Value*> unread_places_;
  llvm::Value* zero_element_ = nullptr;
  std::map<std::string, std::pair<llvm::MDNode*, llvm::MDNode*>> alias_scopes_;  // by tile: its own, all others
};

/// Evaluates expressions for one vector of elements of a tile.
class ElementEmitter {
 public:
  /// Lanes run along `vector_axis`; `indices` are those of lane 0. Without lanes (1), every value is a scalar.
  ElementEmitter(KernelEmitter& kernel, int lanes, std::string vector_axis, const Indices& indices,
                 const std::vector<tile::Coordinate>& at);

  Element evaluate(const Expr& e);
  /// Elements that all limits and predicates admit; null where there is none to test. Predicates are evaluated only
  /// where those before them hold. `tail`: lanes that exist at all.
  llvm::Value* admitted(const std::vector<tile::Coordinate>& at, const std::vector<Expr>& predicates,
                        llvm::Value* tail);
  /// Reads happen only in these lanes; null: in all.
  void set_active(llvm::Value* mask);

  llvm::Value* real(const Element& e);       // f32, a vector of all lanes
  llvm::Value* integers(const Element& e);   // i64, likewise
  llvm::Value* predicate(const Element& e);  // i1, likewise

  /// Where the elements of a tensor lie: at data + offset + lane * lane_stride + lane_offsets[lane], in elements.
  struct Place {
    const TensorArguments* arguments = nullptr;
    llvm::Value* offset = nullptr;
    llvm::Value* lane_stride = nullptr;   // null: 0
    llvm::Value* lane_offsets = nullptr;  // null: none
  };
  Place place_of(const std::string& tensor, const std::vector<Expr>& indices);
  llvm::Value* lane_pointers(const Place& place);
  /// Lanes that lie side by side; those outside of `mask` (null: none) are not read.
  Element load_contiguous(const Place& place, llvm::Value* mask);
  Element converted(ScalarType type, llvm::Value* loaded, bool varies);

 private:
  Element compute(const Expr& e);
  Element call(const Call& c);
  Element evaluate_where(const Expr& e, llvm::Value* lanes);
  Element arithmetic(Op op, const Element& a, const Element& b);
  Element integer_arithmetic(Op op, Element a, Element b);
  Element floor_division(bool remainder, const Element& a, const Element& b);
  Element compare(Op op, const Element& a, const Element& b);
  Element select(const Call& c);
  Element logical(const Call& c);
  Element real_function(Op op, const Element& a);
  Element variable(const std::string& name);
  Element load_tile(const Storage& storage);
  Element read(const Read& r);
  Element count_below(const Call& c);
  llvm::Value* search(const Place& place, llvm::Value* count, llvm::Value* wanted);  // how many of them are below
  llvm::Value* gather(const Place& place);

  Element to_real(const Element& e);
  Element to_predicate(const Element& e);
  Element to_integer(const Element& e);
  /// Both as scalars, or both as vectors.
  std::pair<llvm::Value*, llvm::Value*> matched(const Element& a, const Element& b, bool& varies);
  llvm::Value* widened(const Element& e);
  llvm::Value* both(llvm::Value* a, llvm::Value* b);

  KernelEmitter& k_;
  llvm::IRBuilder<>& b_;
  int lanes_;
  std::string vector_axis_;
  const Indices& indices_;
  std::map<std::string, Element> coordinates_;
  llvm::Value* active_ = nullptr;
  std::map<const void*, Element> memo_;  // valid for one active mask
};

}  // namespace astatide::cpu
