#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace misfire {

/// Raw time stamp: the cheapest monotonic counter of this CPU. Compare only on one machine; anchors (recorder.hpp) turn it
/// into nanoseconds. x86-64: TSC; aarch64: the virtual counter; elsewhere CLOCK_MONOTONIC in nanoseconds.
inline std::uint64_t raw_ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// CLOCK_MONOTONIC in nanoseconds.
inline std::int64_t monotonic_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// CPU time used by the calling thread, in nanoseconds.
std::int64_t thread_cpu_ns() noexcept;

/// One reading of both clocks. The raw reading is the middle of two that enclose the monotonic one; the tightest of three tries.
struct ClockAnchor {
  std::uint64_t ticks = 0;
  std::int64_t monotonic_ns = 0;
  static ClockAnchor take() noexcept;
};

}  // namespace misfire
