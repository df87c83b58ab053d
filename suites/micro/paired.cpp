#include "suites/micro/paired.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>

#include "harness/clock.hpp"

namespace misfire::micro {

void compare(benchmark::State& state, const std::vector<Variant>& variants, std::int64_t (*clock)() noexcept) {
  std::vector<std::vector<double>> times(variants.size());
  std::size_t first = 0;
  for (const Variant& variant : variants) variant.run();  // warm up
  for (auto _ : state) {
    for (std::size_t k = 0; k < variants.size(); ++k) {
      const std::size_t i = (first + k) % variants.size();
      const std::int64_t begin = clock();
      variants[i].run();
      times[i].push_back(static_cast<double>(clock() - begin) / variants[i].operations);
    }
    first = (first + 1) % variants.size();
    state.SetIterationTime(times[0].back() * variants[0].operations * 1e-9);
  }
  const auto median = [](std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  };
  for (std::size_t i = 0; i < variants.size(); ++i) {
    state.counters[variants[i].name + "_ns"] = median(times[i]);
    if (i == 0) continue;
    std::vector<double> ratios;
    for (std::size_t n = 0; n < times[i].size(); ++n) ratios.push_back(times[i][n] / times[0][n]);
    state.counters[variants[i].name + "_over_" + variants[0].name] = median(ratios);
  }
}

}  // namespace misfire::micro
