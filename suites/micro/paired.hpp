#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/clock.hpp"

namespace benchmark {
class State;
}

namespace misfire::micro {

/// One of the things that are compared, and how many operations a call does.
struct Variant {
  std::string name;
  std::function<void()> run;
  double operations = 1;
};

/// Runs the variants in turn, each iteration all of them, in rotating order, so that what slows the machine slows them alike.
/// Reports "<name>_ns", the median time of an operation, and "<name>_over_<first>", the median of the ratio within an iteration.
/// The iteration's time is that of the first variant.
/// @param clock  monotonic_ns, or thread_cpu_ns for work that this thread does alone
void compare(benchmark::State& state, const std::vector<Variant>& variants, std::int64_t (*clock)() noexcept = &monotonic_ns);

/// JPEG files to decode: the small photographs below MISFIRE_DATA where these have been prepared, else synthetic images of like
/// cost.
/// @param origin  set to which
std::vector<std::vector<std::uint8_t>> images(std::string& origin);

void register_recorder();
void register_images();
void register_handover();
void register_loader();

}  // namespace misfire::micro
