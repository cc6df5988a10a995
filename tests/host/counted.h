// Counts what a thread allocates, and the locks that it takes: the program's own operator new and pthread_mutex_lock,
// which libraries that it loads use too. Included once in a program.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace astatide::testing {

struct Counted {
  std::size_t allocations = 0;
  std::size_t locks = 0;  // 0 where locks can't be counted: see counts_locks
};

}  // namespace astatide::testing

#ifdef __SANITIZE_THREAD__
#define ASTATIDE_COUNTS_LOCKS 0
#else
#define ASTATIDE_COUNTS_LOCKS 1
#endif

namespace {

thread_local astatide::testing::Counted counted;

void* allocate(std::size_t bytes, std::size_t alignment) {
  ++counted.allocations;
  if (bytes == 0) bytes = 1;
  return alignment == 0 ? std::malloc(bytes)
                        : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* memory = allocate(bytes, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, 0); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t to) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(to));
}
void* operator new[](std::size_t bytes, std::align_val_t to) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(to));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 0); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, 0); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

#if ASTATIDE_COUNTS_LOCKS
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto lock = reinterpret_cast<Lock>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++counted.locks;
  return lock(mutex);
}
#endif

namespace astatide::testing {

/// Of this thread, since it began.
inline Counted counted_so_far() { return counted; }

/// Whether locks are counted: the thread sanitizer has to see them first.
inline bool counts_locks() { return ASTATIDE_COUNTS_LOCKS != 0; }

/// What `act` does on this thread.
template <class Act>
Counted counted_in(const Act& act) {
  const Counted before = counted_so_far();
  act();
  const Counted after = counted_so_far();
  return {after.allocations - before.allocations, after.locks - before.locks};
}

}  // namespace astatide::testing
