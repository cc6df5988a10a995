#include "runtime/thread_pool.h"

#include <algorithm>
#include <atomic>

#ifdef __linux__
#include <sched.h>
#endif

namespace astatide::runtime {
namespace {

int processors_of_this_process() {
#ifdef __linux__
  // A container or taskset may leave fewer processors than the machine has.
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

struct ThreadPool::Job {
  std::int64_t count, chunk;
  RangeBody body;
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;  // guards the exception
  std::exception_ptr failure;
};

ThreadPool::ThreadPool(int threads, int limit) {
  int workers = threads > 0 ? threads : processors_of_this_process();
  if (threads <= 0 && limit > 0) workers = std::min(workers, limit);
  for (int worker = 1; worker < workers; ++worker) threads_.emplace_back([this, worker] { run(worker); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::work(Job& job, int worker) {
  try {
    for (;;) {
      const std::int64_t begin = job.next.fetch_add(job.chunk, std::memory_order_relaxed);
      if (begin >= job.count) return;
      job.body(worker, begin, std::min(begin + job.chunk, job.count));
    }
  } catch (...) {
    job.next.store(job.count);
    const std::lock_guard lock(job.mutex);
    if (!job.failure) job.failure = std::current_exception();
  }
}

void ThreadPool::run(int worker) {
  std::uint64_t seen = 0;
  for (;;) {
    Job* job = nullptr;
    {
      std::unique_lock lock(mutex_);
      started_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
      job = job_;
    }
    work(*job, worker);
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) finished_.notify_one();
  }
}

void ThreadPool::for_each_range(std::int64_t count, std::int64_t chunk, RangeBody body) {
  if (count <= 0) return;
  const std::lock_guard call(call_);
  Job job{count, std::max<std::int64_t>(1, chunk), body, {}, {}, {}};
  const bool alone = threads_.empty() || job.chunk >= count;
  if (!alone) {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    running_ = static_cast<int>(threads_.size());
    ++generation_;
  }
  if (!alone) started_.notify_all();
  work(job, 0);
  if (!alone) {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return running_ == 0; });
    job_ = nullptr;
  }
  if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace astatide::runtime
