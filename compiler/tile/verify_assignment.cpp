#include <algorithm>
#include <map>
#include <set>

#include "compiler/tile/verify_flow.h"
#include "compiler/tile/verify_rules.h"

namespace astatide::tile {
namespace {

/// Columns that hold a value, apart from each other and in order.
using Written = std::vector<std::pair<int, int>>;

constexpr int kAllColumns = 1 << 30;

Written with(Written columns, int begin, int end) {
  Written out;
  for (const auto& [a, b] : columns) {
    if (b < begin || a > end) {
      out.emplace_back(a, b);
    } else {
      begin = std::min(begin, a);
      end = std::max(end, b);
    }
  }
  out.emplace_back(begin, end);
  std::sort(out.begin(), out.end());
  return out;
}

Written intersection(const Written& a, const Written& b) {
  Written out;
  for (const auto& [a0, a1] : a)
    for (const auto& [b0, b1] : b)
      if (std::max(a0, b0) < std::min(a1, b1)) out.emplace_back(std::max(a0, b0), std::min(a1, b1));
  return out;
}

bool covers(const Written& columns, int begin, int end) {
  return std::any_of(columns.begin(), columns.end(),
                     [&](const auto& c) { return c.first <= begin && end <= c.second; });
}

using Assigned = std::map<std::string, Written>;

void intersect(Assigned& into, const Assigned& other) {
  for (auto entry = into.begin(); entry != into.end();) {
    const auto found = other.find(entry->first);
    if (found != other.end()) entry->second = intersection(entry->second, found->second);
    entry = found == other.end() || entry->second.empty() ? into.erase(entry) : std::next(entry);
  }
}

void assign(Assigned& into, const Assigned& more) {
  for (const auto& [name, columns] : more)
    for (const auto& [begin, end] : columns) into[name] = with(into[name], begin, end);
}

struct AssignmentState {
  Assigned assigned;
  /// By the text of a condition: what is assigned besides where it holds.
  std::map<std::string, Assigned> under;
  /// Tiles of which some strip has been written; which elements of it, no analysis of text can say.
  std::set<TileName> strips;
  friend bool operator==(const AssignmentState&, const AssignmentState&) = default;
};

class Assignment : public Flow<AssignmentState> {
 public:
  explicit Assignment(const Verified& v) : v_(v), rings_(v.accesses.rings()) {}

 protected:
  void visit(const Stmt& stmt, AssignmentState& state) override {
    const Accesses& accesses = v_.accesses.of(stmt);
    for (const Access& access : accesses.reads) read(stmt, access, state);
    for (const Access& access : accesses.writes) write(access, state);
    // The condition no longer says what it said.
    if (const std::string* flag = flag_of(stmt)) state.under.erase(*flag);
  }

  void join(const Stmt&, AssignmentState& into, const AssignmentState& other) override {
    intersect(into.assigned, other.assigned);
    for (auto entry = into.under.begin(); entry != into.under.end();) {
      const auto found = other.under.find(entry->first);
      if (found != other.under.end()) intersect(entry->second, found->second);
      entry = found == other.under.end() ? into.under.erase(entry) : std::next(entry);
    }
    into.strips.insert(other.strips.begin(), other.strips.end());
  }

  void enter_if(const Stmt&, const If& s, AssignmentState& state) override {
    const auto found = state.under.find(to_string(s.condition));
    if (found != state.under.end()) assign(state.assigned, found->second);
  }

  void leave_if(const Stmt& stmt, const If& s, const AssignmentState& before, AssignmentState& state) override {
    const Assigned inside = state.assigned;
    join(stmt, state, before);
    if (!keeps_condition(s)) return;
    state.under[to_string(s.condition)] = inside;
    // One of the two holds: what both branches assign is assigned.
    const auto other = state.under.find(to_string(negation(s.condition)));
    if (other == state.under.end()) return;
    Assigned both = inside;
    intersect(both, other->second);
    assign(state.assigned, both);
  }

 private:
  bool is_followed(const Access& access) const {
    return access.part != Access::Part::view && !rings_.contains(access.name);
  }

  int column_count(const std::string& name) const {
    const Mem* mem = v_.kernel.find(name);
    return mem && !mem->dims.empty() ? mem->dims.back().extent : kAllColumns;
  }

  void read(const Stmt& stmt, const Access& access, const AssignmentState& state) const {
    if (!is_followed(access)) return;
    if (state.strips.contains(access.name)) return;
    const auto found = state.assigned.find(access.name);
    const int begin = access.columns ? access.columns->begin : 0;
    const int end = access.columns ? access.columns->end : column_count(access.name);
    if (found != state.assigned.end() && covers(found->second, begin, end)) return;
    const auto killer = killers_.find(access.name);
    v_.fail(stmt, killer != killers_.end() ? access.name + " is read, but " + killer->second +
                                                 ", which shares its storage, may have been written since"
                                           : access.name + " is read, but not written on every path to here");
  }

  void write(const Access& access, AssignmentState& state) {
    if (!is_followed(access)) return;
    for (const TileName& other : v_.accesses.overlapping(access.name)) {
      killers_[other] = access.name;
      state.assigned.erase(other);
      state.strips.erase(other);
      for (auto& [condition, assigned] : state.under) assigned.erase(other);
    }
    if (access.part == Access::Part::strip) {
      state.strips.insert(access.name);
      return;
    }
    const int begin = access.columns ? access.columns->begin : 0;
    const int end = access.columns ? access.columns->end : column_count(access.name);
    state.assigned[access.name] = with(state.assigned[access.name], begin, end);
  }

  const Verified& v_;
  const std::set<TileName>& rings_;
  std::map<TileName, TileName> killers_;  // for messages
};

}  // namespace

void verify_assignment(const Verified& v) {
  AssignmentState state;
  Assignment(v).run(v.kernel.body, state);
}

}  // namespace astatide::tile
