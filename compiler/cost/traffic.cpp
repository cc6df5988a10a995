#include "compiler/cost/traffic.h"

#include <algorithm>
#include <set>

#include "compiler/tile/bounds.h"

namespace astatide::cost {
namespace {

/// Tiles that are looked at; more are taken to be like them.
constexpr std::int64_t kMostTilesSeen = 3000;

struct LoopPlace {
  std::string var;
  double trips = 1;
  int chain = 0;
};

/// Loops over one variable that follow each other are one: where it begins, and how long it is.
struct Chain {
  std::string var;
  Expr begin;
  double trips = 0;
};

struct Found {
  std::string tensor;
  bool write = false;
  std::vector<LoopPlace> loops;
  std::vector<Expr> indices;
  std::set<std::string> names;  // that its place depends on
};

/// Walks a body with the loops around each statement.
class Finder {
 public:
  explicit Finder(Values values) : values_(std::move(values)) {}

  void walk(const tile::Block& block) {
    std::string last;
    for (const tile::Stmt& stmt : block) {
      if (const auto* loop = std::get_if<tile::For>(&stmt.node)) {
        if (loop->var != last) ++chain_;
        last = loop->var;
        enter(*loop);
      } else if (const auto* let = std::get_if<tile::Let>(&stmt.node)) {
        lets.push_back(let);
        if (const auto value = tile::value_without_data(let->value, values_)) values_[let->name] = *value;
      } else if (const tile::Block* nested = tile::nested_block(stmt)) {
        walk(*nested);
      } else {
        look(stmt);
      }
    }
  }

  std::vector<Found> found;
  std::map<int, Chain> chains;
  std::vector<const tile::Let*> lets;

 private:
  void enter(const tile::For& loop) {
    const auto begin = tile::value_without_data(loop.begin, values_), end = tile::value_without_data(loop.end, values_);
    double trips = 1;
    if (loop.kind != tile::For::Kind::once && begin && end)
      trips = static_cast<double>(std::max<std::int64_t>(0, *end - *begin));
    // Of a loop that peeled iterations surround, the whole begins where the first of them in order of places does.
    Chain& chain = chains[chain_];
    if (loop.kind == tile::For::Kind::serial && (chain.trips == 0 || loop.descending)) chain.begin = loop.begin;
    chain.var = loop.var;
    chain.trips += trips;
    loops_.push_back({loop.var, trips, chain_});
    values_[loop.var] = begin.value_or(0);
    walk(loop.body);
    loops_.pop_back();
  }

  void add(const std::string& tensor, const std::vector<Expr>& indices, const std::vector<tile::Coordinate>& at,
           bool write) {
    Found& out = found.emplace_back(Found{tensor, write, loops_, indices, {}});
    for (const Expr& index : indices) out.names.merge(free_variables(index));
    for (const tile::Coordinate& coordinate : at) {
      if (!out.names.contains(coordinate.axis)) continue;
      out.names.merge(free_variables(coordinate.origin));
      for (Expr& index : out.indices) index = substitute(index, {{coordinate.axis, coordinate.origin}});
    }
    // What is read in front of a loop has the place where that begins.
    for (auto let = lets.rbegin(); let != lets.rend(); ++let)
      for (Expr& index : out.indices) index = substitute(index, {{(*let)->name, (*let)->value}});
  }

  void look(const tile::Stmt& stmt) {
    const auto view = [&](const auto& operand, bool write) {
      if (const auto* v = std::get_if<tile::View>(&operand)) add(v->tensor, v->indices, v->at, write);
    };
    if (const auto* copy = std::get_if<tile::Copy>(&stmt.node)) view(copy->src, false), view(copy->dst, true);
    if (const auto* mma = std::get_if<tile::Mma>(&stmt.node)) view(mma->lhs, false), view(mma->rhs, false);
    if (const auto* map = std::get_if<tile::Map>(&stmt.node))
      visit(map->value, [&](const Expr& e) {
        if (const auto* read = e.as<Read>()) add(read->tensor, read->indices, map->at, false);
      });
  }

  Values values_;
  std::vector<LoopPlace> loops_;
  int chain_ = 0;
};

/// Of each axis and place: what the indices are there, with everything else at its first place, and where loops begin
/// that they vary with, in lengths of those loops: what overlaps is taken to be the same.
std::vector<std::vector<std::int64_t>> parts_of(const Found& access, const Finder& finder, const tile::Kernel& kernel,
                                                const std::vector<std::int64_t>& counts, const Values& values) {
  std::vector<Chain> chains;
  for (const LoopPlace& loop : access.loops)
    if (access.names.contains(loop.var)) chains.push_back(finder.chains.at(loop.chain));
  std::vector<std::vector<std::int64_t>> out;
  for (std::size_t n = 0; n < counts.size(); ++n) {
    std::vector<std::int64_t>& parts = out.emplace_back();
    const std::string& var = kernel.tiles[n].var;
    std::vector<Expr> here;
    for (const Expr& index : access.indices)
      if (free_variables(index).contains(var)) here.push_back(index);
    if (here.empty() && chains.empty()) continue;
    Values at = values;
    for (std::int64_t place = 0; place < counts[n]; ++place) {
      at[var] = place;
      std::int64_t number = 0;
      if (!chains.empty())
        for (const tile::Let* let : finder.lets)
          if (const auto value = tile::value_without_data(let->value, at)) at[let->name] = *value;
      for (const Chain& chain : chains) {
        const auto begin = static_cast<double>(tile::value_without_data(chain.begin, at).value_or(0));
        number = number * 1009 + static_cast<std::int64_t>(begin / std::max(1.0, chain.trips));
      }
      for (const Expr& index : here) {
        // Names of coordinates inside a tile do not tell tiles apart.
        for (const std::string& name : free_variables(index))
          if (!at.contains(name)) at[name] = 0;
        number = number * 1000003 + tile::value_without_data(index, at).value_or(place);
      }
      parts.push_back(number);
    }
  }
  return out;
}

}  // namespace

bool Cache::touch(std::uint64_t part, int tensor, double bytes, bool write) {
  const auto known = places_.find(part);
  const bool hit = known != places_.end();
  double dirty = 0;
  if (hit) {
    dirty = known->second->dirty;
    held_ -= known->second->bytes;
    bytes = std::max(bytes, known->second->bytes);
    entries_.erase(known->second);
  }
  if (write) dirty = bytes;
  entries_.push_front({part, tensor, bytes, dirty});
  places_[part] = entries_.begin();
  held_ += bytes;
  while (held_ > capacity_ && !entries_.empty()) drop_last();
  return hit;
}

void Cache::drop_last() {
  const Entry& last = entries_.back();
  held_ -= last.bytes;
  written_[last.tensor] += last.dirty;
  places_.erase(last.part);
  entries_.pop_back();
}

std::map<int, double> Cache::take_written(bool all) {
  if (all)
    for (Entry& entry : entries_) written_[entry.tensor] += entry.dirty, entry.dirty = 0;
  return std::exchange(written_, {});
}

std::map<int, double> Cache::dirty() const {
  std::map<int, double> out;
  for (const Entry& entry : entries_) out[entry.tensor] += entry.dirty;
  return out;
}

std::vector<Stream> streams_of(const tile::Kernel& kernel, const std::vector<std::int64_t>& counts,
                               const Values& values) {
  Values at = values;
  for (std::size_t n = 0; n < counts.size(); ++n) at[kernel.tiles[n].var] = counts[n] / 2;
  Finder finder(at);
  finder.walk(kernel.body);
  std::vector<Stream> out;
  std::vector<std::pair<int, double>> made;  // chain and weight of each
  std::map<std::pair<std::string, bool>, double> weights;
  for (const Found& access : finder.found) {
    double trips = 1, repeats = 1;
    int chain = 0;
    for (const LoopPlace& loop : access.loops) {
      trips *= loop.trips;
      if (!access.names.contains(loop.var)) repeats *= std::max(1.0, loop.trips);
      if (chain == 0) chain = loop.chain;
    }
    if (trips == 0) continue;
    weights[{access.tensor, access.write}] += trips;
    bool joined = false;
    for (std::size_t n = 0; n < out.size() && !joined; ++n) {
      joined = out[n].tensor == access.tensor && out[n].write == access.write && made[n].first == chain;
      if (!joined) continue;
      made[n].second += trips;
      out[n].repeats = std::max(out[n].repeats, repeats);
    }
    if (joined) continue;
    out.push_back({access.tensor, access.write, repeats, parts_of(access, finder, kernel, counts, at), 1});
    made.emplace_back(chain, trips);
  }
  for (std::size_t n = 0; n < out.size(); ++n) out[n].share = made[n].second / weights[{out[n].tensor, out[n].write}];
  return out;
}

void visit_tiles(const tile::Kernel& kernel, const std::vector<std::int64_t>& counts, const Values& values,
                 const std::function<bool(const std::vector<std::int64_t>&)>& f) {
  if (counts.empty()) {
    f({});
    return;
  }
  std::int64_t others = 1;
  for (std::size_t n = 1; n < counts.size(); ++n) others *= counts[n];
  std::int64_t group = 1;
  if (kernel.tile_group) {
    group = std::max<std::int64_t>(1, evaluate_integer(*kernel.tile_group, values));
    // Alike in size.
    const std::int64_t groups = (others + group - 1) / std::max<std::int64_t>(1, group);
    if (groups > 0) group = (others + groups - 1) / groups;
  }
  std::vector<std::int64_t> place(counts.size());
  for (std::int64_t first = 0; first < others; first += group)
    for (std::int64_t along = 0; along < counts[0]; ++along)
      for (std::int64_t other = first; other < std::min(others, first + group); ++other) {
        place[0] = kernel.tiles[0].descending ? counts[0] - 1 - along : along;
        std::int64_t rest = other;
        for (std::size_t n = 1; n < counts.size(); ++n) {
          place[n] = kernel.tiles[n].descending ? counts[n] - 1 - rest % counts[n] : rest % counts[n];
          rest /= counts[n];
        }
        if (!f(place)) return;
      }
}

MemoryTraffic memory_traffic(
    const tile::Program& program, const tile::Kernel& kernel, const std::vector<std::int64_t>& counts,
    const Values& values, std::int64_t at_once,
    const std::function<const tile::KernelStatistics&(const std::vector<std::int64_t>&)>& moved, Cache& cache,
    AtEnd end) {
  const std::vector<Stream> streams = streams_of(kernel, counts, values);
  std::map<std::string, int> numbers;
  for (std::size_t n = 0; n < program.tensors.size(); ++n) numbers[program.tensors[n].name] = static_cast<int>(n);
  double tiles = 1;
  for (const std::int64_t count : counts) tiles *= static_cast<double>(count);

  MemoryTraffic out;
  std::int64_t seen = 0;
  std::vector<std::vector<std::int64_t>> wave;
  const auto run_wave = [&] {
    for (const Stream& stream : streams) {
      const int tensor = numbers.at(stream.tensor);
      std::map<std::uint64_t, double> parts;
      for (const auto& place : wave) {
        std::uint64_t part = static_cast<std::uint64_t>(tensor) + 1;
        for (std::size_t n = 0; n < place.size(); ++n)
          if (!stream.parts[n].empty())
            part = part * 0x9E3779B97F4A7C15U +
                   static_cast<std::uint64_t>(stream.parts[n][static_cast<std::size_t>(place[n])]);
        const auto& global = moved(place).global;
        const auto traffic = global.find(stream.tensor);
        if (traffic == global.end()) continue;
        const double bytes =
            (stream.write ? traffic->second.written : traffic->second.read) * stream.share / stream.repeats;
        double& most = parts[part];
        most = std::max(most, bytes);
      }
      double missed = 0, again = 0;
      for (const auto& [part, bytes] : parts)
        if (!cache.touch(part, tensor, bytes, stream.write)) missed += bytes;
      // The second time stands for all that follow.
      if (stream.repeats > 1)
        for (const auto& [part, bytes] : parts)
          if (!cache.touch(part, tensor, bytes, stream.write)) again += bytes;
      if (!stream.write) out[stream.tensor].read += missed + again * (stream.repeats - 1);
      if (stream.write) out[stream.tensor].written += again * std::max(0.0, stream.repeats - 2);
    }
    wave.clear();
  };
  visit_tiles(kernel, counts, values, [&](const std::vector<std::int64_t>& place) {
    wave.push_back(place);
    if (static_cast<std::int64_t>(wave.size()) == at_once) {
      run_wave();
      if (seen >= kMostTilesSeen) return false;
    }
    ++seen;
    return true;
  });
  if (!wave.empty()) run_wave();
  const std::map<int, double> left = cache.dirty();
  // Lines of counters and of results stay until something else comes; they are this kernel's all the same.
  for (const auto& [tensor, bytes] : cache.take_written(true))
    out[program.tensors[static_cast<std::size_t>(tensor)].name].written += bytes;
  const double times = seen > 0 ? std::max(1.0, tiles / static_cast<double>(seen)) : 1;
  for (auto& [tensor, traffic] : out) traffic.read *= times, traffic.written *= times;
  // However many tiles follow those that were looked at, L2 is full once.
  if (end == AtEnd::left)
    for (const auto& [tensor, bytes] : left) {
      double& written = out[program.tensors[static_cast<std::size_t>(tensor)].name].written;
      written = std::max(0.0, written - bytes);
    }
  return out;
}

}  // namespace astatide::cost
