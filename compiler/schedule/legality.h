#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/rewrite/cascade.h"
#include "compiler/schedule/schedule.h"

// What the checks of check_legal share. Not an interface of the compiler.

namespace astatide {

/// The loops of one kernel: those of a definition with a kernel of its own.
struct LoopNest {
  std::string root;
  const Placement* placement = nullptr;
  std::vector<std::string> axes;  // that loops run over: rows, cut axes and the cascade's axis, outermost first
  /// Axes of accumulators beyond the rows, such as the columns e of O, of which a tile holds a part.
  std::vector<std::string> cut;
  std::string axis;  // of the cascade
  /// Whole rows are reduced here, so the loop over `axis` stays inside a block.
  bool reduces = false;
  std::vector<LoopName> loops;  // that the tile asks for: i.o where i is tiled, else i
  std::vector<LoopName> order;  // as scheduled, outermost first
  std::size_t block_loops = 0;  // outermost loops of `order` that are spread over blocks
  /// Order and blocks fit the tile; else places in this nest mean nothing.
  bool consistent = false;

  /// Loops at which something can be computed: the innermost of the blocks' loops, and those inside.
  std::vector<LoopName> places() const;
  LoopName axis_loop() const;
  /// Rows of a tile.
  std::int64_t tile_rows() const;
  /// The columns of a tile along an axis beyond the rows: of a cut one the tile's, else its extent.
  std::int64_t columns_of(const std::string& axis_name, std::int64_t extent) const;
  /// Position in `order`, or its size.
  std::size_t position(const LoopName& loop) const;
};

/// A tensor read as a factor of a product of tiles, which is what staging is for.
struct Operand {
  std::string name;
  std::string product_of;      // the definition or output that holds the product
  std::set<std::string> axes;  // that its indices read
};

enum class NameRole : std::uint8_t {
  unknown,
  input,        // read as a factor of a product
  plain_input,  // read element by element
  row_output,   // an output that does not vary along the axis
  row_value,    // a value of each row that is no output
  element,      // varies along the axis and holds a product, or is a factor of one
  weight,       // varies along the axis and reads reductions over it
  inlined,      // computed where it is read
};

struct LegalityCheck {
  LegalityCheck(const Schedule& schedule, const Algorithm& algorithm, const Target& target,
                const std::map<std::string, std::int64_t>& sizes, std::optional<ScalarType> input_type);

  const Schedule& schedule;
  const Algorithm& algorithm;
  const Target& target;
  const std::map<std::string, std::int64_t>& sizes;
  std::optional<ScalarType> input_type;
  Target least;  // the schedule's own target
  Cascade cascade;
  std::vector<Operand> operands;
  std::vector<LoopNest> nests;
  Diagnostics errors;

  NameRole role_of(const std::string& name) const;
  /// A definition that some product of tiles reads as a factor: plain multiply-adds read it from shared memory.
  bool is_factor(const std::string& name) const;
  bool is_output(const std::string& name) const;
  bool is_root(const std::string& name) const;
  const LoopNest* nest_of_root(const std::string& name) const;
  const LoopNest* main_nest() const;
  /// Nests in whose kernels a definition or input is computed or read.
  std::vector<const LoopNest*> nests_of(const std::string& name) const;
  /// Axes of a definition as the cascade names them; of an operand, those that its indices read.
  std::vector<std::string> axes_of(const std::string& name) const;
  /// An element must be there for its whole row, because a later reduction reads a complete one: rewrite: none computes
  /// it outside the loop over the axis.
  bool needs_whole_row(const std::string& name) const;
  /// Loops at which `name` can be computed or staged, outermost first, in all nests that it belongs to.
  std::vector<LoopName> legal_places(const std::string& name) const;
  /// Value of an axis's extent where `sizes` tells, or its bound.
  std::optional<std::int64_t> extent_of(const std::string& axis) const;
  std::optional<std::int64_t> bound_of_axis(const std::string& axis) const;
  /// The instructions that compute the products of a kernel, and whether tensor cores take f32 there.
  Family family_of(const LoopNest& nest) const;
  bool tf32_of(const LoopNest& nest) const;
  Location place_of_key(const std::string& key) const;
  bool some_stage_reads_another() const;
  /// A definition or input that belongs to the kernel of this nest.
  bool is_in(const std::string& name, const LoopNest& nest) const;

  /// Fills what nests_of answers; once `nests` is complete.
  void assign_nests();

 private:
  std::map<std::string, std::vector<const LoopNest*>> nests_by_name_;
};

/// Adds "did you mean ..?" in front of the notes where a candidate is near. A word of one letter is near to every
/// other.
void suggest(std::vector<std::string>& notes, const std::string& word, const std::vector<std::string>& candidates);

void check_names_and_sites(LegalityCheck& check);
void check_nests(LegalityCheck& check);
void check_places(LegalityCheck& check);
void check_storage(LegalityCheck& check);
void check_products(LegalityCheck& check);
void check_cluster(LegalityCheck& check);
void check_rfactor(LegalityCheck& check);
void check_mask_map(LegalityCheck& check);
void check_overlap(LegalityCheck& check);
void check_exponentials(LegalityCheck& check);
void check_rewrite(LegalityCheck& check);
void check_sizes(LegalityCheck& check);

}  // namespace astatide
