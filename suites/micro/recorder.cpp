// What an event costs its thread, and whether any is lost.
//
// recorder/event    a bare time stamp, a stamped event, an unstamped sample; the ring is small enough for the first-level cache
// and
//                   emptied by the same thread between batches, outside the time
// recorder/drained  ten million events a second from this thread, the drain in another process: written, drained, lost

#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <new>

#include "harness/clock.hpp"
#include "harness/error.hpp"
#include "harness/recorder.hpp"
#include "suites/micro/paired.hpp"

namespace misfire::micro {
namespace {

constexpr Site site{1, "micro"};

/// Memory that processes share, gone with this object.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes)
      : bytes_(bytes), memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw Error(ErrorCode::io, "map shared memory: no memory");
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { munmap(memory_, bytes_); }
  std::span<std::byte> bytes() const noexcept { return {static_cast<std::byte*>(memory_), bytes_}; }

 private:
  std::size_t bytes_;
  void* memory_;
};

void event(benchmark::State& state) {
  constexpr Recorder::Shape shape{.lanes = 1, .events_per_lane = 1024};  // 16 KiB
  constexpr int batch = 1000, batches = 20;
  const SharedMemory memory(Recorder::mapping_bytes(shape));
  Recorder recorder = Recorder::create(memory.bytes(), shape);
  Lane lane = recorder.claim_lane();
  std::uint64_t drained = 0;
  // The ring is emptied after each batch: that is some nanoseconds for a thousand events.
  const auto batched = [&](auto&& one) {
    for (int b = 0; b < batches; ++b) {
      for (int i = 0; i < batch; ++i) one(i);
      drained += recorder.drain(0, [](std::span<const RawEvent>) {});
    }
  };
  compare(state,
          {{"raw_ticks", [&] { batched([](int) { benchmark::DoNotOptimize(raw_ticks()); }); }, batch * batches},
           {"stamped", [&] { batched([&](int i) { lane.mark(site, static_cast<std::uint32_t>(i)); }); }, batch * batches},
           {"unstamped", [&] { batched([&](int i) { lane.sample(site, i, static_cast<std::uint32_t>(i)); }); }, batch * batches}},
          &thread_cpu_ns);
  const Recorder::LaneInfo info = recorder.lane(0);
  if (info.dropped != 0 || info.written != drained) state.SkipWithError("events were lost although the ring was emptied");
}

void drained(benchmark::State& state) {
  constexpr std::uint64_t events = 5'000'000;
  constexpr double per_second = 10e6;
  constexpr Recorder::Shape shape{.lanes = 1, .events_per_lane = 1U << 18};
  struct Told {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> drained{0};
  };
  const ClockAnchor begin = ClockAnchor::take();
  usleep(20'000);
  const ClockAnchor end = ClockAnchor::take();
  const double ticks_per_event = static_cast<double>(end.ticks - begin.ticks) /
                                 static_cast<double>(end.monotonic_ns - begin.monotonic_ns) * 1e9 / per_second;
  double written = 0, lost = 0, seconds = 0;
  for (auto _ : state) {
    const SharedMemory memory(Recorder::mapping_bytes(shape)), page(4096);
    Recorder recorder = Recorder::create(memory.bytes(), shape);
    Told* told = new (page.bytes().data()) Told;
    const pid_t drain = fork();
    if (drain < 0) return state.SkipWithError("fork failed");
    if (drain == 0) {
      std::uint64_t count = 0;
      for (bool last = false; !last;) {
        last = told->stop;  // seen before the last look
        count += recorder.drain(0, [](std::span<const RawEvent> part) { benchmark::DoNotOptimize(part.back().word); });
      }
      told->drained = count;
      _exit(0);
    }
    Lane lane = recorder.claim_lane();
    const std::int64_t start_ns = monotonic_ns();
    const std::uint64_t start = raw_ticks();
    for (std::uint64_t i = 0; i < events; ++i) {
      while (static_cast<double>(raw_ticks() - start) < ticks_per_event * static_cast<double>(i)) {
      }
      lane.mark(site, static_cast<std::uint32_t>(i));
    }
    const double elapsed = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
    state.SetIterationTime(elapsed);
    told->stop = true;
    waitpid(drain, nullptr, 0);
    const Recorder::LaneInfo info = recorder.lane(0);
    if (info.written != told->drained || info.written + info.dropped != events) {
      state.SkipWithError("the events written, drained and dropped do not add up");
      return;
    }
    written += static_cast<double>(info.written);
    lost += static_cast<double>(info.dropped);
    seconds += elapsed;
  }
  state.counters["events_per_second"] = (written + lost) / seconds;
  state.counters["lost"] = lost;
  state.counters["lost_fraction"] = lost / (written + lost);
}

}  // namespace

void register_recorder() {
  benchmark::RegisterBenchmark("recorder/event", event)->UseManualTime()->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("recorder/drained", drained)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(2);
}

}  // namespace misfire::micro
