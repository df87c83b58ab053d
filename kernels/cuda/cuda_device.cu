// NVIDIA GPUs through the CUDA runtime. Arithmetic is kernels/shared/, one thread to each output value: simple rather than fast,
// so that its results are the host device's. Make the device after the last fork: a CUDA context does not survive one.
#include <cuda_runtime.h>

#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "harness/error.hpp"
#include "kernels/arena.hpp"
#include "kernels/devices.hpp"
#include "kernels/host/training.hpp"
#include "kernels/shared/training.hpp"

namespace misfire {
namespace {

void check(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return;
  ErrorCode code = ErrorCode::io;
  if (status == cudaErrorMemoryAllocation) code = ErrorCode::no_space;
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver || status == cudaErrorInvalidDevice ||
      status == cudaErrorNoKernelImageForDevice || status == cudaErrorSystemDriverMismatch) {
    code = ErrorCode::unsupported;
  }
  throw Error(code, "device 'cuda': " + what + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

class CudaEvent final : public DeviceEvent {
 public:
  explicit CudaEvent(int device) : device_(device) {
    check(cudaSetDevice(device_), "choose the GPU");
    check(cudaEventCreateWithFlags(&event, cudaEventBlockingSync), "create an event");
  }
  ~CudaEvent() override { cudaEventDestroy(event); }
  bool reached() const override {
    const cudaError_t status = cudaEventQuery(event);
    if (status == cudaErrorNotReady) return false;
    check(status, "ask for an event");
    return true;
  }
  void wait() const override { check(cudaEventSynchronize(event), "wait for an event"); }
  Duration since(const DeviceEvent& earlier) const override {
    float milliseconds = 0;
    const cudaError_t status = cudaEventElapsedTime(&milliseconds, dynamic_cast<const CudaEvent&>(earlier).event, event);
    if (status == cudaErrorNotReady || status == cudaErrorInvalidResourceHandle) {
      throw Error(ErrorCode::internal, "device 'cuda': time asked of an event that was not reached");
    }
    check(status, "read the time between events");
    return from_seconds(static_cast<double>(milliseconds) * 1e-3);
  }

  cudaEvent_t event = nullptr;

 private:
  int device_;
};

class CudaQueue final : public DeviceQueue {
 public:
  CudaQueue(int device, Recorder* recorder) : device_(device), recorder_(recorder) {
    check(cudaSetDevice(device_), "choose the GPU");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream");
  }
  ~CudaQueue() override {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }

  void copy_in(const DeviceMemory& to, std::span<const std::byte> from) override {
    check_size("copy in", from.size(), to.size());
    check(cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyHostToDevice, stream), "copy to the GPU");
  }
  void copy_out(std::span<std::byte> to, const DeviceMemory& from) override {
    check_size("copy out", to.size(), from.size());
    check(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDeviceToHost, stream), "copy from the GPU");
  }
  void record(DeviceEvent& event) override {
    check(cudaEventRecord(dynamic_cast<CudaEvent&>(event).event, stream), "record an event");
  }
  void wait(const DeviceEvent& event) override {
    check(cudaStreamWaitEvent(stream, dynamic_cast<const CudaEvent&>(event).event, 0), "wait for an event in a stream");
  }
  void call(std::function<void()> function) override {
    auto task = std::make_unique<Task>(Task{*this, std::move(function)});
    check(cudaLaunchHostFunc(stream, run_task, task.get()), "call a host function in a stream");
    task.release();  // run_task owns it
  }
  void begin(const Site& site, std::uint32_t tag) override {
    if (recorder_) call([this, site, tag] { lane().begin(site, tag); });
  }
  void end(const Site& site, std::uint32_t tag) override {
    if (recorder_) call([this, site, tag] { lane().end(site, tag); });
  }
  void synchronize() override {
    check(cudaStreamSynchronize(stream), "work in a stream");
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

  cudaStream_t stream = nullptr;

 private:
  struct Task {
    CudaQueue& queue;
    std::function<void()> function;
  };

  // On a thread of the driver, which must not see an exception.
  static void CUDART_CB run_task(void* pointer) {
    const std::unique_ptr<Task> task(static_cast<Task*>(pointer));
    try {
      task->function();
    } catch (...) {
      const std::lock_guard lock(task->queue.mutex_);
      if (!task->queue.failure_) task->queue.failure_ = std::current_exception();
    }
  }

  // Claimed by the thread that stamps.
  Lane& lane() {
    if (!claimed_) {
      lane_ = recorder_->claim_lane();
      claimed_ = true;
    }
    return lane_;
  }

  static void check_size(const char* what, std::uint64_t wanted, std::uint64_t there) {
    if (wanted <= there) return;
    throw Error(ErrorCode::invalid_input, std::string("device 'cuda': ") + what + ": " + std::to_string(wanted) +
                                              " bytes, but the device memory has " + std::to_string(there));
  }

  int device_;
  Recorder* recorder_;
  bool claimed_ = false;
  Lane lane_;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

using training::Model;

__global__ void extract_features(Model<float> m, const std::uint8_t* images) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= static_cast<long long>(m.batch) * m.features) return;
  const int n = static_cast<int>(at / m.features), f = static_cast<int>(at % m.features);
  const int across = m.width / m.patch, channel = f % 3, px = f / 3 % across, py = f / 3 / across;
  const std::uint8_t* row =
      images + ((static_cast<long long>(n) * m.height + py * m.patch) * m.width + px * m.patch) * 3 + channel;
  std::uint32_t sum = 0;
  for (int y = 0; y < m.patch; ++y, row += static_cast<long long>(m.width) * 3) {
    for (int x = 0; x < m.patch; ++x) sum += row[x * 3];
  }
  m.x[at] = training::feature<float>(sum, m.patch, channel);
}

template <class P>
__global__ void run_product(P product) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x),
            row = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (column < product.columns && row < product.rows) training::tile<1, float>(product, row, column);
}

__global__ void run_logits(Model<float> m) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < m.batch * m.classes) m.gradient_l[at] = training::logit<float>(m, at / m.classes, at % m.classes);
}

__global__ void run_loss(Model<float> m, const std::int32_t* labels) {  // labels: [batch]
  const int n = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (n < m.batch) training::softmax_cross_entropy(m, n, labels[n]);
}

__global__ void run_update_bias(float* bias, const float* gradient, int batch, int columns, float learning_rate) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column < columns) training::update_bias(bias, gradient, batch, columns, column, learning_rate);
}

constexpr unsigned threads = 128;
unsigned blocks(long long count) { return static_cast<unsigned>((count + threads - 1) / threads); }

template <class P>
void launch(const P& product, cudaStream_t stream, const char* what) {
  const dim3 block(64, 4),
      grid((static_cast<unsigned>(product.columns) + 63) / 64, (static_cast<unsigned>(product.rows) + 3) / 4);
  run_product<<<grid, block, 0, stream>>>(product);
  check(cudaGetLastError(), what);
}

class CudaTrainingStep final : public TrainingStep {
 public:
  CudaTrainingStep(Device& device, int index, const TrainingShape& shape, Seed seed) : shape_(shape), device_(index) {
    training::check_shape(shape);
    const training::Layout layout(shape);
    memory_ = device.allocate(layout.total * sizeof(float));
    labels_ = device.allocate(static_cast<std::uint64_t>(shape.batch) * sizeof(std::int32_t));
    const std::vector<float> first = training::first_parameters(shape, seed);
    check(cudaMemcpy(memory_.data(), first.data(), first.size() * sizeof(float), cudaMemcpyHostToDevice),
          "copy parameters to the GPU");
    model_ = training::model_at(shape, memory_.as<float>());
  }
  ~CudaTrainingStep() override {
    for (Slot& slot : slots_) {
      cudaEventSynchronize(slot.read);
      cudaEventDestroy(slot.read);
      cudaFreeHost(slot.labels);
    }
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
    check(cudaSetDevice(device_), "choose the GPU");
    const cudaStream_t stream = dynamic_cast<CudaQueue&>(queue).stream;
    Slot& slot = free_slot();
    std::copy(labels.begin(), labels.end(), slot.labels);
    check(cudaMemcpyAsync(labels_.data(), slot.labels, labels.size_bytes(), cudaMemcpyHostToDevice, stream),
          "copy labels to the GPU");
    check(cudaEventRecord(slot.read, stream), "record an event");

    const Model<float>& m = model_;
    extract_features<<<blocks(static_cast<long long>(m.batch) * m.features), threads, 0, stream>>>(m, images.as<std::uint8_t>());
    check(cudaGetLastError(), "extract features");
    launch(training::ForwardHidden<float>(m), stream, "forward, hidden layer");
    run_logits<<<blocks(static_cast<long long>(m.batch) * m.classes), threads, 0, stream>>>(m);
    check(cudaGetLastError(), "forward, logits");
    run_loss<<<blocks(m.batch), threads, 0, stream>>>(m, labels_.as<std::int32_t>());
    check(cudaGetLastError(), "loss");
    launch(training::BackwardHidden<float>(m), stream, "backward, hidden layer");
    launch(training::update_w2(m), stream, "update of the output weights");
    launch(training::update_w1(m), stream, "update of the hidden weights");
    run_update_bias<<<blocks(m.hidden), threads, 0, stream>>>(m.b1, m.gradient_h, m.batch, m.hidden, m.learning_rate);
    check(cudaGetLastError(), "update of the hidden biases");
    run_update_bias<<<blocks(m.classes), threads, 0, stream>>>(m.b2, m.gradient_l, m.batch, m.classes, m.learning_rate);
    check(cudaGetLastError(), "update of the output biases");
  }

  float loss() const override {
    std::vector<float> losses(static_cast<std::size_t>(shape_.batch));
    check(cudaMemcpy(losses.data(), model_.losses, losses.size() * sizeof(float), cudaMemcpyDeviceToHost), "read the loss");
    double sum = 0;
    for (const float loss : losses) sum += static_cast<double>(loss);
    return static_cast<float>(sum / shape_.batch);
  }

  std::vector<float> parameters() const override {
    std::vector<float> values(training::Layout(shape_).parameters());
    check(cudaMemcpy(values.data(), memory_.data(), values.size() * sizeof(float), cudaMemcpyDeviceToHost),
          "read the parameters");
    return values;
  }

 private:
  // Labels on their way: pinned, so that copying them does not wait for the stream.
  struct Slot {
    std::int32_t* labels = nullptr;
    cudaEvent_t read = nullptr;
  };

  Slot& free_slot() {
    for (Slot& slot : slots_) {
      if (cudaEventQuery(slot.read) == cudaSuccess) return slot;
    }
    Slot slot;
    check(cudaMallocHost(reinterpret_cast<void**>(&slot.labels), static_cast<std::size_t>(shape_.batch) * sizeof(std::int32_t)),
          "pin memory for labels");
    if (const cudaError_t status = cudaEventCreateWithFlags(&slot.read, cudaEventDisableTiming)) {
      cudaFreeHost(slot.labels);
      check(status, "create an event");
    }
    return slots_.emplace_back(slot);
  }

  TrainingShape shape_;
  int device_;
  DeviceMemory memory_, labels_;
  Model<float> model_;
  std::list<Slot> slots_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const DeviceOptions& options) : index_(options.index), recorder_(options.recorder) {
    int count = 0;
    check(cudaGetDeviceCount(&count), "look for GPUs");
    if (index_ < 0 || index_ >= count) {
      throw Error(ErrorCode::unsupported,
                  "device 'cuda': GPU " + std::to_string(index_) + " of " + std::to_string(count) + " asked for");
    }
    check(cudaSetDevice(index_), "choose GPU " + std::to_string(index_));
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index_), "read the properties of the GPU");
    description_ = std::string(properties.name) + " (GPU " + std::to_string(index_) + ")";
    void* memory = nullptr;
    check(cudaMalloc(&memory, options.memory_bytes), "allocate " + format_size(options.memory_bytes) + " as arena");
    arena_ =
        Arena::make("device 'cuda'", static_cast<std::byte*>(memory), options.memory_bytes, [](std::byte* at) { cudaFree(at); });
  }

  std::string_view name() const noexcept override { return "cuda"; }
  std::string description() const override { return description_; }
  std::uint64_t memory_bytes() const noexcept override { return arena_->bytes(); }
  std::uint64_t memory_used() const noexcept override { return arena_->used(); }
  DeviceMemory allocate(std::uint64_t bytes) override { return arena_->allocate(bytes); }
  DeviceMemory allocate_staging(std::uint64_t bytes) override {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocDefault), "pin " + format_size(bytes) + " of host memory");
    return {std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), [](std::byte* at) { cudaFreeHost(at); }), bytes};
  }
  std::shared_ptr<void> pin(std::span<std::byte> memory) override {
    check(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault),
          "pin " + format_size(memory.size()) + " of host memory");
    return std::shared_ptr<void>(memory.data(), [](void* at) { cudaHostUnregister(at); });
  }
  std::unique_ptr<DeviceQueue> make_queue() override { return std::make_unique<CudaQueue>(index_, recorder_); }
  std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<CudaEvent>(index_); }
  std::unique_ptr<TrainingStep> make_training_step(const TrainingShape& shape, Seed seed) override {
    return std::make_unique<CudaTrainingStep>(*this, index_, shape, seed);
  }

 private:
  int index_;
  Recorder* recorder_;
  std::string description_;
  std::shared_ptr<Arena> arena_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options) { return std::make_unique<CudaDevice>(options); }

}  // namespace misfire
