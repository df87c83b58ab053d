#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/error.hpp"
#include "harness/failure.hpp"
#include "harness/json.hpp"
#include "harness/metric.hpp"
#include "harness/options.hpp"
#include "harness/recorder.hpp"
#include "harness/seed.hpp"

// One trial: one arm in its own process tree.
//
//   driver -> holder -> witness -> subject -> whatever the workload starts
//
// The holder makes the namespaces (user, mount, PID, IPC; where they are refused, a subreaper and PDEATHSIG) and dies with the
// driver. The witness is the first process in them: it owns the recorder's mapping, drains it, looks at /proc on its own,
// keeps the deadline, and writes the record, whatever becomes of the subject. The subject runs the workload.
namespace misfire {

/// One process as the witness saw it in /proc.
struct ProcessSnapshot {
  int pid = 0;  ///< in the trial's PID namespace
  int ppid = 0;
  char state = '?';
  std::string name;
  std::vector<int> cpus_allowed;
  std::vector<int> mems_allowed;
  std::int64_t voluntary_switches = 0, involuntary_switches = 0;
  double cpu_seconds = 0;
  int threads = 0;
  std::uint64_t minor_faults = 0;
  double start_seconds = 0;     ///< start time on the boot clock: (pid, start) names a process
  std::uint64_t rss_bytes = 0;  ///< the following five only in a Look, else 0
  std::uint64_t pss_bytes = 0;
  std::uint64_t private_dirty_bytes = 0;
  struct Region {
    std::string name;
    std::uint64_t rss_bytes = 0, private_dirty_bytes = 0;
    std::vector<std::uint64_t> pages_by_node = {};  ///< from numa_maps; empty when it cannot be read
  };
  std::vector<Region> regions;  ///< of the regions the subject asked to watch
};

/// What the witness saw at one moment.
struct Observation {
  std::int64_t monotonic_ns = 0;
  std::string label;  ///< empty: periodic; else the subject's label of a Look
  std::uint32_t tag = 0;
  std::uint64_t shm_total_bytes = 0, shm_used_bytes = 0;  ///< of the trial's /dev/shm
  std::vector<ProcessSnapshot> processes;                 ///< subject and its descendants, not the witness
};

/// A recorded event, with its lane's owner and its time.
struct Event {
  std::int64_t monotonic_ns = 0;  ///< from anchors; for samples the time of the nearest stamped event before it in its lane
  std::uint16_t site = 0;
  EventKind kind = EventKind::mark;
  std::uint32_t tag = 0;
  double value = 0;  ///< samples only
  std::int32_t pid = 0, tid = 0;
};

/// How the subject ended.
struct Outcome {
  std::string kind;     ///< "ok", "failed" (the workload reported a failure), "signal", "timeout", "memory_limit", "error" (ours)
  std::string what;     ///< one line for people; for "failed" the workload's own message
  std::string failure;  ///< for "failed": the workload's word for it ("worker_killed", "no_space", ...)
  int exit_code = 0, signal = 0;
  bool core = false;
  Duration elapsed{};  ///< of the run phase
};

/// Everything the witness has, handed to the workload's analysis.
struct Trace {
  std::vector<Event> events;  ///< by time
  std::vector<Observation> observations;
  std::vector<std::pair<std::string, Json>> notes;  ///< facts the subject told (Subject::note)
  Outcome outcome;
  Json workload;  ///< options in force
  int subject_pid = 0;
  std::uint64_t dropped_events = 0;
};

/// The subject's view of its trial.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual Seed seed() const = 0;
  virtual Recorder& recorder() = 0;
  /// A private directory, gone after the trial.
  virtual const std::string& directory() const = 0;
  /// Asks the witness to look at every process now (memory maps too) and waits for it to finish.
  virtual void look(std::string_view label, std::uint32_t tag = 0) = 0;
  /// From now on looks report this mapping of any descendant under that name. The range is the same in forked children.
  /// Anonymous memory needs inaccessible pages around it: the kernel merges neighbours that are alike.
  virtual void watch_region(std::string_view name, const void* address, std::size_t bytes) = 0;
  /// A fact for the record and the analysis. Costs a message: not for hot paths.
  virtual void note(std::string_view name, Json value) = 0;
  /// A failure of the workload that was observed and is data, not an error of ours. Returns: the workload then ends early.
  virtual void failed(std::string_view failure, std::string_view what) = 0;
  /// Called by the workload between its warm-up and the measured part (arms and proves the injections), and after it.
  /// Everything recorded between the two is the run phase. Injections that are inherited (a mount, a CPU mask) reach only what is
  /// forked afterwards: where the failure is about those processes, start them after start_run().
  virtual void start_run() = 0;
  virtual void end_run() = 0;
  /// Memory of the recorder, for processes that are executed instead of forked: pass the descriptor on, attach there.
  virtual int recorder_descriptor() const = 0;
};

/// A measured activity. Order of calls: options() and its values set; prepare() and run() in the subject; analyse() in the
/// witness.
class Workload {
 public:
  virtual ~Workload() = default;
  virtual OptionTable options() = 0;
  /// Opens what it needs (data, devices). Injections are not armed yet. Threads may be started only after run() has forked.
  virtual void prepare(Subject& subject) = 0;
  /// Warm up, subject.start_run(), measure, subject.end_run().
  virtual void run(Subject& subject) = 0;
  /// Every metric of the scenario, from the trace alone. A metric that could not be measured is left out and named in
  /// `missing` with the reason. Pure: also used by tests on traces made by hand.
  virtual std::vector<Metric> analyse(const Trace& trace, std::vector<std::pair<std::string, std::string>>& missing) = 0;
};

/// A scenario's description. One function `const Scenario& <name>_scenario()` per line of suites/catalog.inc.
struct Scenario {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> workloads;
  std::unique_ptr<Workload> (*make_workload)(std::string_view name);
  std::span<const MetricInfo> metrics;
  std::span<const Site> sites;
};

/// What one trial is launched with. Its option table is the command line of every scenario executable.
struct TrialOptions {
  std::string failure;  ///< name or path
  std::string arm = "faulty";
  std::string dose;  ///< empty: the file's own
  std::string sabotage = "none";
  std::uint64_t seed = 0;
  std::string record;   ///< file to write
  Duration deadline{};  ///< 0: the failure file's
  int block = 0;
  std::string data;  ///< directory for prepared data shared by trials (made by the driver beforehand)
  bool raw = true;   ///< also write the raw events to <record>.raw
  OptionTable table();
};

/// Runs one trial to its end: makes the process tree, runs the subject, writes the record, removes everything.
/// @return success when a record with an outcome was written (whatever the outcome), skipped with the reason on standard
///         error when a capability is missing, internal when we failed
Exit run_trial(const Scenario& scenario, std::span<const FaultEntry> faults, const Vocabulary& vocabulary,
               const TrialOptions& options);

/// The same for a plan that comes from elsewhere (a healthy case, a test). @param header more members of the "trial" line
Exit run_planned_trial(const Scenario& scenario, std::span<const FaultEntry> faults, const TrialPlan& plan,
                       const TrialOptions& options, const Json& header = Json::object());

}  // namespace misfire
