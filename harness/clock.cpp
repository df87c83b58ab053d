#include "harness/clock.hpp"

#include <ctime>

namespace misfire {

std::int64_t thread_cpu_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

ClockAnchor ClockAnchor::take() noexcept {
  ClockAnchor best;
  std::uint64_t best_width = UINT64_MAX;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::uint64_t before = raw_ticks();
    const std::int64_t now = misfire::monotonic_ns();
    const std::uint64_t width = raw_ticks() - before;
    if (width < best_width) {
      best_width = width;
      best = {before + width / 2, now};
    }
  }
  return best;
}

}  // namespace misfire
