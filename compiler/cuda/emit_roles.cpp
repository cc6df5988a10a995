// Producers and consumers: warpgroups of one block that share the slots of rings and nothing else. Of each such slot
// two barriers (PTX ISA, mbarrier) say that it is full, which the bytes of a copy complete, and that it is free, at
// which each warp of the consumers arrives. A ring's slot and the phase of its barriers go round together. Turns go
// round by named barriers (PTX ISA, bar), one a warpgroup, at which it waits for the one before it.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/cuda/kernel_emitter.h"
#include "compiler/support/contains.h"

namespace astatide::cuda {

using tile::Mem;

// A persistent block begins with the tile of its own number. The producer finds its place along the axes, which takes
// divisions, and passes it on through a ring of its own; then it draws the next one and copies for this one. A place of
// -1 ends the walk. Where searches tell which tiles there are and what they see, another thread does this, and adds
// what it has found to the places; in a cluster one of the first block does it for all, with numbers of clusters. It is
// ahead of the producers, which take places as the consumers do.

std::string KernelEmitter::place_of_tile(std::size_t axis) const {
  return fmt::format("({} + {} * {})[{}]", claimed("next_tiles"), claimed("tile_slot"), kernel_.tile_numbers(), axis);
}

namespace {

bool is_dealt(const tile::Stmt& stmt) {
  const auto* let = std::get_if<tile::Let>(&stmt.node);
  return let && let->dealt;
}

/// The lets that are dealt with a tile.
std::vector<const tile::Let*> dealt_lets(const tile::Block& block) {
  std::vector<const tile::Let*> out;
  for (const tile::Stmt& stmt : block)
    if (is_dealt(stmt)) out.push_back(&std::get<tile::Let>(stmt.node));
  return out;
}

}  // namespace

void KernelEmitter::emit_dealt_tiles(const tile::Block& body) {
  const std::string slot = claimed("tile_slot"), phase = claimed("tile_phase"), tile = claimed("tile"),
                    tiles = claimed("tiles"), counter = claimed("tile_counter");
  const std::string drawn = kernel_.cluster ? fmt::format("{}, {}", counter, kernel_.cluster->blocks) : counter;
  out_.line(fmt::format("const int {} = {};", tiles, counts_text(0)));
  out_.line(fmt::format("int {} = 0, {} = 1;", slot, phase));
  out_.open(fmt::format("for (int {} = {};;)", tile, first_step()));
  std::string next = fmt::format("draw_tile({})", drawn);
  if (kernel_.exists) {
    // The next one is on its way while this one is looked at: many may follow each other that store nothing.
    out_.line(fmt::format("const int {} = {};", claimed("next_tile"), next));
    next = claimed("next_tile");
  }
  emit_tile_axes(out_, fmt::format("min({}, {} - 1)", tile, tiles));
  if (kernel_.exists) {
    out_.open(fmt::format("if ({} < {} && !({}))", tile, tiles, condition_text(*kernel_.exists, scope())));
    out_.line(fmt::format("{} = {};", tile, next));
    out_.line("continue;");
    out_.close();
  }
  const std::vector<const tile::Let*> dealt = dealt_lets(kernel_.body);
  if (!dealt.empty()) emit_block(outside_roles());
  emit(sync_.before_dealing());
  const auto place = [&](std::size_t axis, const std::string& of_first) {
    return axis == 0 ? fmt::format("{} < {} ? {} : -1", tile, tiles, of_first) : kernel_.tiles[axis].var;
  };
  if (kernel_.cluster)
    emit_published_places(place);
  else
    for (std::size_t i = 0; i < kernel_.tiles.size(); ++i)
      out_.line(fmt::format("{} = {};", place_of_tile(i), place(i, kernel_.tiles[0].var)));
  for (std::size_t i = 0; i < dealt.size(); ++i)
    out_.line(fmt::format("{} = {};", place_of_tile(kernel_.tiles.size() + i), dealt[i]->name));
  // Those of a cluster are told block by block.
  for (const tile::SyncOp& op : sync_.after_dealing())
    if (!kernel_.cluster || op.kind != tile::SyncOp::Kind::arrive) emit(op);
  out_.line(fmt::format("if ({} >= {}) break;", tile, tiles));
  out_.line(fmt::format("{} = {};", tile, next));
  emit_block(body);
  out_.close();
  out_.line(fmt::format("leave_tiles({});", drawn));
}

// Places that the loops don't read are taken where the loops have ended: they need no registers before. There the next
// tile's place along the first axis is read as well, so that what ends this tile hides how long that takes.
void KernelEmitter::emit_taken_tiles(const tile::Block& body, bool one_thread) {
  const std::string slot = claimed("tile_slot"), phase = claimed("tile_phase"), next = fresh("next");
  // Through a shuffle the compiler sees that the number is the same for all lanes.
  const auto number = [&](const std::string& read) {
    return one_thread ? read : fmt::format("__shfl_sync(0xffffffffu, {}, 0)", read);
  };
  out_.line(fmt::format("int {} = 0, {} = 0;", slot, phase));
  emit(sync_.before_taking());
  out_.line(fmt::format("int {} = {};", next, place_of_tile(0)));
  out_.open("for (;;)");
  // A vote: what leaves a loop on a shuffled number makes all that the loop carries differ between lanes, for ptxas.
  const std::string last = next + " < 0";
  out_.line(fmt::format("if ({}) break;", one_thread ? last : fmt::format("__any_sync(0xffffffffu, {})", last)));
  // It sees that of no number that the loop carries, so the shuffle stands here.
  out_.line(
      fmt::format("const int {} = {};", kernel_.cluster ? claimed("tile_place") : kernel_.tiles[0].var, number(next)));
  const auto [loops, rest] = parted_behind_loops(body);
  const tile::Block outside = outside_roles();
  const auto read_early = [&, &loops = loops](std::size_t axis) {
    const auto reads = [&](const tile::Stmt& stmt) {
      return !is_dealt(stmt) && contains(tile::effects_of(stmt).reads, kernel_.tiles[axis].var);
    };
    return one_thread || std::any_of(outside.begin(), outside.end(), reads) ||
           std::any_of(loops.begin(), loops.end(), reads);
  };
  const auto take = [&](bool early) {
    for (std::size_t i = 1; i < kernel_.tiles.size(); ++i)
      if (read_early(i) == early)
        out_.line(fmt::format("const int {} = {};", kernel_.tiles[i].var, number(place_of_tile(i))));
  };
  take(true);
  if (kernel_.cluster) emit_tile_of_place(out_, !one_thread);
  std::size_t number_of_let = kernel_.tiles.size();
  for (const tile::Stmt& stmt : outside) {
    if (!is_dealt(stmt)) {
      emit_statement(stmt);
      continue;
    }
    const auto& let = std::get<tile::Let>(stmt.node);
    out_.line(fmt::format("const int {} = {};", let.name, number(place_of_tile(number_of_let++))));
    note(let);
  }
  emit_block(loops);
  take(false);
  emit(sync_.after_taking(one_thread));
  emit(sync_.before_taking());
  out_.line(fmt::format("{} = {};", next, place_of_tile(0)));
  emit_block(rest);
  out_.close();
}

tile::Block KernelEmitter::outside_roles() const {
  tile::Block out = kernel_.body;
  std::erase_if(out, [](const tile::Stmt& stmt) { return std::holds_alternative<tile::Role>(stmt.node); });
  return out;
}

void KernelEmitter::emit(const tile::Role& role) {
  const bool producer = role.name == "producer";
  out_.open(producer ? fmt::format("if ({} >= {})", thread_, kernel_.threads()) : "else");
  tile::SyncOps start = sync_.at_start(role);
  // All threads of the producers' warpgroup give registers; one of them goes on.
  if (!start.empty() && start.front().kind != tile::SyncOp::Kind::pass_turn) {
    emit(start.front());
    start.erase(start.begin());
  }
  if (producer) out_.open(fmt::format("if ({} == {})", thread_, kernel_.threads()));
  for (const tile::SlotBarriers& ring : sync_.rings())
    if (ring.ring != tile::kTilePlaces)
      out_.line(fmt::format("int {} = 0, {} = {};  // slot, phase",
                            claimed(ring.ring + (producer ? "_write" : "_read")),
                            claimed(ring.ring + (producer ? "_write_phase" : "_read_phase")), producer ? 1 : 0));
  if (!producer) {
    SourceText storage;
    storage.indent = out_.indent;
    emit_registers(storage);
    out_.append(storage);
  }
  for (const tile::SyncOp& op : start) emit(op, "the first begins");
  if (!kernel_.persistent) {
    emit_block(role.body);
  } else if (producer && !kernel_.deals_apart()) {
    tile::Block body = outside_roles();
    body.insert(body.end(), role.body.begin(), role.body.end());
    emit_dealt_tiles(body);
  } else {
    emit_taken_tiles(role.body, producer);
  }
  for (const tile::SyncOp& op : sync_.at_end(role))
    emit(op, op.kind == tile::SyncOp::Kind::take_turn ? "the last pass is waited for, too" : "");
  if (producer) out_.close();
  if (producer && kernel_.deals_apart()) {
    const std::string of_block = kernel_.cluster ? fmt::format(" && {} == 0", claimed("cluster_rank")) : "";
    out_.open(fmt::format("else if ({} == {}{})", thread_, kernel_.threads() + 32, of_block));
    emit_dealt_tiles({});
    out_.close();
  }
  out_.close();
}

void KernelEmitter::emit(const tile::Reserve& reserve) {
  if (reserve.ahead) emit_tma_prefetch(*reserve.ahead, mem(reserve.tile));
  emit(sync_.before({reserve}));
}

}  // namespace astatide::cuda
