// What the driver without a device knows: its devices, contexts, and what was made in each of them. Whoever uses a
// thing outside of the context that it belongs to gets the driver's error for it, and the log a line:
//
//   fault FUNCTION RESULT: what it was
//
// Where the driver's documentation leaves open whether a call works in another context, it does not here. A launch that
// reads memory of another context fails at once; on a device it would later.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/driver_api.h"
#include "tests/support/fake_cuda/cubin.h"

namespace fake {

using astatide::runtime::DevicePointer;
using astatide::runtime::DriverResult;

constexpr auto kInvalidHandle = static_cast<DriverResult>(400);
constexpr auto kIllegalAddress = static_cast<DriverResult>(700);
constexpr auto kContextIsDestroyed = static_cast<DriverResult>(709);

/// A handle's number. One of a thing that is gone is given to the next of its kind, in whatever context, as drivers do.
using Handle = std::uintptr_t;

template <class T>
Handle number_of(T* handle) {
  return reinterpret_cast<Handle>(handle);
}
template <class T>
void give(T** out, Handle number) {
  *out = reinterpret_cast<T*>(number);
}

struct Context {
  Handle handle = 0;
  std::uint64_t id = 0;  // never given again
  int device = 0;
  int retained = 0;  // of a primary one
};

enum class Kind { module, function, stream, event, graph, executable_graph };
constexpr int kKinds = 6;

struct Object {
  Kind kind = Kind::module;
  std::uint64_t context = 0;
  Cubin code;                             // of a module
  Handle module = 0;                      // of a function
  const Cubin::Kernel* kernel = nullptr;  // of a function
  int launches = -1;                      // of a graph; of the capture that a stream is in, -1: none
  bool recorded = false;                  // an event
  int number = 0;                         // of a stream in its context, from 1 on
};

struct Memory {
  DevicePointer end = 0;
  std::size_t bytes = 0;
  std::uint64_t context = 0;
};

/// As a kernel's parameter holds it.
struct MapBytes {
  static constexpr std::uint64_t kMagic = 0x70616d20656b6166;
  std::uint64_t magic = kMagic;
  DevicePointer address = 0;
  std::array<std::uint64_t, 14> hash{};
};
static_assert(sizeof(MapBytes) == 128);

class World {
 public:
  World();

  std::vector<int> capabilities;  // of the devices
  bool trusts = false;            // ASTATIDE_FAKE_TRUSTS: launches are not looked at, which takes a time of its own
  std::map<Handle, Context> contexts;
  std::map<Handle, Object> objects;
  std::map<DevicePointer, Memory> memory;

  enum class Makes { primary, own };
  Context& make_context(int device, Makes makes);
  Context* primary(int device);
  /// With all that was made in it.
  void destroy_context(const Context& context);
  Handle add(Object object);
  void remove(Handle handle);
  Object* find(Kind kind, Handle handle);
  /// The memory that an address lies in; null: none. Its end belongs to it, too: an empty tensor may lie there.
  const std::pair<const DevicePointer, Memory>* memory_at(DevicePointer address) const;
  /// What was freed last, by whatever device, or fresh addresses.
  DevicePointer allocate(std::size_t bytes, std::uint64_t context);
  void free(DevicePointer pointer);
  std::size_t bytes_of_device(int device) const;
  const Context* context_of(std::uint64_t id) const;

 private:
  std::uint64_t next_context_ = 1;
  std::array<Handle, kKinds> next_{};
  std::array<std::vector<Handle>, kKinds> gone_;
  DevicePointer next_address_ = 0;
  std::vector<std::pair<DevicePointer, std::size_t>> freed_;  // with the room
  std::map<std::uint64_t, int> streams_of_;                   // that a context has made
};

/// The contexts that were made current on this thread, the last behind.
std::span<const Handle> stack();
bool push(Handle context);  // false: the stack is full
Handle pop();

/// Where the log goes; null: nowhere, and nothing is put together for it. A launch allocates nothing then.
const char* log_path();
void record(const std::string& line);

/// One call of the driver: the world is its own meanwhile, by a lock that nobody counts.
class Call {
 public:
  explicit Call(const char* function);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  World& world;

  DriverResult fault(DriverResult result, const std::string& what) const;
  /// The current context. Null is a fault, which `result` then has.
  const Context* current(DriverResult& result) const;
  /// A thing of the current context. Null is a fault, as above.
  Object* own(Kind kind, Handle handle, DriverResult& result) const;
  /// A stream that a call for the current context may go into; 0 is its default one.
  bool takes_stream(Handle handle, DriverResult& result) const;
  /// Memory of the current context, all of it.
  bool takes_memory(DevicePointer address, std::size_t bytes, DriverResult& result) const;
  std::string name_of(std::uint64_t context) const;

 private:
  const char* function_;
};

}  // namespace fake
