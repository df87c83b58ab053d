// misfire-micro: what the parts cost by themselves, on Google Benchmark. Its flags are Google Benchmark's.

#include <benchmark/benchmark.h>
#include "suites/micro/paired.hpp"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 64;
  misfire::micro::register_recorder();
  misfire::micro::register_images();
  misfire::micro::register_handover();
  misfire::micro::register_loader();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
