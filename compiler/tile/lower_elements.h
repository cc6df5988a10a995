#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/tile/lower_nest.h"

// The statements that all placements share: elements, products, terms, outputs. Not an interface of the compiler.

namespace astatide::tile {

/// An element and those that are computed in its place: S, and A = S where ...
struct TiledElement {
  std::vector<std::string> names;  // in the order in which they are computed; the last one is what the tile holds
  std::string tile_name;
  std::optional<Product> product;
  /// Further products that add up with it in the same tile, and where the schedule speaks of them.
  std::vector<std::pair<Product, const Placement*>> added;
  std::string product_name;  // that `value` uses for the product
  Expr value;
  std::vector<Expr> where_predicates;
  double absent = 0;
  const Placement* placement = nullptr;
  Location where;

  bool holds(const std::string& name) const;
};

/// Merges each element into the only one that reads it, unless the schedule places both. Products that are only read as
/// a sum are one, where they are placed alike. `reads` holds what reads elements beside elements.
std::vector<TiledElement> merge_elements(const std::vector<Element>& elements, const std::vector<Expr>& reads,
                                         const Schedule& schedule);

/// Predicates of the elements that an expression reads.
std::vector<Expr> predicates_of(const Expr& e, const std::vector<TiledElement>& elements);

/// Throws UserError where nesting inlined definitions makes an expression too large.
void check_size(const Expr& e, const Location& where);

/// Builds one kernel.
class KernelBuilder {
 public:
  KernelBuilder(Lowering& lowering, const Placement& placement, std::string kernel_name);
  /// Statements for another kernel: names that it has are not given again.
  KernelBuilder(KernelBuilder& within, const Placement& placement);

  Lowering& lowering;
  FreshNames names;
  const Nest nest;
  Kernel kernel;
  /// What elements, weights, slots and stages are called in this kernel.
  std::map<std::string, Expr> values;
  /// Where the elements of this kernel's part of the reduced axis end, if it is in parts. A tile behind the part's last
  /// one is then absent as a whole, as one behind the end of the axis is.
  std::optional<Expr> end_of_part;

  int extent_of(const std::string& axis);
  TileName declare(const std::string& base, const std::vector<std::string>& axes, Space space = Space::register_file);
  /// The tile that an earlier call with this base declared, if there is one: passes over the axis share their tiles.
  TileName declare_once(const std::string& base, const std::vector<std::string>& axes,
                        Space space = Space::register_file);

  Coordinate coordinate(const std::string& axis);
  /// The tile of a tensor; its axes are the tile axes among its indices, in the order given.
  View view(const Read& read, const std::vector<std::string>& axes);
  /// The tile of a tensor that is indexed by these axes.
  View view(const std::string& tensor, const std::vector<std::string>& axes);
  /// The tile of an output.
  View view(const RowValue& output);
  std::vector<std::string> tile_axes(const std::vector<std::string>& axes) const;

  /// dst = value where predicates, with the coordinates that they read. `bounded`: beyond the end of the reduced axis
  /// too an element is absent.
  Map map(const TileName& dst, const Expr& value, const std::vector<Expr>& predicates = {}, double absent = 0,
          bool bounded = false);

  /// dst = value over tiles, with the coordinates that it reads.
  Map map_over_tiles(const TileName& dst, const Expr& value);
  /// An expression over tiles for where nothing has coordinates: what varies with the row beside tiles is in a tile of
  /// its own, which maps in `constants` compute.
  Expr without_coordinates(const Expr& e, Block& constants);

  /// Computes an element's tile and names it. `kept_elsewhere`: the space that the schedule names is that of a row
  /// which the tile is copied into.
  void add_element(Block& block, const TiledElement& element, bool kept_elsewhere = false);
  /// Computes the product of an element alone into `dst`. Where a predicate is false nothing reads it.
  void add_product(Block& block, const TileName& dst, const Product& product, const Placement* placement,
                   const Location& where, const std::vector<Expr>& predicates);
  /// A tile over rows and columns that holds `term`; where it is `masked`, the unit of `op` outside the predicates.
  TileName add_term(Block& block, const std::string& name, const Expr& term, bool masked, Reduction op,
                    const std::vector<Expr>& predicates);
  /// Computes a named value that varies along the reduced axis. `only_operand`: nothing but a product reads it.
  void add_weight(Block& block, const Weight& weight, bool only_operand);
  /// acc += lhs * factor, summed over the reduced axis. Where a predicate is false lhs is 0.
  void add_product_of_term(Block& block, const TileName& acc, const TileName& lhs, const Expr& factor,
                           const std::string& of, const Location& where, const std::vector<Expr>& predicates);
  /// Tiles of terms hold what they were computed from in one iteration.
  void forget_terms() {
    terms_.clear();
    operand_copies_.clear();
  }
  /// Computes and stores an output.
  void add_output(Block& block, const RowValue& value);

  /// Wraps a block in the loops that are not spread over blocks: those outside (inside) the loop over the reduced axis.
  Block inside_loops(Block block, const std::vector<const NestLoop*>& loops) const;
  std::vector<const NestLoop*> loops_outside() const;
  std::vector<const NestLoop*> loops_inside() const;
  Stmt reduced_loop(Block body) const;

  /// Adds the tile axes and the requests to stage what the products read; the kernel is complete.
  Kernel finish(Block body);

 private:
  KernelBuilder(Lowering& lowering, const Placement& placement, std::string kernel_name, FreshNames names);
  /// A tile that a product with a tile of `tensor` can read: multiply-adds of a GPU read shared memory, tensor cores
  /// registers of the tensor's type.
  TileName as_operand(Block& block, const TileName& tile, const std::string& tensor);
  /// The instructions that compute this kernel's products, and whether tensor cores take f32.
  Family family() const;
  bool tf32() const;
  void choose_instructions(Mma& mma) const;
  bool names_tensor_cores() const { return family_ != Family::unset && family_ != Family::fma; }
  bool on_tensor_cores() const { return lowering.is_cuda() && names_tensor_cores(); }
  Expr renamed(const Expr& e) const { return substitute(e, values); }
  void set_alignment(const TileName& tile, const Placement& placement);
  /// The units that the schedule names for the exponentials of a definition's map. A CPU has one kind.
  void set_polynomial(Map& map, const Placement* placement) const;
  std::optional<Expr> loops_have_elements() const;
  std::optional<Expr> tile_has_elements() const;
  bool covers_exactly(const std::string& axis) const;
  /// The operand of a product: rows (columns) by the other axis.
  View operand(const Expr& read, const std::string& rows, const std::string& other, const std::string& of,
               const Location& where);
  /// The same, absent from the row (column) on that no predicate lets have an element, as far as intervals tell.
  View visible_operand(const Expr& read, const std::string& rows, const std::string& other, const std::string& of,
                       const Location& where, const std::vector<Expr>& predicates);

  std::set<TileName> fixed_;        // whose space the schedule names: never copied elsewhere
  std::set<std::string> operands_;  // tensors that products read
  std::map<std::pair<Expr, double>, TileName> terms_;
  std::map<TileName, TileName> operand_copies_;
  const Placement& placement_;
  Family family_ = Family::unset;
  bool tf32_ = false;
  std::map<std::string, TileName> declared_;
  std::map<Expr, TileName> row_constants_;
};

}  // namespace astatide::tile
