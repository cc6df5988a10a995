// Where a share of the threads finds tiles and tensors, and what is checked of each access.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/sim/parts.h"
#include "compiler/sim/simulation.h"
#include "compiler/tile/parameters.h"

namespace astatide::sim {

using tile::Mem;

std::size_t Simulation::copies(const Mem& mem) const {
  const std::size_t owners = most_blocks_ * static_cast<std::size_t>(is_of_team(kernel_, mem) ? kernel_.teams : 1);
  if (mem.space == Space::shared) return owners * static_cast<std::size_t>(mem.ring);
  return owners * (held_by_each_warp(mem) ? static_cast<std::size_t>(warps_of(kernel_)) : 1);
}

std::size_t Simulation::copy_of(std::size_t tile, bool write) const {
  const Mem& mem = *machine_.tile(tile).mem;
  if (mem.space == Space::shared) {
    const std::vector<Side>& sides = running_ ? running_->sides : agent_->sides;
    return (into_ * static_cast<std::size_t>(kernel_.teams) + static_cast<std::size_t>(team_of(*agent_))) *
               static_cast<std::size_t>(mem.ring) +
           static_cast<std::size_t>(sides[2 * tile + (write && !alike_ ? 1 : 0)].slot);
  }
  if (is_of_team(kernel_, mem))
    return agent_->block * static_cast<std::size_t>(kernel_.teams) + static_cast<std::size_t>(team_of(*agent_));
  if (!held_by_each_warp(mem)) return agent_->block;
  return agent_->block * static_cast<std::size_t>(warps_of(kernel_)) +
         static_cast<std::size_t>(std::max(0, agent_->warp));
}

bool Simulation::holds(const tile::ElementCounter& element) const { return !part_ || part_->holds(element); }
bool Simulation::holds_row(int row) const { return !part_ || part_->holds_row(row); }

Actor Simulation::actor(bool by_lanes) const {
  if (running_)
    return {.agent = running_->actor,
            .time = running_->time,
            .knows = &running_->knows,
            .asynchronous = running_->tells_barrier || running_->actor != agent_->queues[kCopies].actor,
            .owner = static_cast<std::uint32_t>(agent_->number),
            .fenced_until = running_->fenced_products};
  if (by_lanes && agent_->warp >= 0)
    return {
        .agent = agent_->lanes, .time = agent_->lanes_time, .knows = &agent_->lanes_know, .lanes = true, .grid = grid_};
  return {.agent = static_cast<std::uint32_t>(agent_->number), .time = time(*agent_), .knows = &agent_->knows};
}

/// The block in whose shared memory an element lies, and its first byte there.
std::pair<std::size_t, std::size_t> Simulation::place_in_memory(std::size_t tile, std::size_t position) const {
  const tile::TileState& state = machine_.tile(tile);
  const auto ring = static_cast<std::size_t>(state.mem->ring);
  const auto teams = static_cast<std::size_t>(kernel_.teams);
  const std::size_t copy = position / state.size, slot = copy % ring, owner = copy / ring;
  return {owner / teams,
          owner % teams * static_cast<std::size_t>(kernel_.team_bytes) + static_cast<std::size_t>(state.mem->offset) +
              slot * static_cast<std::size_t>(slot_bytes_[tile]) + byte_of_[tile][position % state.size]};
}

void Simulation::on_read(std::size_t tile, std::size_t position) {
  const tile::TileState& state = machine_.tile(tile);
  const Mem& mem = *state.mem;
  const Actor by = actor(mem.space == Space::shared);
  std::string wrong;
  if (mem.space == Space::shared) {
    const auto [block, byte] = place_in_memory(tile, position);
    wrong = blocks_[block].memory[byte / 2].read(by, static_cast<std::int32_t>(tile), false);
  } else {
    const std::size_t per_block = copies(mem) / most_blocks_ * state.size;
    wrong =
        blocks_[agent_->block].registers[tile][position % per_block].read(by, static_cast<std::int32_t>(tile), true);
  }
  if (!wrong.empty()) fail(fmt::format("{} {} (element {})", mem.name, wrong, position % state.size), mem.name);
}

void Simulation::on_write(std::size_t tile, std::size_t position) {
  const tile::TileState& state = machine_.tile(tile);
  const Mem& mem = *state.mem;
  const Actor by = actor(mem.space == Space::shared);
  std::string wrong;
  if (mem.space == Space::shared) {
    const auto [block, byte] = place_in_memory(tile, position);
    // An element of 4 bytes takes the place of two of 2.
    const auto halves = static_cast<std::size_t>(std::max(1, static_cast<int>(size_in_bytes(mem.type)) / 2));
    for (std::size_t half = 0; half < halves && wrong.empty(); ++half) {
      Cell& cell = blocks_[block].memory[byte / 2 + half];
      wrong = alike_ ? cell.write_alike(by, static_cast<std::int32_t>(tile))
                     : cell.write(by, static_cast<std::int32_t>(tile), false);
    }
  } else {
    std::vector<std::vector<Cell>>& registers = blocks_[agent_->block].registers;
    const std::size_t per_block = copies(mem) / most_blocks_ * state.size;
    wrong = registers[tile][position % per_block].write(by, static_cast<std::int32_t>(tile), true);
    // The same registers under another name hold another value now.
    for (const tile::TileState::Overlap& overlap : state.overlaps) {
      std::vector<Cell>& other = registers[overlap.tile];
      if (overlap.element_by_element) other[position % per_block].forget();
    }
  }
  if (!wrong.empty()) fail(fmt::format("{} {} (element {})", mem.name, wrong, position % state.size), mem.name);
}

/// What the teams of a block leave for each other lies in its shared memory, in the room of their tiles.
void Simulation::on_block_tensor(std::size_t tensor, std::size_t position, bool write) {
  const tile::Tensor& of = program_.tensors[tensor];
  const auto per_team = static_cast<std::size_t>(tile::elements_of_team(of));
  const auto size = static_cast<std::size_t>(size_in_bytes(of.type));
  const std::size_t byte = position / per_team * static_cast<std::size_t>(kernel_.team_bytes) +
                           static_cast<std::size_t>(of.offset) + position % per_team * size;
  const Actor by = actor(true);
  const auto name = static_cast<std::int32_t>(kernel_.mems.size() + tensor);
  for (std::size_t half = 0; half < std::max<std::size_t>(1, size / 2); ++half) {
    Cell& cell = blocks_[agent_->block].memory[byte / 2 + half];
    const std::string wrong = write ? cell.write(by, name, false) : cell.read(by, name, false);
    if (!wrong.empty()) fail(fmt::format("{} {} (element {})", of.name, wrong, position));
  }
}

/// What blocks of an earlier wave have written is known to who knows of an arrival of its block behind theirs.
bool Simulation::is_known(const GlobalMemory::Place& place, const Actor& by) const {
  if (place.wave == wave_) return by.knows->done[place.agent] >= place.time;
  const auto arrival = arrivals_.find(agent_->block);
  return arrival != arrivals_.end() && by.knows->done[arrival->second.first] >= arrival->second.second &&
         published_[static_cast<std::size_t>(place.wave)][place.agent] >= place.time;
}

void Simulation::on_load(std::size_t tensor, std::size_t position) {
  const tile::Tensor& of = program_.tensors[tensor];
  if (of.role == tile::Tensor::Role::input || of.role == tile::Tensor::Role::counters) return;
  if (of.role == tile::Tensor::Role::block) return on_block_tensor(tensor, position, false);
  const GlobalMemory::Place& place = (*tensors_[tensor])[position];
  if (place.kernel < 0)
    fail(fmt::format("{} is read, and nothing has been written there (element {})", of.name, position));
  if (place.kernel < number_ || is_known(place, actor(true))) return;
  fail(fmt::format("{} is read before the last write by {} is known to have happened (element {})", of.name,
                   place.wave == wave_ ? name_of_agent(place.agent) : "another block", position));
}

void Simulation::on_store(std::size_t tensor, std::size_t position) {
  const tile::Tensor& of = program_.tensors[tensor];
  if (of.role == tile::Tensor::Role::counters) return;
  if (of.role == tile::Tensor::Role::block) return on_block_tensor(tensor, position, true);
  GlobalMemory::Place& place = (*tensors_[tensor])[position];
  const Actor by = actor(true);
  const bool own = place.wave == wave_ && (place.agent == by.agent || by.knows->done[place.agent] >= place.time);
  if (place.kernel == number_ && !own)
    fail(fmt::format("{} is written twice: before, by {} (element {})", of.name,
                     place.wave == wave_ ? name_of_agent(place.agent) : "another block", position));
  // A lane stores its own elements, time after time.
  place = {number_, wave_, by.agent, by.time};
}

}  // namespace astatide::sim
