#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/recorder.hpp"
#include "harness/seed.hpp"
#include "harness/unit.hpp"

// Accelerators: a bounded memory of their own, in-order queues of work that run beside the caller, events between them.
//
// `host` models one on a CPU core: each queue is a thread, memory is an arena of fixed size, copies are real. It does the same
// arithmetic as `cuda`. It does not model a GPU's speed, its many streams' sharing of one engine, or unified memory.
namespace misfire {

struct DeviceOptions {
  static constexpr int cpu_any = -1;   ///< leave the queues' threads where the scheduler puts them
  static constexpr int cpu_last = -2;  ///< the highest CPU that this process may run on

  std::uint64_t memory_bytes = 256ULL << 20;  ///< size of the arena
  int cpu = cpu_last;                         ///< host: CPU that the queues' threads are bound to
  int index = 0;                              ///< cuda: which GPU
  Recorder* recorder = nullptr;               ///< where queues stamp begin and end; must outlive the device
};

/// Memory of a device (a device address) or memory of the host that a device copies from and to without staging it again.
/// Returned to where it came from when the last copy of the handle dies; must not outlive the device.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::shared_ptr<std::byte> data, std::uint64_t size) : data_(std::move(data)), size_(size) {}
  std::byte* data() const noexcept { return data_.get(); }
  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data_.get());
  }
  std::uint64_t size() const noexcept { return size_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  std::shared_ptr<std::byte> data_;
  std::uint64_t size_ = 0;
};

/// A point in a queue. May be recorded again; each record replaces the last. An event never recorded counts as reached.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  virtual bool reached() const = 0;
  /// Blocks the caller until reached. @throws Error{internal, io} when work before it failed
  virtual void wait() const = 0;
  /// Time from `earlier` to this event, on the device's clock; both must have been reached.
  virtual Duration since(const DeviceEvent& earlier) const = 0;
};

/// Work in order, beside the caller. Every call but synchronize returns at once; memory named in it must live until it is done.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;                                                   ///< waits for the work in it
  virtual void copy_in(const DeviceMemory& to, std::span<const std::byte> from) = 0;  ///< host to device, to its beginning
  virtual void copy_out(std::span<std::byte> to, const DeviceMemory& from) = 0;       ///< device to host, to.size() bytes
  virtual void record(DeviceEvent& event) = 0;
  virtual void wait(const DeviceEvent& event) = 0;        ///< later work of this queue waits for what was last recorded there
  virtual void call(std::function<void()> function) = 0;  ///< runs on a thread of the device, in order; no device calls in it
  virtual void begin(const Site& site, std::uint32_t tag) = 0;  ///< stamps when reached, in the queue's own lane
  virtual void end(const Site& site, std::uint32_t tag) = 0;
  /// Blocks until all work is done. @throws Error when any of it failed (the first failure; later work was dropped)
  virtual void synchronize() = 0;
};

/// Shape of the model and of its input.
struct TrainingShape {
  int batch = 32;
  int height = 224, width = 224;  ///< of the images, which are u8 [batch, height, width, 3]
  int patch = 16;                 ///< side of the squares averaged into one feature a channel; divides height and width
  int hidden = 256;               ///< width of the hidden layer: sets the cost of a step
  int classes = 10;
  double learning_rate = 0.05;
  int features() const noexcept { return height / patch * (width / patch) * 3; }
};

/// Training of a two-layer perceptron with real arithmetic: normalise, average patches, linear, rectifier, linear, softmax
/// cross-entropy, backward, gradient descent. Owns its parameters on the device.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;
  virtual const TrainingShape& shape() const noexcept = 0;
  /// Puts one step into a queue of the same device.
  /// @param images  on the device, u8 [batch, height, width, 3]
  /// @param labels  [batch], each in [0, classes); copied before the call returns
  /// @throws Error{invalid_input} for a wrong size or label
  virtual void enqueue(DeviceQueue& queue, const DeviceMemory& images, std::span<const std::int32_t> labels) = 0;
  /// Mean loss of the last step that was done, before its update. Synchronize first.
  virtual float loss() const = 0;
  /// Parameters, in order [features, hidden], [hidden], [classes, hidden], [classes]. Synchronize first.
  virtual std::vector<float> parameters() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const noexcept = 0;  ///< "host", "cuda"
  virtual std::string description() const = 0;         ///< for people: "host CPU 1", "NVIDIA H200 (GPU 0)"
  virtual std::uint64_t memory_bytes() const noexcept = 0;
  virtual std::uint64_t memory_used() const noexcept = 0;
  /// Memory of the device, aligned to 256 bytes. @throws Error{no_space} with what was asked, what is used and what is there
  virtual DeviceMemory allocate(std::uint64_t bytes) = 0;
  /// Memory of the host that the device reaches by itself (pinned).
  virtual DeviceMemory allocate_staging(std::uint64_t bytes) = 0;
  /// Pins memory that exists already (a batch in shared memory) for as long as the handle lives.
  virtual std::shared_ptr<void> pin(std::span<std::byte> memory) = 0;
  virtual std::unique_ptr<DeviceQueue> make_queue() = 0;
  virtual std::unique_ptr<DeviceEvent> make_event() = 0;
  virtual std::unique_ptr<TrainingStep> make_training_step(const TrainingShape& shape, Seed seed) = 0;
};

}  // namespace misfire
