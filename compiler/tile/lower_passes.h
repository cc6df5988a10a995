#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/tile/lower_elements.h"

// One pass over the axis for each reduction: what rewrite: none lowers to. Not an interface of the compiler.

namespace astatide::tile {

/// A value that varies along the axis and reads reductions, as the schedule knows it.
struct PassWeight {
  std::string name;
  Expr value;  // over elements, stages and earlier weights
  Location where;
};

/// A reduction whose term is written with the names of weights, and split into the tiles of a product where it has an
/// axis beyond the rows.
struct PassStage {
  std::string name;
  Reduction op = Reduction::sum;
  std::vector<std::string> extra;
  Expr term;
  std::optional<Expr> factor;
  bool masked = false;
  Location where;
};

/// A cascade cut into what is computed pass by pass.
struct Passes {
  std::vector<TiledElement> elements;
  std::vector<PassWeight> weights;
  std::vector<PassStage> stages;
  std::map<std::string, StoredTensor> roots;        // of elements and weights in global memory
  std::map<std::string, StoredTensor> row_tensors;  // of stages that a later kernel reads

  const TiledElement* element(const std::string& name) const;
  const PassWeight* weight(const std::string& name) const;
  const PassStage* stage(const std::string& name) const;
  std::string tile_name(const std::string& name) const;

  /// Elements, weights and stages that an expression reads by name, and, where a weight is not in global memory, what
  /// its value reads. `through`: the value of a weight is looked at even if it is itself at root.
  std::set<std::string> read_by(const Expr& e, bool through = false) const;
  std::set<std::string> read_by_stage(const std::string& stage) const;
  /// Stages among those.
  std::set<std::string> direct_stages(const Expr& e) const;
  /// All stages that the value of an expression depends on.
  std::set<std::string> stages_under(const Expr& e) const;
  std::vector<Expr> predicates_under(const Expr& e) const;
};

/// Throws UserError where a term with an axis beyond the rows is no product of tiles.
Passes find_passes(const Cascade& cascade, const Schedule& schedule);

struct PlannedKernel {
  std::string name;
  const Placement* placement = nullptr;
  std::string stored = {};  // the element or weight at root that it stores
  std::string tensor = {};
  const RowValue* output_along_axis = nullptr;
  std::vector<std::string> stages = {}, loaded_stages = {}, stored_stages = {};
  std::vector<const RowValue*> outputs = {};
};

/// Builds one kernel of passes.
class PassBuilder {
 public:
  PassBuilder(Lowering& lowering, const Passes& passes, const PlannedKernel& planned, KernelBuilder& builder)
      : lowering_(lowering), passes_(passes), planned_(planned), builder_(builder) {}
  Kernel build();

 private:
  void check_order() const;
  bool has_strip(const std::string& name) const;
  void fill_strips(Block& out, const std::set<std::string>& needed);
  void fill_strip(Block& out, const std::string& name);
  TileName declare_strip(const std::string& name);
  /// Tiles of all that `e` reads along the axis, at the current iteration.
  void materialise(Block& loop, const Expr& e);
  void materialise(Block& loop, const std::string& name);
  void copy_in(Block& loop, const std::string& name, CopyOperand from, double absent);
  bool is_read_later(const std::string& name, const std::set<std::string>& but) const;
  void add_stage(Block& out, const PassStage& stage);
  void add_stored(Block& out);
  Stmt loop(Block body) const { return builder_.reduced_loop(std::move(body)); }

  Lowering& lowering_;
  const Passes& passes_;
  const PlannedKernel& planned_;
  KernelBuilder& builder_;
  /// Rows of elements and weights in shared memory, as long as the axis can be.
  std::map<std::string, TileName> strips_;
  std::set<std::string> made_;        // in the iteration that is being built
  std::string operand_;               // the weight that only a product reads there
  std::vector<std::string> pending_;  // stages not computed yet
};

}  // namespace astatide::tile
