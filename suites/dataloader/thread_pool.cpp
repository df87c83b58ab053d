// Workers as threads of the consumer: no hand-over between processes, one address space.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "harness/error.hpp"
#include "suites/dataloader/pool.hpp"
#include "suites/dataloader/sites.hpp"

namespace misfire::dataloader {
namespace {

class ThreadPool : public WorkerPool {
 public:
  explicit ThreadPool(const PoolSetup& setup) : setup_(setup), queues_(static_cast<std::size_t>(setup.options.num_workers)) {}
  ~ThreadPool() override { ThreadPool::stop(); }

  void start() override {
    ThreadPool::stop();
    stopping_ = false;
    for (int worker = 0; worker < setup_.options.num_workers; ++worker) threads_.emplace_back([this, worker] { work(worker); });
  }
  void stop() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (auto& queue : queues_) queue.clear();
    }
    wake_workers_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    finished_.clear();
  }
  bool running() const override { return !threads_.empty(); }

  void send(int worker, const Task& task) override {
    {
      const std::lock_guard lock(mutex_);
      queues_[static_cast<std::size_t>(worker)].push_back(task);
    }
    wake_workers_.notify_all();
  }

  std::optional<Made> receive(Duration timeout) override {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return !finished_.empty(); };
    if (timeout < Duration::zero())
      wake_consumer_.wait(lock, ready);
    else if (!wake_consumer_.wait_for(lock, timeout, ready))
      return std::nullopt;
    Made made = std::move(finished_.front());
    finished_.pop_front();
    return made;
  }

 private:
  void work(int worker) {
    Lane lane = setup_.recorder.claim_lane();
    std::string trouble;
    try {
      place_worker(setup_.options, setup_.topology.get(), worker);
      setup_.dataset.on_worker_start(worker);
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    lane.mark(site::worker_start, static_cast<std::uint32_t>(worker));
    BatchMaker maker(setup_.dataset, setup_.options, worker, setup_.seed, lane, nullptr);
    auto& queue = queues_[static_cast<std::size_t>(worker)];
    for (;;) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        wake_workers_.wait(lock, [&] { return stopping_ || !queue.empty(); });
        if (stopping_) break;
        task = std::move(queue.front());
        queue.pop_front();
      }
      Made made = trouble.empty() ? maker.make(task, setup_.memory_of(task)) : could_not_start(task, worker, trouble);
      {
        const std::lock_guard lock(mutex_);
        finished_.push_back(std::move(made));
      }
      wake_consumer_.notify_one();
    }
    lane.mark(site::worker_stop, static_cast<std::uint32_t>(worker));
  }

  PoolSetup setup_;
  std::mutex mutex_;
  std::condition_variable wake_workers_, wake_consumer_;
  std::vector<std::deque<Task>> queues_;
  std::deque<Made> finished_;
  std::vector<std::thread> threads_;
  bool stopping_ = false;
};

}  // namespace

std::unique_ptr<WorkerPool> make_thread_pool(const PoolSetup& setup) { return std::make_unique<ThreadPool>(setup); }

}  // namespace misfire::dataloader
