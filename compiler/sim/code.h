#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/tile/interpret_machine.h"
#include "compiler/tile/synchronization.h"

// What each role of a kernel runs, as a list of steps: statements in pieces for a warp, and what stands between them.

namespace astatide::sim {

/// Which elements of a statement are a warp's: rows and columns of the tile that it goes through (empty: all), or every
/// n-th run of a row's elements.
struct Part {
  std::vector<char> rows, columns;
  int run = 0;              // elements of a run that one thread copies; 0: by rows and columns
  int first = 0, step = 1;  // run number `first` and each `step` further
  int extent = 0;           // of a row
  bool two_axes = false;

  bool holds_row(int row) const { return rows.empty() || rows[static_cast<std::size_t>(row)] != 0; }
  bool holds(const tile::ElementCounter& element) const;
};

/// One change of what a kernel waits for: what a test makes, to see that it is found.
struct Change {
  enum class Kind : std::uint8_t { remove, other_phase, other_slot, keep_phase, fewer, more };
  int kernel = 0;  // of the program
  int site = -1;
  Kind kind = Kind::remove;
};
std::string_view name_of(Change::Kind kind);

struct Step {
  enum class Kind : std::uint8_t {
    run,    // a statement, at once
    start,  // a statement that goes on beside the agent
    sync,
    loop,       // sets the variable, or jumps behind the loop where there is nothing to do
    next,       // back to `target` while there is more to do
    branch,     // to `target` where the condition does not hold
    give_back,  // a slot of a ring of one role
    rows,       // of an acquire: rows beyond its limit become 0; to `target` where there are none
    jump,
    deal,   // writes the place of a tile, or that there is none left
    ended,  // to `target` where that was none
    take,   // the place that was passed on, to `target` where it is none
    end
  };
  Kind kind = Kind::end;
  const tile::Stmt* stmt = nullptr;  // that the step belongs to
  tile::Action action{};
  std::vector<Part> parts{};  // by warp of the role; one for all where there is one thread
  tile::SyncOp op{};
  int site = -1;
  std::optional<Change::Kind> change{};
  tile::Tape first{}, past{};  // of a loop; of a branch the condition
  std::size_t variable = 0;
  bool of_team = false;  // of a loop: it runs once, for the number of the agent's team
  bool once = false, descending = false;
  std::size_t target = 0;
  bool meets = false;      // brings the lanes of a warp together
  std::uint32_t grid = 0;  // by which elements are dealt out to lanes; 0: not one by one, or by none
};

/// Who runs a list of steps.
enum class Who : std::uint8_t { computing, producer, dealer };
std::string_view name_of(Who who);

struct Code {
  Who who = Who::computing;
  const tile::Role* role = nullptr;
  std::vector<Step> steps;
};

/// A place where a kernel synchronizes, for people.
struct Site {
  std::string role, statement, op;
  tile::SyncOp what;
  std::int64_t runs = 0;  // how often agents came here
};

struct Codes {
  std::vector<Code> codes;
  std::vector<Site> sites;
  std::deque<tile::Stmt> own;  // statements that stand in no program
};

/// The steps of all roles of a kernel. `machine` compiles the statements for shares of the threads.
Codes make_codes(const tile::Kernel& kernel, const tile::Synchronization& sync, tile::Machine& machine,
                 const std::optional<Change>& change);

/// Whether there is such a change of an operation.
bool changes_anything(const tile::SyncOp& op, Change::Kind kind, const tile::Synchronization& sync);

}  // namespace astatide::sim
