#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/schedule/schedule.h"

namespace astatide {

/// What is written behind a key.
enum class ValueForm : std::uint8_t {
  flag,            // true
  integer,         // 2
  integer_pair,    // [16, 16]
  loop,            // j.o
  loops,           // [i.o, h, b]
  axis_numbers,    // {i: 64, j: 64}
  spaces,          // shared, or [shared, register]
  word,            // mma_sync: one of the words of the directive
  target,          // sm_80
  rewrite,         // none, online or {online: {rescale: lazy, grow: 30}}
  extents,         // [Hq, Hkv]
  extent_numbers,  // {Sk: 1024}
  role_numbers,    // {producer: 1, consumer: 2, alternate: true}
  axis_parts,      // {j: [j.s, 16]}, {j: [j.s, auto]} or {j: [j.s, {split_size: 1024}]}
  axis_lists,      // {r: [g, i]}
  part,            // {cover: 1/2}: a part under a word of the directive's own
  service,         // {dtype: [f16, bf16], lengths: {i: [1, 16], d: 128}, rank: 2}
};

/// Where a key may stand, as bits.
enum Site : unsigned {
  kTopLevel = 1,
  kRootDefinition = 2,   // a definition with a kernel of its own: an output, or compute_root
  kInnerDefinition = 4,  // a definition computed inside the loops of another
  kStagedInput = 8,
};

/// One key of a schedule. The parser, the printers, the checks of values, the reference in schedules/README.md and the
/// JSON Schema read this table and nothing else.
struct DirectiveInfo {
  std::string_view key;
  std::optional<DirectiveKind> kind;  // none: a key of the top level
  unsigned sites = 0;
  ValueForm form = ValueForm::flag;
  std::int64_t least = 0, most = 0;  // of each number
  bool power_of_two = false;
  std::string_view doc;
  std::string_view example;        // YAML
  std::string_view before, after;  // what the example makes of a loop nest
  /// Of ValueForm::word: those that may be written. Of ValueForm::part: the key, and what it is a part of. Of
  /// ValueForm::axis_lists: what is in a list, and an entry for messages.
  std::vector<std::string_view> words = {};
};

const std::vector<DirectiveInfo>& directive_table();
const DirectiveInfo& directive_info(DirectiveKind kind);
/// nullptr where no key has that name.
const DirectiveInfo* find_directive(std::string_view key);
/// Keys that may stand at one of `sites`, in the order of the table.
std::vector<std::string> directive_keys(unsigned sites);
/// "a root definition or a staged input".
std::string describe_sites(unsigned sites);
/// "a list of loops, such as [i.o, h, b]": for messages.
std::string describe_form(ValueForm form);
/// The same, with the words that a directive has: "vector, cp_async or tma".
std::string describe_value(const DirectiveInfo& info);

/// Refuses a value of the wrong form or out of range, and names that are none. `owner` is the name that the directive
/// stands under.
void check_directive_value(const Directive& directive, const std::string& owner, Diagnostics& errors);
/// The same for what stands at the top level, and for names given twice.
void check_schedule_values(const Schedule& schedule, Diagnostics& errors);

/// The part of schedules/README.md between its markers: every key with its place, value, and what it does to a loop
/// nest.
std::string directive_reference_markdown();
/// schedules/schema.json, a JSON Schema (draft 7, which editors know) of schedule files.
std::string schedule_json_schema();
/// schedules/space_schema.json, the same of spaces: what the table says, with alternatives and ranges where parse_space
/// takes them, choices and conditions.
std::string space_json_schema();

/// The range of grow and over of {online: {..}}: with weights up to 2^96 the sum of 2^31 of them is an f32.
inline constexpr int kMostRescale = 96;

/// The highest rank of serves.
inline constexpr int kMostRank = 1000;

/// The most elements of {j: [j.s, {split_size: ..}]}.
inline constexpr std::int64_t kMostPartSize = std::int64_t{1} << 30;

/// The most teams of {j: [j.s, auto, j.w, ..]}: warps of a block.
inline constexpr std::int64_t kMostTeams = 32;

/// The axis of a loop: i of "i", "i.o", "i.i", "i.s" and "i.w".
std::string axis_of_loop(const LoopName& loop);

}  // namespace astatide
