#pragma once

// The smallest scenario: one workload whose option says how it behaves. For tests of the engine alone.

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "harness/containment.hpp"
#include "harness/error.hpp"
#include "harness/trial.hpp"

namespace misfire::tiny {

inline constexpr std::array<Site, 3> sites{{{1, "before"}, {2, "in_run"}, {3, "value"}}};

/// Sets a file's content in the trial's directory, which is the victim's path. With works=false it is a fault that does nothing.
class FileFault : public Fault {
 public:
  FaultInfo info() const override { return {"fake.file", "a file", "nothing", "anything", {}}; }
  OptionTable options() override { return OptionTable("", {{"works", &works_, "whether it does anything"}}); }
  std::vector<Evidence> arm(const Victim& victim, bool armed) override {
    if (armed && works_) std::ofstream(victim.directory + "/fault") << "on";
    return {{Phase::armed, "told to", Json(armed), Json(armed), true}};
  }
  std::vector<Evidence> probe(const Victim& victim, bool armed) override {
    const bool there = std::filesystem::exists(victim.directory + "/fault");
    return {{Phase::observed, "the file is there", Json(there), Json(armed), there == armed}};
  }
  std::vector<Evidence> recover(const Victim& victim) override {
    unlink((victim.directory + "/fault").c_str());
    return {{Phase::recovered, "removed", Json(true), Json(true), true}};
  }
  std::vector<Evidence> probe_recovery(const Victim& victim) override {
    const bool there = std::filesystem::exists(victim.directory + "/fault");
    return {{Phase::recovery_proved, "the file is there", Json(there), Json(false), !there}};
  }

 private:
  bool works_ = true;
};

inline std::unique_ptr<Fault> make_file_fault() { return std::make_unique<FileFault>(); }
inline constexpr FaultEntry faults[] = {{"fake.file", &make_file_fault}};

[[noreturn]] inline void sleep_for_ever() {
  for (;;) pause();
}

/// How the file ends that a trial makes in /dev/shm: tests that run at once, each with its own TMPDIR, tell theirs apart.
inline std::string shm_ending() {
  const char* temporary = std::getenv("TMPDIR");
  std::string ending = temporary ? temporary : "";
  std::replace(ending.begin(), ending.end(), '/', '-');
  return ending + "-tiny";
}

class Tiny : public Workload {
 public:
  OptionTable options() override {
    return OptionTable("", {{"behaviour", &behaviour_, "what it does", Unit::text},
                            {"workers", &workers_, "processes it starts", Unit::count, 0, 100}});
  }

  void prepare(Subject& subject) override {
    std::ofstream(subject.directory() + "/private") << "data";
    const char* prefix = std::getenv(shm_prefix_variable);
    std::ofstream("/dev/shm/" + std::string(prefix ? prefix : "misfire") + shm_ending()) << "left behind";
    subject.note("directory", Json(subject.directory()));
    if (behaviour_ == "throw_early") throw Error(ErrorCode::invalid_input, "tiny: asked to fail early");
  }

  void run(Subject& subject) override {
    Lane lane = subject.recorder().claim_lane();
    lane.mark(sites[0], 1);
    for (int i = 0; i < workers_; ++i)
      if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sleep_for_ever();
      }
    if (behaviour_ == "escape" || behaviour_ == "escape_hang") escape();
    subject.start_run();
    lane.mark(sites[1], 2);
    lane.sample(sites[2], 4.5, 3);
    if (behaviour_ == "fill_lane")
      for (int i = 0; i < 1 << 17; ++i) lane.sample(sites[2], i);
    if (behaviour_ == "look") {
      constexpr std::size_t bytes = 1 << 20;
      // Inaccessible pages around it: the kernel merges neighbours that are alike.
      auto* memory = static_cast<char*>(mmap(nullptr, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) + 4096;
      mprotect(memory, bytes, PROT_READ | PROT_WRITE);
      for (std::size_t i = 0; i < bytes; i += 4096) memory[i] = 1;
      subject.watch_region("mine", memory, bytes);
      subject.look("here", 42);
    }
    subject.note("answer", Json::object({{"value", 42}}));
    if (behaviour_ == "failed") {
      subject.failed("no_space", "there was no room");
      subject.failed("second", "not this one");
      return;
    }
    if (behaviour_ == "throw") throw Error(ErrorCode::io, "tiny: asked to fail");
    if (behaviour_ == "segv") {
      std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would turn it into an exit
      raise(SIGSEGV);
    }
    if (behaviour_ == "exit") _exit(3);
    if (behaviour_ == "hang" || behaviour_ == "escape_hang") sleep_for_ever();
    subject.end_run();
    lane.mark(sites[0], 9);
  }

  std::vector<Metric> analyse(const Trace& trace, std::vector<std::pair<std::string, std::string>>& missing) override {
    std::vector<Metric> metrics;
    const auto put = [&](const char* name, double value) { metrics.push_back({name, Unit::count, value}); };
    put("events", static_cast<double>(trace.events.size()));
    put("dropped", static_cast<double>(trace.dropped_events));
    for (const Event& event : trace.events)
      if (event.site == sites[2].id) {
        put("value", event.value);
        break;
      }
    double processes = 0;
    for (const Observation& seen : trace.observations) {
      processes = std::max(processes, static_cast<double>(seen.processes.size()));
      if (seen.label != "here") continue;
      put("look_tag", seen.tag);
      for (const ProcessSnapshot& process : seen.processes)
        if (process.pid == trace.subject_pid)
          for (const auto& region : process.regions) put("region_private_dirty", static_cast<double>(region.private_dirty_bytes));
    }
    put("processes", processes);
    missing.emplace_back("moon_phase", "there is no window");
    return metrics;
  }

 private:
  /// A daemon: its own session, its parent gone, SIGTERM and SIGHUP ignored, no PDEATHSIG.
  static void escape() {
    const pid_t between = fork();
    if (between == 0) {
      setsid();
      if (fork() == 0) {
        std::signal(SIGTERM, SIG_IGN);
        std::signal(SIGHUP, SIG_IGN);
        sleep_for_ever();
      }
      _exit(0);
    }
    waitpid(between, nullptr, 0);
  }

  std::string behaviour_ = "ok";
  int workers_ = 0;
};

inline std::unique_ptr<Workload> make_workload(std::string_view) { return std::make_unique<Tiny>(); }

inline const Scenario& scenario() {
  static const Scenario description{"tiny", "For tests of the engine.", {"tiny"}, &make_workload, {}, std::span(sites)};
  return description;
}

inline TrialPlan plan(const std::string& behaviour, int workers = 0) {
  TrialPlan plan;
  plan.workload = Json::object({{"name", "tiny"}, {"behaviour", behaviour}, {"workers", workers}});
  return plan;
}

}  // namespace misfire::tiny
