// Goal: the micro-benchmarks run and notice what goes wrong; on an idle machine their figures are within the limits. Method: the
// program itself, its JSON. Tests named "figures" are labelled timing.

#include <chrono>

#include "harness/json.hpp"
#include "harness/process.hpp"
#include "tests/check.hpp"

namespace misfire {
namespace {

/// The benchmark of that name, as its JSON has it; its counters are members.
Json benchmark(const std::string& name, const std::string& time) {
  const ProcessResult result =
      run_process({.argv = {MICRO, "--benchmark_filter=^" + name, "--benchmark_format=json", "--benchmark_min_time=" + time},
                   .timeout = std::chrono::seconds(60)});
  CHECK_EQ(result.exit_code, 0);
  const Json found = Json::parse(result.out, "standard output").at("benchmarks").as_array().at(0);
  if (const Json* error = found.find("error_message")) CHECK_EQ(error->as_string(), "");
  return found;
}

TEST("checks: each benchmark runs, checks what it has done, and reports its ratios") {
  const Json event = benchmark("recorder/event", "0.02");
  CHECK(event.at("raw_ticks_ns").as_double() > 0);
  CHECK(event.at("stamped_over_raw_ticks").as_double() > 0);
  const Json drained = benchmark("recorder/drained", "0.02");
  CHECK(drained.at("lost_fraction").as_double() >= 0 && drained.at("lost_fraction").as_double() < 1);
  CHECK(benchmark("image/crop", "0.02").at("whole_over_crop").as_double() > 0);
  CHECK(benchmark("handover/batch", "0.02").at("copied_over_pooled").as_double() > 0);
  CHECK(benchmark("loader/first_batch", "0.02").at("first_batch_ns").as_double() > 0);
  CHECK(benchmark("loader/empty", "0.02").at("process_ns").as_double() > 0);
}

TEST("checks: flags are Google Benchmark's, others are refused") {
  CHECK_EQ(run_process({.argv = {MICRO, "--benchmark_list_tests"}}).exit_code, 0);
  CHECK_EQ(run_process({.argv = {MICRO, "--bogus"}}).exit_code, 64);
}

TEST("figures: a stamped event costs a bare time stamp and 5 %, an unstamped one 1.5 ns; ten million a second are all drained") {
  const Json event = benchmark("recorder/event", "1");
  CHECK(event.at("stamped_over_raw_ticks").as_double() <= 1.05);
  CHECK(event.at("unstamped_ns").as_double() <= 1.5);
  const Json drained = benchmark("recorder/drained", "1");
  CHECK(drained.at("events_per_second").as_double() >= 9.9e6);
  CHECK_EQ(drained.at("lost").as_double(), 0.0);
}

TEST("figures: a crop is at least 1.4 times as fast as decoding everything, and no copy is made at the hand-over") {
  CHECK(benchmark("image/crop", "1").at("whole_over_crop").as_double() >= 1.4);
  CHECK(benchmark("handover/batch", "1").at("copied_over_pooled").as_double() >= 3);
}

TEST("figures: the loader reaches 0.95 of its workers times one thread, and its first batch comes within 150 ms") {
  const Json rate = benchmark("loader/rate", "1");
  CHECK(rate.at("processes_efficiency").as_double() >= 0.95);
  CHECK(rate.at("threads_efficiency").as_double() >= 0.95);
  CHECK(benchmark("loader/first_batch", "1").at("first_batch_ns").as_double() <= 150e6);
}

}  // namespace
}  // namespace misfire
