// Goal: the clocks go forward, agree with each other, and thread time counts this thread's work only.
#include "harness/clock.hpp"

#include <atomic>
#include <thread>

#include "tests/check.hpp"

using namespace misfire;

TEST("raw ticks and the monotonic clock do not go backwards") {
  std::uint64_t ticks = raw_ticks();
  std::int64_t time = monotonic_ns();
  bool forward = true;
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t next_ticks = raw_ticks();
    const std::int64_t next_time = monotonic_ns();
    forward = forward && next_ticks >= ticks && next_time >= time;
    ticks = next_ticks;
    time = next_time;
  }
  CHECK(forward);
}

TEST("anchors turn ticks into nanoseconds, whatever lies between them") {
  const ClockAnchor a = ClockAnchor::take();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const ClockAnchor b = ClockAnchor::take();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const ClockAnchor c = ClockAnchor::take();
  const double rate_ab = static_cast<double>(b.ticks - a.ticks) / static_cast<double>(b.monotonic_ns - a.monotonic_ns);
  const double rate_bc = static_cast<double>(c.ticks - b.ticks) / static_cast<double>(c.monotonic_ns - b.monotonic_ns);
  CHECK(b.monotonic_ns - a.monotonic_ns >= 20'000'000);
  CHECK(rate_ab > 0);
  CHECK_NEAR(rate_ab / rate_bc, 1.0, 0.01);
}

TEST("thread time counts the work of the calling thread, not sleep and not other threads") {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) continue;
  });
  const std::int64_t begin = thread_cpu_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const std::int64_t slept = thread_cpu_ns() - begin;
  stop = true;
  other.join();
  std::uint64_t sum = 0;
  const std::int64_t before_work = thread_cpu_ns();
  while (thread_cpu_ns() - before_work < 5'000'000) sum += raw_ticks();
  CHECK(slept >= 0 && slept < 15'000'000);
  CHECK(sum != 0);
}
