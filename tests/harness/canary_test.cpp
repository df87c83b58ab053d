// Trials whose workload misbehaves towards the engine itself: it talks without end, leaves without a word, closes what it was
// given, breeds processes, wants more than there is. Each must end in time with a record that says what happened.

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <sstream>

#include "harness/clock.hpp"
#include "harness/containment.hpp"
#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/procfs.hpp"
#include "harness/trial.hpp"
#include "tests/check.hpp"
#include "tests/harness/tiers.hpp"

namespace misfire {
namespace {

constexpr Duration enough = std::chrono::seconds(20);
constexpr std::int64_t second = 1'000'000'000;

std::function<void(Subject&)> behaviour;  ///< of the next trial; it is forked, so a function will do

class Canary : public Workload {
 public:
  OptionTable options() override { return {}; }
  void prepare(Subject&) override {}
  void run(Subject& subject) override { behaviour(subject); }
  std::vector<Metric> analyse(const Trace& trace, std::vector<std::pair<std::string, std::string>>&) override {
    return {{"lost", Unit::count, static_cast<double>(trace.dropped_events)},
            {"notes", Unit::count, static_cast<double>(trace.notes.size())}};
  }
};

std::unique_ptr<Workload> make_canary(std::string_view) { return std::make_unique<Canary>(); }
const Scenario scenario{"canary", "Misbehaves.", {"canary"}, &make_canary, {}, {}};

/// A fault one of whose phases throws.
class Refusing : public Fault {
 public:
  FaultInfo info() const override { return {"fake.refusing", "throws", "nothing", "anything", {}}; }
  OptionTable options() override {
    return OptionTable("",
                       {{"phase", &phase_, "which", Unit::text, 0, 0, {"arm", "probe", "recover", "probe_recovery", "none"}}});
  }
  std::vector<Evidence> arm(const Victim&, bool) override { return step("arm", Phase::armed); }
  std::vector<Evidence> probe(const Victim&, bool) override { return step("probe", Phase::observed); }
  std::vector<Evidence> recover(const Victim&) override { return step("recover", Phase::recovered); }
  std::vector<Evidence> probe_recovery(const Victim&) override { return step("probe_recovery", Phase::recovery_proved); }

 private:
  std::vector<Evidence> step(std::string_view name, Phase phase) const {
    if (name == phase_) throw Error(ErrorCode::unsupported, "the world refused to " + phase_);
    return {{phase, "it", Json(true), Json(true), true}};
  }
  std::string phase_ = "none";
};

std::unique_ptr<Fault> make_refusing() { return std::make_unique<Refusing>(); }
constexpr FaultEntry faults[] = {{"fake.refusing", &make_refusing}};

struct Result {
  int exit_code = -1;
  std::vector<Json> lines;
  std::string raw;
  double cpu_seconds = 0;  ///< of all of the trial's processes that were waited for
  std::int64_t elapsed_ns = 0;

  const Json* line(std::string_view type, std::string_view name = "") const {
    for (const Json& line : lines)
      if (line.at("type").as_string() == type && (name.empty() || line.at("name").as_string() == name)) return &line;
    return nullptr;
  }
  std::string outcome() const { return line("outcome") ? line("outcome")->at("kind").as_string() : "none"; }
  std::string what() const { return line("outcome") ? line("outcome")->at("what").as_string() : ""; }
  double metric(std::string_view name) const { return line("metric", name) ? line("metric", name)->at("value").as_double() : -1; }
};

struct Launch {
  Duration deadline = enough;
  TrialPlan plan = {};
  std::function<bool()> before = {};  ///< in the driver; false: cannot be had here
  std::string record = {};            ///< default: in a temporary directory
  std::string record_outside = {};    ///< where this process finds it, if elsewhere
};

/// One trial, in a driver of its own. Exit code 77: `before` said no.
Result trial(const std::function<void(Subject&)>& does, const Launch& launch = {}) {
  behaviour = does;
  const TemporaryDirectory out;
  const std::string record = launch.record.empty() ? out.path() + "/trial.jsonl" : launch.record;
  const std::int64_t start = monotonic_ns();
  const pid_t driver = fork();
  if (driver == 0) {
    if (launch.before && !launch.before()) _exit(77);
    TrialOptions options;
    options.record = record;
    options.deadline = launch.deadline;
    TrialPlan plan = launch.plan;
    plan.workload = Json::object({{"name", "canary"}});
    try {
      _exit(static_cast<int>(run_planned_trial(scenario, faults, plan, options)));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(99);
    }
  }
  int status = 0;
  rusage used{};
  wait4(driver, &status, 0, &used);
  Result result;
  result.elapsed_ns = monotonic_ns() - start;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.cpu_seconds = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                       static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
  if (result.exit_code == 77) return result;
  const std::string written = launch.record_outside.empty() ? record : launch.record_outside;
  std::istringstream text(read_whole_file(written));
  for (std::string line; std::getline(text, line);) result.lines.push_back(Json::parse(line, written));
  if (access((written + ".raw").c_str(), R_OK) == 0) result.raw = read_whole_file(written + ".raw");
  return result;
}

TEST("a subject whose processes never stop talking ends at its deadline") {
  const Result result = trial(
      [](Subject& subject) {
        subject.start_run();
        for (int i = 0; i < 15; ++i)
          if (fork() == 0) break;
        for (;;) subject.note("again", Json(std::string(200, 'x')));
      },
      {.deadline = std::chrono::milliseconds(300)});
  CHECK_EQ(result.exit_code, 0);
  CHECK_EQ(result.outcome(), "timeout");
  CHECK(result.elapsed_ns < 10 * second);
}

TEST("notes beyond what is kept are counted") {
  constexpr std::size_t bytes = 100 << 10, count = 500;
  const Result result = trial([](Subject& subject) {
    subject.start_run();
    for (std::size_t i = 0; i < count; ++i) subject.note("large", Json(std::string(bytes, 'x')));
    subject.end_run();
  });
  CHECK_EQ(result.outcome(), "ok");
  CHECK(result.line("note", "large") && result.line("note", "large")->at("value").as_string().size() == bytes);
  const Json* dropped = result.line("note", "notes_dropped");
  CHECK(dropped != nullptr);
  if (dropped) CHECK_EQ(result.metric("notes") - 1 + dropped->at("value").as_double(), static_cast<double>(count));
}

TEST("a note that fits no message is refused with its size") {
  const Result result = trial([](Subject& subject) { subject.note("huge", Json(std::string(200'000, 'x'))); });
  CHECK_EQ(result.exit_code, static_cast<int>(Exit::internal));
  CHECK_EQ(result.outcome(), "error");
  CHECK(result.what().find("2000") != std::string::npos && result.what().find("split it") != std::string::npos);
}

TEST("a failure told at any length is data") {
  const Result result = trial([](Subject& subject) {
    subject.start_run();
    subject.failed("verbose", std::string(1'000'000, 'x'));
  });
  CHECK_EQ(result.outcome(), "failed");
  CHECK_EQ(result.line("outcome")->at("failure").as_string(), "verbose");
  const Result thrown = trial([](Subject&) { throw Error(ErrorCode::io, std::string(1'000'000, 'x')); });
  CHECK_EQ(thrown.outcome(), "error");
  CHECK(thrown.what().starts_with("xxx"));
}

TEST("an exit that the workload did not come to is an error whatever its code") {
  for (const int code : {0, 10, 70}) {
    const Result result = trial([&](Subject& subject) {
      subject.start_run();
      _exit(code);
    });
    CHECK_EQ(result.exit_code, static_cast<int>(Exit::internal));
    CHECK_EQ(result.outcome(), "error");
    CHECK_EQ(result.line("outcome")->at("exit_code").as_int(), code);
    CHECK(result.what().find("before its workload had come to an end") != std::string::npos);
  }
}

TEST("a subject that closes all it was given costs the witness nothing") {
  const Result result = trial(
      [](Subject& subject) {
        subject.start_run();
        for (int descriptor = 3; descriptor < 1024; ++descriptor) close(descriptor);
        for (;;) pause();
      },
      {.deadline = std::chrono::seconds(1)});
  CHECK_EQ(result.outcome(), "timeout");
  CHECK(result.cpu_seconds < 0.5);
}

/// Each of `width` children has as many, `depth` deep, in sessions of their own; those in between end at once.
void breed(int width, int depth) {
  for (int i = 0; i < width; ++i) {
    if (fork() != 0) continue;
    setsid();
    std::signal(SIGTERM, SIG_IGN);
    if (depth > 0) {
      breed(width, depth - 1);
      _exit(0);
    }
    for (;;) pause();
  }
}

TEST("processes that breed end with the trial") {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // whatever is left comes to us
  int had = 0;
  for (const Containment tier : all_containments)
    for (const bool crashes : {false, true}) {
      const Result result = trial(
          [&](Subject& subject) {
            subject.start_run();
            breed(5, 2);
            subject.look("bred");
            if (crashes) raise(SIGKILL);
            subject.end_run();
          },
          {.before = [&] { return allow_at_best(tier); }});
      if (result.exit_code == 77) continue;
      ++had;
      CHECK_EQ(result.outcome(), crashes ? "signal" : "ok");
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      CHECK(descendants(getpid()).empty());
    }
  CHECK(had > 0);
}

TEST("threads that find no lane are counted as loss") {
  const Result result = trial([](Subject& subject) {
    subject.start_run();
    for (std::uint32_t i = 0; i < subject.recorder().lanes() + 3; ++i) subject.recorder().claim_lane();
    subject.end_run();
  });
  CHECK_EQ(result.outcome(), "ok");
  CHECK_EQ(result.metric("lost"), 3);
  CHECK(result.line("note", "lanes_refused") && result.line("note", "lanes_refused")->at("value").as_int() == 3);
}

TEST("a fault that cannot be applied is not proved and the trial goes on") {
  for (const std::string phase : {"none", "arm", "probe", "recover", "probe_recovery"}) {
    Launch launch;
    launch.plan.injections.push_back({{"fake.refusing", Json::object({{"phase", phase}})}, true});
    const Result result = trial(
        [](Subject& subject) {
          subject.start_run();
          subject.note("ran", Json(true));
          subject.end_run();
        },
        launch);
    CHECK_EQ(result.exit_code, 0);
    CHECK_EQ(result.outcome(), "ok");
    CHECK(result.line("note", "ran") != nullptr);
    const Json* injection = result.line("injection");
    CHECK(injection && injection->at("proved").as_bool() == (phase == "none"));
    if (!injection) continue;
    CHECK_EQ(injection->at("evidence").as_array().size(), 4U);
    CHECK_EQ(injection->dump().find("the world refused to " + phase) != std::string::npos, phase != "none");
  }
}

TEST("a record may lie where only root's privilege can make files") {
  if (geteuid() != 0) SKIP("needs root");
  const TemporaryDirectory out;
  const std::string theirs = out.path() + "/theirs";
  make_directories(theirs);
  CHECK_EQ(chown(theirs.c_str(), 65534, 65534), 0);
  CHECK_EQ(chmod(theirs.c_str(), 0755), 0);
  const Result result = trial([](Subject& subject) { subject.start_run(); }, {.record = theirs + "/trial.jsonl"});
  CHECK_EQ(result.exit_code, 0);
  CHECK_EQ(result.outcome(), "ok");
  CHECK(result.raw.starts_with("MISFRAW1"));
}

/// In a process of its own. @return nothing when all is well, "cannot" where it cannot be arranged
std::string try_in_a_chroot(const std::string& top) {
  const auto threads = std::filesystem::directory_iterator("/proc/self/task");
  if (std::distance(begin(threads), end(threads)) != 1) return "cannot";  // a sanitizer's own: the kernel wants a process alone
  // A tree whose top is no mount point, below mounts that are shared with the namespace that looks on.
  const std::string root = top + "/root";
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("canary", top.c_str(), "tmpfs", 0, nullptr) != 0)
    return "cannot";
  for (const char* directory : {"/proc", "/dev/shm", "/tmp"}) make_directories(root + directory);
  if (mount("/proc", (root + "/proc").c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr) != 0)
    return "cannot";
  const std::string before = read_whole_file("/proc/self/mountinfo");
  const Result result = trial(
      [](Subject& subject) {
        subject.start_run();
        subject.note("inside", Json(access("/trial.jsonl", F_OK) == 0 && access("/root", F_OK) != 0));
        subject.note("shm", Json(read_whole_file("/proc/self/mountinfo").find(private_shm_source) != std::string::npos));
      },
      {.before = [&] { return unshare(CLONE_NEWNS) == 0 && chroot(root.c_str()) == 0 && chdir("/") == 0; },
       .record = "/trial.jsonl",
       .record_outside = root + "/trial.jsonl"});
  if (result.exit_code == 77) return "cannot";
  if (result.outcome() != "ok") return "the outcome is " + result.outcome() + ": " + result.what();
  const std::string containment = result.line("trial")->at("containment").as_string();
  if (containment != "namespaces") return "the containment is " + containment + ": " + result.line("trial")->dump();
  if (!result.line("note", "inside")->at("value").as_bool()) return "it ran outside of the chroot";
  if (!result.line("note", "shm")->at("value").as_bool()) return "it had no /dev/shm of its own";
  if (read_whole_file("/proc/self/mountinfo") != before) return "its mounts are seen outside";
  return {};
}

TEST("in a chroot root's trials have namespaces of their own and show nothing of it outside") {
  if (geteuid() != 0) SKIP("needs root");
  const TemporaryDirectory out;
  const std::string top = out.path() + "/mount", answer = out.path() + "/answer";
  make_directories(top);
  const pid_t child = fork();
  if (child == 0) {
    try {
      write_file_atomically(answer, try_in_a_chroot(top));
    } catch (const std::exception& error) {
      write_file_atomically(answer, error.what());
    }
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const std::string said = read_whole_file(answer);
  if (said == "cannot") SKIP("a chroot cannot be arranged here");
  CHECK_EQ(said, "");
}

}  // namespace
}  // namespace misfire
