#include "compiler/sim/shadow.h"

#include <algorithm>

namespace astatide::sim {

void join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

void Knowledge::join(const Knowledge& other) {
  sim::join(done, other.done);
  sim::join(fenced, other.fenced);
}

/// An agent knows what it has done itself; of the lanes of a warp each knows its own elements.
bool Cell::known(const Clock& clock, const Access& access, const Actor& by) {
  if (access.agent == by.agent && (!by.lanes || (access.grid != 0 && access.grid == by.grid))) return true;
  return clock[access.agent] >= access.time;
}

std::string Cell::after_write(const Actor& by, bool in_registers, const char* what) const {
  if (in_registers && by.asynchronous && writer_.agent == by.owner)
    return writer_.time <= by.fenced_until
               ? ""
               : std::string(what) + " by wgmma with no fence of products behind the last write";
  const auto ordered = [&](const Clock& clock) {
    return known(clock, writer_, by) ||
           std::any_of(alike_.begin(), alike_.end(), [&](const Access& write) { return known(clock, write, by); });
  };
  if (!ordered(by.knows->done))
    return std::string(what) +
           (asynchronous_ ? " before what was started has come" : " before the last write is known to have happened");
  if (!in_registers && by.asynchronous && !asynchronous_ && !ordered(by.knows->fenced))
    return std::string(what) + " by TMA or wgmma with no proxy fence behind the last write";
  return "";
}

std::string Cell::after_reads(const Actor& by, const char* what) const {
  for (const Access& read : reads_)
    if (!known(by.knows->done, read, by)) return std::string(what) + " before the last read is known to have happened";
  return "";
}

std::string Cell::read(const Actor& by, std::int32_t tile, bool in_registers) {
  if (!written_) return "is read, and nothing has been written there";
  if (tile_ != tile) return "is read, and another tile has been written there";
  if (std::string wrong = after_write(by, in_registers, "is read"); !wrong.empty()) return wrong;
  if (in_registers && !by.asynchronous) return "";
  for (Access& read : reads_) {
    if (read.agent != by.agent || read.grid != by.grid) continue;
    read.time = by.time;
    return "";
  }
  reads_.push_back({by.agent, by.time, by.grid});
  return "";
}

std::string Cell::write(const Actor& by, std::int32_t tile, bool in_registers) {
  if (written_)
    if (std::string wrong = after_write(by, in_registers, "is written"); !wrong.empty()) return wrong;
  if (std::string wrong = after_reads(by, "is written"); !wrong.empty()) return wrong;
  written_ = true;
  asynchronous_ = by.asynchronous;
  tile_ = tile;
  writer_ = {by.agent, by.time, by.grid};
  alike_.clear();
  reads_.clear();
  return "";
}

std::string Cell::write_alike(const Actor& by, std::int32_t tile) {
  if (alike_.empty() || !written_ || tile_ != tile) {
    if (std::string wrong = write(by, tile, false); !wrong.empty()) return wrong;
  }
  alike_.push_back({by.agent, by.time, by.grid});
  return "";
}

}  // namespace astatide::sim
