// The host device: an accelerator modelled on one CPU core. Each queue is a thread that takes work in order; memory is one
// mapping of fixed size; copies are copies.
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "kernels/arena.hpp"
#include "kernels/devices.hpp"
#include "kernels/host/training.hpp"

namespace misfire {
namespace {

/// What an event and the queues that it was recorded in or that wait for it share.
struct EventState {
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::uint64_t recorded = 0, reached = 0;  // how often
  std::int64_t reached_ns = 0;
  std::exception_ptr failure;  // of work before it

  void wait_for(std::uint64_t generation) const {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached >= generation; });
  }
};

class HostEvent final : public DeviceEvent {
 public:
  bool reached() const override {
    const std::lock_guard lock(state->mutex);
    return state->reached >= state->recorded;
  }
  void wait() const override {
    std::unique_lock lock(state->mutex);
    const std::uint64_t generation = state->recorded;
    state->changed.wait(lock, [&] { return state->reached >= generation; });
    if (state->failure) std::rethrow_exception(state->failure);
  }
  Duration since(const DeviceEvent& earlier) const override {
    const auto time = [](const HostEvent& event) {
      const std::lock_guard lock(event.state->mutex);
      if (event.state->reached == 0 || event.state->reached < event.state->recorded) {
        throw Error(ErrorCode::internal, "device 'host': time asked of an event that was not reached");
      }
      return event.state->reached_ns;
    };
    return Duration(time(*this) - time(dynamic_cast<const HostEvent&>(earlier)));
  }

  const std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

class HostQueue final : public DeviceQueue {
 public:
  HostQueue(std::optional<int> cpu, Recorder* recorder) {
    // Signals are for the threads of the program, not for the device.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this, cpu, recorder] { run(cpu, recorder); });
    } catch (const std::system_error& error) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw system_error("start a thread for", "device 'host'", error.code().value());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~HostQueue() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    arrived_.notify_one();
    thread_.join();
  }

  void copy_in(const DeviceMemory& to, std::span<const std::byte> from) override {
    check_size("copy in", from.size(), to.size());
    put({[to, from] { std::memcpy(to.data(), from.data(), from.size()); }});
  }
  void copy_out(std::span<std::byte> to, const DeviceMemory& from) override {
    check_size("copy out", to.size(), from.size());
    put({[to, from] { std::memcpy(to.data(), from.data(), to.size()); }});
  }
  void call(std::function<void()> function) override { put({std::move(function)}); }
  void begin(const Site& site, std::uint32_t tag) override {
    put({[this, site, tag] { lane_.begin(site, tag); }});
  }
  void end(const Site& site, std::uint32_t tag) override {
    put({[this, site, tag] { lane_.end(site, tag); }});
  }

  void record(DeviceEvent& event) override {
    auto state = dynamic_cast<HostEvent&>(event).state;
    std::uint64_t generation = 0;
    {
      const std::lock_guard lock(state->mutex);
      generation = ++state->recorded;
    }
    // Reached even after a failure, so that nobody waits for ever; the failure goes with it.
    put({[this, state, generation] {
           const std::lock_guard lock(state->mutex);
           if (generation > state->reached) {
             state->reached = generation;
             state->reached_ns = monotonic_ns();
           }
           state->failure = failure_;
           state->changed.notify_all();
         },
         true});
  }

  void wait(const DeviceEvent& event) override {
    auto state = dynamic_cast<const HostEvent&>(event).state;
    std::uint64_t generation = 0;
    {
      const std::lock_guard lock(state->mutex);
      generation = state->recorded;
    }
    put({[state, generation] { state->wait_for(generation); }});
  }

  void synchronize() override {
    HostEvent event;
    record(event);
    event.wait();
  }

 private:
  struct Task {
    std::function<void()> work;
    bool always = false;  // also after a failure
  };

  static void check_size(const char* what, std::uint64_t wanted, std::uint64_t there) {
    if (wanted <= there) return;
    throw Error(ErrorCode::invalid_input, std::string("device 'host': ") + what + ": " + std::to_string(wanted) +
                                              " bytes, but the device memory has " + std::to_string(there));
  }

  void put(Task task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    arrived_.notify_one();
  }

  void run(std::optional<int> cpu, Recorder* recorder) {
    pthread_setname_np(pthread_self(), "misfire-device");
    if (cpu) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<std::size_t>(*cpu), &set);
      if (const int error = pthread_setaffinity_np(pthread_self(), sizeof set, &set)) {
        failure_ = std::make_exception_ptr(system_error("bind device 'host' to CPU", std::to_string(*cpu), error));
      }
    }
    if (recorder) lane_ = recorder->claim_lane();
    std::unique_lock lock(mutex_);
    for (;;) {
      arrived_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!failure_ || task.always) {
        try {
          task.work();
        } catch (...) {
          failure_ = std::current_exception();
        }
      }
      task = {};  // what it held is given back here, not under the lock
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Task> tasks_;
  bool closing_ = false;
  std::exception_ptr failure_;  // the thread's own
  Lane lane_;                   // the thread's own
  std::thread thread_;
};

class HostTrainingStep final : public TrainingStep {
 public:
  HostTrainingStep(Device& device, const TrainingShape& shape, Seed seed) : shape_(shape) {
    training::check_shape(shape);
    const training::Layout layout(shape);
    memory_ = device.allocate(layout.total * sizeof(float));
    const std::vector<float> first = training::first_parameters(shape, seed);
    std::memcpy(memory_.data(), first.data(), first.size() * sizeof(float));
    std::memset(memory_.as<float>() + first.size(), 0, (layout.total - first.size()) * sizeof(float));
    model_ = training::model_at(shape, memory_.as<float>());
  }

  const TrainingShape& shape() const noexcept override { return shape_; }

  void enqueue(DeviceQueue& queue, const DeviceMemory& images, std::span<const std::int32_t> labels) override {
    training::check_labels(shape_, labels);
    const auto bytes = static_cast<std::uint64_t>(shape_.batch) * static_cast<std::uint64_t>(shape_.height) *
                       static_cast<std::uint64_t>(shape_.width) * 3;
    if (images.size() < bytes) {
      throw Error(ErrorCode::invalid_input,
                  "training step: " + std::to_string(images.size()) + " bytes of images, the batch has " + std::to_string(bytes));
    }
    queue.call([memory = memory_, model = model_, images, wanted = std::vector<std::int32_t>(labels.begin(), labels.end())] {
      training::forward(model, images.as<std::uint8_t>(), wanted.data());
      training::backward_and_update(model);
    });
  }

  float loss() const override {
    double sum = 0;
    for (int n = 0; n < shape_.batch; ++n) sum += static_cast<double>(model_.losses[n]);
    return static_cast<float>(sum / shape_.batch);
  }

  std::vector<float> parameters() const override {
    const float* const begin = memory_.as<float>();
    return {begin, begin + training::Layout(shape_).parameters()};
  }

 private:
  TrainingShape shape_;
  DeviceMemory memory_;
  training::Model<float> model_;
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(const DeviceOptions& options) : recorder_(options.recorder) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
      throw system_error("read the CPUs allowed to", "this process", errno);
    if (options.cpu == DeviceOptions::cpu_last) {
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) cpu_ = cpu;
      }
    } else if (options.cpu != DeviceOptions::cpu_any) {
      if (options.cpu < 0 || options.cpu >= CPU_SETSIZE || !CPU_ISSET(static_cast<std::size_t>(options.cpu), &allowed)) {
        throw Error(ErrorCode::unsupported,
                    "device 'host': CPU " + std::to_string(options.cpu) + " is not one that this process may run on");
      }
      cpu_ = options.cpu;
    }
    const std::uint64_t bytes = options.memory_bytes;
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw system_error("map " + std::to_string(bytes) + " bytes as memory of", "device 'host'", errno);
    arena_ =
        Arena::make("device 'host'", static_cast<std::byte*>(memory), bytes, [bytes](std::byte* at) { ::munmap(at, bytes); });
  }

  std::string_view name() const noexcept override { return "host"; }
  std::string description() const override { return cpu_ ? "host CPU " + std::to_string(*cpu_) : "host, any CPU"; }
  std::uint64_t memory_bytes() const noexcept override { return arena_->bytes(); }
  std::uint64_t memory_used() const noexcept override { return arena_->used(); }
  DeviceMemory allocate(std::uint64_t bytes) override { return arena_->allocate(bytes); }
  DeviceMemory allocate_staging(std::uint64_t bytes) override {
    constexpr std::uint64_t page = 4096;
    if (bytes > (1ULL << 46))
      throw Error(ErrorCode::no_space, "staging memory of " + std::to_string(bytes) + " bytes cannot be had");
    auto* const memory =
        static_cast<std::byte*>(std::aligned_alloc(page, (bytes + page - 1) / page * page + (bytes == 0 ? page : 0)));
    if (!memory) throw Error(ErrorCode::no_space, "staging memory of " + std::to_string(bytes) + " bytes cannot be had");
    return {std::shared_ptr<std::byte>(memory, [](std::byte* at) { std::free(at); }), bytes};
  }
  std::shared_ptr<void> pin(std::span<std::byte> memory) override {
    // The device reads all memory of the process: the handle only keeps the promise's form.
    return std::shared_ptr<void>(memory.data(), [](void*) {});
  }
  std::unique_ptr<DeviceQueue> make_queue() override { return std::make_unique<HostQueue>(cpu_, recorder_); }
  std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<HostEvent>(); }
  std::unique_ptr<TrainingStep> make_training_step(const TrainingShape& shape, Seed seed) override {
    return std::make_unique<HostTrainingStep>(*this, shape, seed);
  }

 private:
  std::optional<int> cpu_;
  Recorder* recorder_;
  std::shared_ptr<Arena> arena_;
};

}  // namespace

std::unique_ptr<Device> make_host_device(const DeviceOptions& options) { return std::make_unique<HostDevice>(options); }

}  // namespace misfire
