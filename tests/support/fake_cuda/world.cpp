#include "tests/support/fake_cuda/world.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace fake {
namespace {

constexpr Handle kPrimary = 0x100, kOwn = 0x10000, kStep = 0x10;
constexpr DevicePointer kFirstAddress = 0x7f0000000000, kRoom = DevicePointer{1} << 24;

// Not a mutex: tests count those that a launch takes.
std::atomic_flag busy = ATOMIC_FLAG_INIT;

thread_local std::array<Handle, 64> current_contexts{};
thread_local std::size_t current_depth = 0;

World& the_world() {
  // Never destroyed: what the program has static may be released after everything here is gone.
  static World* const world = new World;
  return *world;
}

/// "90,80": the last holds for all devices behind it.
std::vector<int> numbers_in(const char* text, std::size_t count, int otherwise) {
  std::vector<int> out;
  while (text != nullptr && *text != '\0' && out.size() < count) {
    char* end = nullptr;
    out.push_back(static_cast<int>(std::strtol(text, &end, 10)));
    text = *end == ',' ? end + 1 : end == text ? nullptr : end;
  }
  out.resize(count, out.empty() ? otherwise : out.back());
  return out;
}

}  // namespace

World::World() {
  const char* const devices = std::getenv("ASTATIDE_FAKE_DEVICES");
  const int count = devices == nullptr ? 1 : std::clamp(std::atoi(devices), 0, 16);
  capabilities = numbers_in(std::getenv("ASTATIDE_FAKE_CAPABILITY"), static_cast<std::size_t>(count), 90);
  trusts = std::getenv("ASTATIDE_FAKE_TRUSTS") != nullptr;
  next_address_ = kFirstAddress;
  for (int kind = 0; kind < kKinds; ++kind) next_[static_cast<std::size_t>(kind)] = static_cast<Handle>(kind + 1) << 24;
}

Context* World::primary(int device) {
  const auto found = contexts.find(kPrimary + kStep * static_cast<Handle>(device));
  return found == contexts.end() ? nullptr : &found->second;
}

Context& World::make_context(int device, Makes makes) {
  Handle handle = makes == Makes::primary ? kPrimary + kStep * static_cast<Handle>(device) : kOwn;
  while (contexts.contains(handle)) handle += kStep;
  return contexts[handle] = {handle, next_context_++, device, 0};
}

void World::destroy_context(const Context& context) {
  const std::uint64_t id = context.id;
  for (auto object = objects.begin(); object != objects.end();) {
    const auto next = std::next(object);
    if (object->second.context == id) remove(object->first);
    object = next;
  }
  for (auto own = memory.begin(); own != memory.end();) {
    const auto next = std::next(own);
    if (own->second.context == id) free(own->first);
    own = next;
  }
  contexts.erase(context.handle);
}

Handle World::add(Object object) {
  const auto kind = static_cast<std::size_t>(object.kind);
  Handle handle = next_[kind];
  if (gone_[kind].empty()) {
    next_[kind] += kStep;
  } else {
    handle = gone_[kind].back();
    gone_[kind].pop_back();
  }
  if (object.kind == Kind::stream) object.number = ++streams_of_[object.context];
  objects.emplace(handle, std::move(object));
  return handle;
}

void World::remove(Handle handle) {
  gone_[static_cast<std::size_t>(objects.at(handle).kind)].push_back(handle);
  objects.erase(handle);
}

Object* World::find(Kind kind, Handle handle) {
  const auto found = objects.find(handle);
  return found == objects.end() || found->second.kind != kind ? nullptr : &found->second;
}

const std::pair<const DevicePointer, Memory>* World::memory_at(DevicePointer address) const {
  const auto after = memory.upper_bound(address);
  if (after == memory.begin()) return nullptr;
  const auto found = std::prev(after);
  return address <= found->first + found->second.bytes ? &*found : nullptr;
}

DevicePointer World::allocate(std::size_t bytes, std::uint64_t context) {
  // 16 MiB apart and more.
  const std::size_t room = (bytes + kRoom - 1) / kRoom * kRoom + kRoom;
  DevicePointer pointer = next_address_;
  const auto again = std::find_if(freed_.rbegin(), freed_.rend(), [&](const auto& own) { return own.second == room; });
  if (again == freed_.rend()) {
    next_address_ += room;
  } else {
    pointer = again->first;
    freed_.erase(std::prev(again.base()));
  }
  memory[pointer] = {pointer + room, bytes, context};
  return pointer;
}

void World::free(DevicePointer pointer) {
  const auto own = memory.find(pointer);
  freed_.emplace_back(pointer, static_cast<std::size_t>(own->second.end - pointer));
  memory.erase(own);
}

const Context* World::context_of(std::uint64_t id) const {
  for (const auto& [handle, context] : contexts)
    if (context.id == id) return &context;
  return nullptr;
}

std::size_t World::bytes_of_device(int device) const {
  std::size_t bytes = 0;
  for (const auto& [pointer, own] : memory)
    if (context_of(own.context)->device == device) bytes += own.bytes;
  return bytes;
}

std::span<const Handle> stack() { return {current_contexts.data(), current_depth}; }

bool push(Handle context) {
  if (current_depth == current_contexts.size()) return false;
  current_contexts[current_depth++] = context;
  return true;
}

Handle pop() { return current_contexts[--current_depth]; }

const char* log_path() {
  const char* path = std::getenv("ASTATIDE_FAKE_LOG");
  return path == nullptr || *path == '\0' ? nullptr : path;
}

void record(const std::string& line) {
  const char* path = log_path();
  if (path == nullptr) return;
  if (std::FILE* file = std::fopen(path, "a")) {
    std::fputs((line + "\n").c_str(), file);
    std::fclose(file);
  }
}

Call::Call(const char* function) : world(the_world()), function_(function) {
  while (busy.test_and_set(std::memory_order_acquire)) ::sched_yield();
}

Call::~Call() { busy.clear(std::memory_order_release); }

DriverResult Call::fault(DriverResult result, const std::string& what) const {
  record("fault " + std::string(function_) + " " + std::to_string(static_cast<int>(result)) + ": " + what);
  return result;
}

std::string Call::name_of(std::uint64_t context) const {
  const Context* own = world.context_of(context);
  return own == nullptr ? "a context that is gone"
                        : "context " + std::to_string(own->id) + " of device " + std::to_string(own->device);
}

const Context* Call::current(DriverResult& result) const {
  if (stack().empty()) {
    result = fault(DriverResult::invalid_context, "no context is current");
    return nullptr;
  }
  const auto found = world.contexts.find(stack().back());
  if (found != world.contexts.end()) return &found->second;
  result = fault(kContextIsDestroyed, "the current context is gone");
  return nullptr;
}

Object* Call::own(Kind kind, Handle handle, DriverResult& result) const {
  static constexpr std::array kNames = {"module", "function", "stream", "event", "graph", "executable graph"};
  const std::string_view name = kNames[static_cast<std::size_t>(kind)];
  const Context* const context = current(result);
  if (context == nullptr) return nullptr;
  Object* const object = world.find(kind, handle);
  if (object != nullptr && object->context == context->id) return object;
  result = fault(kInvalidHandle, object == nullptr ? "no such " + std::string(name)
                                                   : "the " + std::string(name) + " is of " + name_of(object->context) +
                                                         ", current is " + name_of(context->id));
  return nullptr;
}

bool Call::takes_stream(Handle handle, DriverResult& result) const {
  return handle == 0 ? current(result) != nullptr : own(Kind::stream, handle, result) != nullptr;
}

bool Call::takes_memory(DevicePointer address, std::size_t bytes, DriverResult& result) const {
  const Context* const context = current(result);
  if (context == nullptr) return false;
  const auto* const found = world.memory_at(address);
  if (found == nullptr || bytes > found->first + found->second.bytes - address)
    return result = fault(DriverResult::invalid_value,
                          std::to_string(bytes) + " bytes at " + std::to_string(address) + " are not all memory"),
           false;
  if (found->second.context == context->id) return true;
  result = fault(DriverResult::invalid_value,
                 "memory of " + name_of(found->second.context) + ", current is " + name_of(context->id));
  return false;
}

}  // namespace fake
