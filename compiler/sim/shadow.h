#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Who has touched what, and who knows of it. Order is that of vector clocks: an access is safe where its agent knows of
// every access that it must come after, whatever order this run happened to take. So one run finds a missing wait that
// would show on hardware once in a million.

namespace astatide::sim {

/// For each agent, how far it is known to have come.
using Clock = std::vector<std::uint32_t>;
void join(Clock& into, const Clock& other);

/// What an agent knows, and what of it a proxy fence has put in front of what TMA and wgmma do in shared memory.
struct Knowledge {
  Clock done, fenced;
  void join(const Knowledge& other);
};

/// Who makes an access: an agent at a time of its own.
struct Actor {
  std::uint32_t agent = 0;
  std::uint32_t time = 0;
  const Knowledge* knows = nullptr;
  bool asynchronous = false;  // through the asynchronous proxy: TMA and wgmma
  /// Of wgmma who holds its registers, and the time of that one's last fence of products.
  std::uint32_t owner = 0, fenced_until = 0;
  /// Lanes of a warp, one of them or another: by a grid each has its own elements.
  bool lanes = false;
  std::uint32_t grid = 0;
};

/// What is known of a place in memory. One value of one tile is in it at a time.
class Cell {
 public:
  /// Why an access is wrong, empty where it is not. `place` names what is touched; registers belong to one agent, whose
  /// own reads need no record.
  std::string read(const Actor& by, std::int32_t tile, bool in_registers);
  std::string write(const Actor& by, std::int32_t tile, bool in_registers);
  /// Several agents write the same value, each before it reads it.
  std::string write_alike(const Actor& by, std::int32_t tile);
  void forget() { written_ = false; }
  bool written() const { return written_; }
  std::uint32_t writer() const { return writer_.agent; }
  std::int32_t tile() const { return tile_; }

 private:
  struct Access {
    std::uint32_t agent = 0, time = 0, grid = 0;
  };
  static bool known(const Clock& clock, const Access& access, const Actor& by);
  std::string after_write(const Actor& by, bool in_registers, const char* what) const;
  std::string after_reads(const Actor& by, const char* what) const;

  bool written_ = false, asynchronous_ = false;
  std::int32_t tile_ = -1;
  Access writer_;
  std::vector<Access> alike_, reads_;
};

}  // namespace astatide::sim
