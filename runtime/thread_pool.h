#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace astatide::runtime {

/// Names a callable of someone who outlives the call; nothing is copied or allocated.
class RangeBody {
 public:
  template <class Body>
  RangeBody(const Body& body)
      : body_(&body), call_([](const void* self, int worker, std::int64_t begin, std::int64_t end) {
          (*static_cast<const Body*>(self))(worker, begin, end);
        }) {}
  void operator()(int worker, std::int64_t begin, std::int64_t end) const { call_(body_, worker, begin, end); }

 private:
  const void* body_;
  void (*call_)(const void*, int, std::int64_t, std::int64_t);
};

/// Threads that share out ranges of numbers. The caller is worker 0.
class ThreadPool {
 public:
  /// `threads` workers in all, at least one; 0: as many as the process may run on, or `limit` where that is less (0:
  /// none).
  explicit ThreadPool(int threads = 0, int limit = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int workers() const { return static_cast<int>(threads_.size()) + 1; }

  /// Calls body(int worker, std::int64_t begin, std::int64_t end) for consecutive ranges that cover 0 .. count-1, at
  /// most `chunk` long. A worker takes the next range when it is done with its last, so ranges of unequal cost balance.
  /// Returns when all are done; the first exception passes. Calls from several threads take turns; a body must not
  /// call.
  void for_each_range(std::int64_t count, std::int64_t chunk, RangeBody body);

 private:
  struct Job;
  void run(int worker);
  static void work(Job& job, int worker);

  std::vector<std::thread> threads_;
  std::mutex call_;   // one call at a time
  std::mutex mutex_;  // guards what follows
  std::condition_variable started_, finished_;
  Job* job_ = nullptr;
  std::uint64_t generation_ = 0;
  int running_ = 0;
  bool stopping_ = false;
};

}  // namespace astatide::runtime
