#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "runtime/driver.h"

namespace astatide::runtime {

/// A CUDA context to work in: a device's primary context, retained as long as a copy of this value lives, or a context
/// of the caller, which is used and never destroyed. Every call of this library leaves the thread's current context as
/// it found it.
class Context {
 public:
  /// The primary context of a device. Throws UserError when there is no such device, MachineError as driver() does.
  static Context primary(int ordinal);
  /// The caller's current context; without one, the primary context of device 0.
  static Context current();
  /// A context of the caller, who keeps it alive as long as anything that was made in it.
  static Context borrow(ContextHandle handle);

  ContextHandle handle() const { return state_->handle; }
  const DeviceFacts& device() const { return *state_->device; }
  /// Differs between any two contexts of a process, also where the driver reuses the handle of a destroyed one.
  std::uint64_t id() const { return state_->id; }
  static std::uint64_t id_of(ContextHandle handle);
  /// Whether it still exists. A context of the caller may be gone, and its handle be another's; drivers before 12.0
  /// don't tell.
  bool is_alive() const { return state_->retained || id_of(handle()) == id(); }
  /// Waits for all work in this context.
  void synchronize() const;

 private:
  Context() = default;

  struct State {
    ContextHandle handle = nullptr;
    const DeviceFacts* device = nullptr;
    std::uint64_t id = 0;
    bool retained = false;
    ~State();
  };

  std::shared_ptr<const State> state_;
};

/// Makes a context current on this thread, and the former one again at the end of the scope.
class ScopedCurrent {
 public:
  explicit ScopedCurrent(const Context& context);
  ~ScopedCurrent();
  ScopedCurrent(const ScopedCurrent&) = delete;
  ScopedCurrent& operator=(const ScopedCurrent&) = delete;

 private:
  bool pushed_ = false;
};

/// Lets go of what was made in a context. Where the context is gone, all in it is, too.
template <class Act>
void release_in(const Context& context, const Act& act) noexcept {
  try {
    if (!context.is_alive()) return;
    const ScopedCurrent scope(context);
    act();
  } catch (const std::exception&) {
    // A driver that does not tell, or that has shut down.
  }
}

}  // namespace astatide::runtime
