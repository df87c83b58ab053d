#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "harness/error.hpp"
#include "harness/failure.hpp"
#include "misfire_config.hpp"

namespace misfire::test {

/// A small world for failure files: one scenario, one workload with three options, two faults. The names are real ones, so that
/// files written for it read as real files do; nothing of the real scenario is linked.
inline constexpr MetricInfo metrics[] = {
    {"outcome", Unit::text, "how it ended"},
    {"worker_signal", Unit::count, "signal of a worker"},
    {"shm_total_bytes", Unit::bytes, "size"},
    {"shm_used_fraction", Unit::fraction, "used part"},
    {"images_per_second", Unit::images_per_second, "rate"},
    {"step_seconds", Unit::seconds, "step"},
    {"worker_processes", Unit::count, "workers"},
    {"remote_page_fraction", Unit::fraction, "pages on another node"},
};

inline void check_workload(std::string_view, const Json& options) {
  int num_workers = 2, prefetch_factor = 2;
  bool reserve = false;
  Duration read_delay{};
  OptionTable("", {{"num_workers", &num_workers, "workers", Unit::count, 0, 64},
                   {"prefetch_factor", &prefetch_factor, "batches", Unit::count, 1, 1024},
                   {"read_delay", &read_delay, "delay of a read"},
                   {"reserve", &reserve, "reserve memory"}})
      .set(options);
}

class NoFault : public Fault {
 public:
  std::vector<Evidence> arm(const Victim&, bool) override { return {}; }
  std::vector<Evidence> probe(const Victim&, bool) override { return {}; }
  std::vector<Evidence> recover(const Victim&) override { return {}; }
  std::vector<Evidence> probe_recovery(const Victim&) override { return {}; }
};
class ShmSize : public NoFault {
 public:
  FaultInfo info() const override { return {"mem.shm_size", "", "", "", {}}; }
  OptionTable options() override { return OptionTable("", {{"size", &size_, "size", Unit::bytes, 4096, 1e15}}); }

 private:
  std::uint64_t size_ = 0;
};
class CpuAffinity : public NoFault {
 public:
  FaultInfo info() const override { return {"cpu.affinity", "", "", "", {}}; }
  OptionTable options() override { return OptionTable("", {{"cpus", &cpus_, "cpus", Unit::count, 1, 8192}}); }

 private:
  int cpus_ = 1;
};

inline const Vocabulary& vocabulary() {
  static const Vocabulary words = {
      .scenarios = {{"dataloader", {"loading"}, metrics, &check_workload}},
      .faults = {{"mem.shm_size", []() -> std::unique_ptr<Fault> { return std::make_unique<ShmSize>(); }},
                 {"cpu.affinity", []() -> std::unique_ptr<Fault> { return std::make_unique<CpuAffinity>(); }}},
      .capabilities = {"userns", "two_cpus", "gpu"},
  };
  return words;
}

/// tests/harness/fixtures/example-failure.json
inline std::string example_path() { return std::string(MISFIRE_SOURCE_DIR) + "/tests/harness/fixtures/example-failure.json"; }

}  // namespace misfire::test
