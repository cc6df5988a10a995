#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace astatide::runtime {

/// A few values that threads lend from each other, one thread a value at a time. Nobody waits: who finds none free that
/// suits makes one of its own and leaves it here, in place of one that nobody has lent just now. Thread-safe.
template <class T>
class Slots {
 public:
  static constexpr std::size_t kSlots = 16;

  /// A value that is this thread's until the loan ends.
  class Loan {
   public:
    Loan() = default;
    Loan(Loan&& other) noexcept
        : busy_(std::exchange(other.busy_, nullptr)), value_(std::exchange(other.value_, nullptr)) {}
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (busy_ != nullptr) busy_->store(false, std::memory_order_release);
    }
    explicit operator bool() const { return value_ != nullptr; }
    T* operator->() const { return value_; }
    T& operator*() const { return *value_; }

   private:
    friend class Slots;
    Loan(std::atomic<bool>& busy, T* value) : busy_(&busy), value_(value) {}

    std::atomic<bool>* busy_ = nullptr;
    T* value_ = nullptr;
  };

  /// One that was kept under `hash` and that `suits` takes; none where there is none or all such are lent.
  template <class Suits>
  Loan find(std::uint64_t hash, const Suits& suits) {
    for (Slot& slot : slots_) {
      if (slot.hash.load(std::memory_order_relaxed) != hash || !slot.take()) continue;
      Loan loan(slot.busy, slot.value.get());
      if (slot.value != nullptr && suits(*slot.value)) return loan;
    }
    return {};
  }

  /// Leaves a value for others; it dies where all slots are lent.
  void keep(std::uint64_t hash, std::unique_ptr<T> value) {
    for (std::size_t n = 0; n < kSlots; ++n) {
      Slot& slot = slots_[next_.fetch_add(1, std::memory_order_relaxed) % kSlots];
      if (!slot.take()) continue;
      slot.value.swap(value);
      slot.hash.store(hash, std::memory_order_relaxed);
      slot.busy.store(false, std::memory_order_release);
      return;
    }
  }

 private:
  struct Slot {
    std::atomic<bool> busy{false};  // whose holder alone sees `value`
    std::atomic<std::uint64_t> hash{0};
    std::unique_ptr<T> value;

    bool take() { return !busy.load(std::memory_order_relaxed) && !busy.exchange(true, std::memory_order_acquire); }
  };

  std::array<Slot, kSlots> slots_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace astatide::runtime
