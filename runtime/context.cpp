#include "runtime/context.h"

#include "compiler/support/diagnostic.h"

namespace astatide::runtime {
std::uint64_t Context::id_of(ContextHandle handle) {
  const auto ask = driver().api().ctx_get_id;
  unsigned long long id = 0;
  // Drivers before 12.0 have no ids; there the handle is the best name for a context.
  if (ask == nullptr || ask(handle, &id) != DriverResult::success) return reinterpret_cast<std::uintptr_t>(handle);
  return id;
}

Context Context::primary(int ordinal) {
  const Driver& cuda = driver();
  const DeviceFacts& device = cuda.device(ordinal);
  auto state = std::make_shared<State>();
  state->device = &device;
  cuda.check(cuda.api().primary_ctx_retain(&state->handle, ordinal), "retain the primary context of cuda:", ordinal);
  state->retained = true;
  state->id = id_of(state->handle);
  Context context;
  context.state_ = std::move(state);
  return context;
}

Context Context::current() {
  const Driver& cuda = driver();
  ContextHandle handle = nullptr;
  cuda.check(cuda.api().ctx_get_current(&handle), "ask for the current context");
  return handle == nullptr ? primary(0) : borrow(handle);
}

Context Context::borrow(ContextHandle handle) {
  if (handle == nullptr) throw UserError("the context that was given is null");
  const Driver& cuda = driver();
  auto state = std::make_shared<State>();
  state->handle = handle;
  state->device = &cuda.device(0);
  state->id = id_of(handle);
  Context context;
  context.state_ = state;
  // cuCtxGetDevice answers for the current context only.
  const ScopedCurrent scope(context);
  int ordinal = 0;
  cuda.check(cuda.api().ctx_get_device(&ordinal), "ask a context for its device");
  state->device = &cuda.device(ordinal);
  return context;
}

void Context::synchronize() const {
  const ScopedCurrent scope(*this);
  driver().check(driver().api().ctx_synchronize(), "wait for cuda:", device().ordinal);
}

Context::State::~State() {
  // At process end the driver may be gone already; there is nothing left to release then.
  if (retained) driver().api().primary_ctx_release(device->ordinal);
}

ScopedCurrent::ScopedCurrent(const Context& context) {
  const Driver& cuda = driver();
  ContextHandle former = nullptr;
  cuda.check(cuda.api().ctx_get_current(&former), "ask for the current context");
  if (former == context.handle()) return;
  cuda.check(cuda.api().ctx_push_current(context.handle()), "make the context of cuda:", context.device().ordinal,
             " current");
  pushed_ = true;
}

ScopedCurrent::~ScopedCurrent() {
  ContextHandle popped = nullptr;
  if (pushed_) driver().api().ctx_pop_current(&popped);
}

}  // namespace astatide::runtime
