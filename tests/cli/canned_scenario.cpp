// Stands in for a scenario's executable: writes, at once, the record that a trial of a small model of data loading would leave,
// and on demand misbehaves as trials may. The model reads the arm's plan, as a workload would: a small /dev/shm with deep
// prefetch kills a worker; no workers make a step longer by its compute. What it is told to do wrong comes from the environment:
//
//   CANNED_MODE  crash, cut, exit70, usage, skip, hang, after_outcome, full, unproved, symptomless, noisy,
//                leave_process, leave_file, leave_shared_memory, neighbour
//   CANNED_ARM   only in that arm

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "faults/catalog.hpp"
#include "harness/containment.hpp"
#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/record.hpp"
#include "harness/seed.hpp"
#include "harness/trial.hpp"
#include "suites/catalog.hpp"

namespace misfire {
namespace {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Options {
  TrialOptions trial;
  bool prepare = false;
  std::string healthy_case;
};

double number(const Json& workload, const char* key, double otherwise) {
  const Json* value = workload.find(key);
  return value == nullptr ? otherwise : value->as_double();
}

void metric(RecordWriter& record, const char* name, double value, Unit unit) {
  record.write("metric", Json::object({{"name", name}, {"value", value}, {"unit", unit_name(unit)}}));
}

void leave_behind(const std::string& mode) {
  if (mode == "leave_process" && fork() == 0) {
    setsid();
    for (const int descriptor : {0, 1, 2}) close(descriptor);
    sleep(30);
    _exit(0);
  }
  if (mode == "leave_file") write_file_atomically(from_environment("TMPDIR") + "/left", "x");
  if (mode == "leave_shared_memory") {
    const std::string name = "/" + from_environment(shm_prefix_variable) + "-left";
    close(shm_open(name.c_str(), O_CREAT | O_RDWR, 0600));
  }
  if (mode == "neighbour") close(shm_open("/misfire-1-neighbour", O_CREAT | O_RDWR, 0600));  // by another name: not the trial's
  if (mode.starts_with("leave_")) usleep(50'000);                                            // before the group is ended
}

int trial(const TrialOptions& options) {
  const Failure failure = find_failure(options.failure, vocabulary());
  const Arm& arm = failure.arm(options.arm);
  const std::string only = from_environment("CANNED_ARM");
  const std::string mode = only.empty() || only == arm.name ? from_environment("CANNED_MODE") : "";
  const Sabotage sabotage = options.sabotage == "condition" ? Sabotage::condition
                            : options.sabotage == "misuse"  ? Sabotage::misuse
                                                            : Sabotage::none;
  const TrialPlan plan =
      compose(failure, arm, options.dose.empty() ? std::nullopt : std::optional(read_dose(failure, options.dose)), sabotage);

  if (mode == "usage") throw Error(ErrorCode::usage, "no such workload here");
  if (mode == "hang") pause();
  if (mode == "crash") raise(SIGSEGV);
  if (mode == "full") throw Error(ErrorCode::no_space, "write the record '" + options.record + "': No space left on device");
  RecordWriter record = RecordWriter::create(options.record);
  record.write("trial", Json::object({{"failure", failure.name},
                                      {"arm", arm.name},
                                      {"role", role_name(arm.role)},
                                      {"dose", options.dose},
                                      {"sabotage", options.sabotage},
                                      {"replay", "misfire-dataloader --arm " + arm.name},
                                      {"seed", options.seed},
                                      {"block", options.block},
                                      {"has_condition", plan.has_condition},
                                      {"has_misuse", plan.has_misuse}}));
  if (mode == "skip") {
    record.write("skipped", Json::object({{"capability", "fuse"}, {"why", "no /dev/fuse"}}));
    return static_cast<int>(Exit::skipped);
  }
  if (mode == "exit70") throw Error(ErrorCode::internal, "the canned trial gave up");
  if (mode == "cut") {
    std::FILE* file = std::fopen(options.record.c_str(), "a");
    std::fputs("{\"type\":\"metric\",\"na", file);
    std::fclose(file);
    return 0;
  }
  record.write("environment", Json::object({{"environment", Json::object()}}));
  record.write("options", Json::object({{"options", plan.workload}}));

  double shm_bytes = 256 << 20;
  for (const auto& injection : plan.injections) {
    if (injection.armed && injection.spec.fault == "mem.shm_size") {
      const Json& size = injection.spec.options.at("size");
      shm_bytes = size.is_string() ? static_cast<double>(parse_size(size.as_string())) : size.as_double();
    }
    record.write("injection", Json::object({{"fault", injection.spec.fault},
                                            {"armed", injection.armed},
                                            {"proved", mode != "unproved"},
                                            {"evidence", Json::array()}}));
  }
  const double workers = number(plan.workload, "num_workers", 2), prefetch = number(plan.workload, "prefetch_factor", 2);
  const bool killed = mode != "symptomless" && shm_bytes < workers * prefetch * (4 << 20);
  double noise = 0.01 * Seed(options.seed).stream(arm.name).uniform();
  if (mode == "noisy") noise = options.block % 2 == 0 ? -0.3 : 0.3;  // to either side of the bound
  const double compute = workers == 0 && mode != "symptomless" ? number(plan.workload, "passes", 2) / 4 : 0;
  record.write("metric", Json::object({{"name", "outcome"}, {"value", killed ? "failed" : "ok"}, {"unit", "text"}}));
  metric(record, "worker_signal", killed ? 7 : 0, Unit::count);
  metric(record, "shm_total_bytes", shm_bytes, Unit::bytes);
  metric(record, "worker_processes", workers, Unit::count);
  metric(record, "step_seconds", 0.1 * (1 + compute) * (1 + noise), Unit::seconds);
  record.write("missing", Json::object({{"name", "remote_page_fraction"}, {"why", "one node"}}));
  leave_behind(mode);
  record.write("outcome", Json::object({{"kind", killed ? "failed" : "ok"},
                                        {"what", killed ? "a worker was killed by signal 7" : ""},
                                        {"failure", killed ? "worker_killed" : ""},
                                        {"exit_code", 0},
                                        {"signal", 0},
                                        {"core", false},
                                        {"elapsed_seconds", 0.1}}));
  if (mode == "after_outcome") raise(SIGKILL);
  return 0;
}

int healthy(const Options& options) {
  if (options.healthy_case == "processes-4" && from_environment("CANNED_MODE") == "crash") raise(SIGSEGV);
  const double slower = from_environment("CANNED_MODE") == "slow" ? 0.5 : 1;
  RecordWriter record = RecordWriter::create(options.trial.record);
  record.write("trial", Json::object({{"seed", options.trial.seed}}));
  metric(record, "images_per_second", slower * 1000 * (1 + 0.01 * Seed(options.trial.seed).stream("rate").uniform()),
         Unit::images_per_second);
  record.write("outcome", Json::object({{"kind", "ok"}}));
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  std::vector<Option> list = options.trial.table().options();
  list.push_back({.name = "prepare", .target = &options.prepare, .help = "make the directory"});
  list.push_back({.name = "case", .target = &options.healthy_case, .help = "a healthy case", .unit = Unit::text});
  OptionTable("", std::move(list)).parse(arguments);
  if (options.prepare) {
    if (from_environment("CANNED_MODE") == "unprepared")
      throw Error(ErrorCode::no_space, "make images in '" + options.trial.data + "': No space left on device");
    make_directories(options.trial.data);
    std::printf("%s: canned data\n", options.trial.data.c_str());
    return 0;
  }
  return options.healthy_case.empty() ? trial(options.trial) : healthy(options);
}

}  // namespace
}  // namespace misfire

int main(int argc, char** argv) {
  try {
    return misfire::run({argv + 1, argv + argc});
  } catch (const misfire::Error& error) {
    std::fprintf(stderr, "misfire-dataloader: %s\n", error.what());
    return static_cast<int>(misfire::exit_for(error.code()));
  }
}
