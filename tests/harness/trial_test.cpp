// Trials of the smallest scenario, each in its own driver process, in every containment that can be had.

#include "harness/trial.hpp"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <set>
#include <sstream>

#include "harness/capability.hpp"
#include "harness/clock.hpp"
#include "harness/containment.hpp"
#include "harness/files.hpp"
#include "harness/procfs.hpp"
#include "tests/check.hpp"
#include "tests/harness/tiers.hpp"
#include "tests/harness/tiny.hpp"

namespace misfire {
namespace {

std::set<std::string> entries(const char* directory, std::string_view ending = "") {
  std::set<std::string> names;
  if (DIR* open = opendir(directory)) {
    while (const dirent* entry = readdir(open))
      if (std::string_view(entry->d_name).ends_with(ending)) names.insert(entry->d_name);
    closedir(open);
  }
  return names;
}

struct Result {
  int exit_code = -1;
  std::vector<Json> lines;
  std::int64_t elapsed_ns = 0;
  bool clean = false;  ///< no process, file or temporary directory stayed
  std::string raw;

  const Json* line(std::string_view type) const {
    const auto found = std::find_if(lines.begin(), lines.end(), [&](const Json& l) { return l.at("type").as_string() == type; });
    return found == lines.end() ? nullptr : &*found;
  }
  std::string outcome() const { return line("outcome") ? line("outcome")->at("kind").as_string() : "none"; }
  double metric(std::string_view name) const {
    for (const Json& l : lines)
      if (l.at("type").as_string() == "metric" && l.at("name").as_string() == name) return l.at("value").as_double();
    return -1;
  }
};

/// Runs one trial in a child; nothing when the containment cannot be had here.
std::optional<Result> run_tiny(Containment tier, const TrialPlan& plan, Duration deadline = std::chrono::seconds(20)) {
  const TemporaryDirectory out;
  const std::string temporary = out.path() + "/tmp";
  make_directories(temporary);
  std::string ending = temporary + "-tiny";
  std::replace(ending.begin(), ending.end(), '/', '-');
  Result result;
  const std::int64_t start = monotonic_ns();
  const pid_t driver = fork();
  if (driver == 0) {
    setenv("TMPDIR", temporary.c_str(), 1);
    if (!allow_at_best(tier)) _exit(77);
    TrialOptions options;
    options.record = out.path() + "/trial.jsonl";
    options.deadline = deadline;
    options.seed = 11;
    try {
      _exit(static_cast<int>(run_planned_trial(tiny::scenario(), tiny::faults, plan, options, Json::object({{"arm", "mine"}}))));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(99);
    }
  }
  int status = 0;
  waitpid(driver, &status, 0);
  result.elapsed_ns = monotonic_ns() - start;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (result.exit_code == 77) return std::nullopt;
  // We are a subreaper in this test: whatever was left would be our child now.
  // Killed processes may take a moment to go: two seconds at most.
  const std::int64_t patience = monotonic_ns() + 2'000'000'000;
  do {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    result.clean = descendants(getpid()).empty() && entries("/dev/shm", ending).empty() && entries(temporary.c_str()).size() == 2;
    if (!result.clean) usleep(10'000);
  } while (!result.clean && monotonic_ns() < patience);
  std::istringstream text(read_whole_file(out.path() + "/trial.jsonl"));
  for (std::string line; std::getline(text, line);) result.lines.push_back(Json::parse(line, "trial.jsonl"));
  if (access((out.path() + "/trial.jsonl.raw").c_str(), R_OK) == 0) result.raw = read_whole_file(out.path() + "/trial.jsonl.raw");
  if (const Json* trial = result.line("trial"); trial && trial->find("containment")) {
    // A poorer machine, or a sanitizer's own thread, may give less than was allowed; the record says so.
    const std::string got = trial->at("containment").as_string();
    CHECK_EQ(trial->find("containment_refused") != nullptr, got != containment_name(Containment::user_namespace));
    if (got != containment_name(tier) && tier != Containment::user_namespace) return std::nullopt;  // tried already
  }
  return result;
}

/// Calls `check` with the result of one trial in every containment that can be had; at least one can.
template <class Check>
void in_every_containment(const TrialPlan& plan, Duration deadline, Check&& check) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int had = 0;
  for (const Containment tier : all_containments) {
    const auto result = run_tiny(tier, plan, deadline);
    if (!result) continue;
    ++had;
    CHECK(result->clean);
    check(*result, tier);
  }
  CHECK(had > 0);
}
constexpr Duration enough = std::chrono::seconds(20);

TEST("a trial records what its workload did") {
  in_every_containment(tiny::plan("ok", 2), enough, [](const Result& result, Containment) {
    CHECK_EQ(result.exit_code, 0);
    CHECK_EQ(result.outcome(), "ok");
    CHECK_EQ(result.line("trial"), &result.lines.front());
    CHECK_EQ(result.line("outcome"), &result.lines.back());
    const Json& trial = *result.line("trial");
    CHECK_EQ(trial.at("arm").as_string(), "mine");
    CHECK_EQ(trial.at("scenario").as_string(), "tiny");
    CHECK_EQ(trial.at("seed").as_uint(), 11U);
    CHECK_EQ(trial.at("sites").as_array().size(), 3U);
    CHECK_EQ(result.line("options")->at("options").at("workers").as_int(), 2);
    CHECK_EQ(result.line("lane")->at("written").as_int(), 4);
    CHECK_EQ(result.metric("events"), 2);  // those of the run phase
    CHECK_EQ(result.metric("value"), 4.5);
    CHECK_EQ(result.metric("dropped"), 0);
    CHECK_EQ(result.metric("processes"), 3);
    CHECK_EQ(result.line("missing")->at("name").as_string(), "moon_phase");
    bool noted = false;
    for (const Json& line : result.lines)
      noted = noted || (line.at("type").as_string() == "note" && line.at("name").as_string() == "answer" &&
                        line.at("value").at("value").as_int() == 42);
    CHECK(noted);
    CHECK(result.raw.starts_with("MISFRAW1"));
    CHECK(result.elapsed_ns < 5'000'000'000);
  });
}

TEST("a look sees the memory that it was asked to watch") {
  in_every_containment(tiny::plan("look"), enough, [](const Result& result, Containment) {
    CHECK_EQ(result.outcome(), "ok");
    CHECK_EQ(result.metric("look_tag"), 42);
    CHECK_EQ(result.metric("region_private_dirty"), 1 << 20);
  });
}

TEST("events that found no room are counted in the record") {
  in_every_containment(tiny::plan("fill_lane"), enough, [](const Result& result, Containment) {
    CHECK(result.metric("dropped") > 0);
    const double accounted =
        result.metric("events") + result.metric("dropped");  // the last mark, after the run, may be among the dropped
    CHECK(accounted == (1 << 17) + 2 || accounted == (1 << 17) + 3);
  });
}

TEST("a failure of the workload is data") {
  in_every_containment(tiny::plan("failed"), enough, [](const Result& result, Containment) {
    CHECK_EQ(result.exit_code, 0);
    CHECK_EQ(result.outcome(), "failed");
    CHECK_EQ(result.line("outcome")->at("failure").as_string(), "no_space");
    CHECK_EQ(result.line("outcome")->at("what").as_string(), "there was no room");
    CHECK_EQ(result.metric("events"), 2);
  });
}

TEST("an exception is our error and is told") {
  for (const char* behaviour : {"throw", "throw_early"})
    in_every_containment(tiny::plan(behaviour), enough, [](const Result& result, Containment) {
      CHECK_EQ(result.exit_code, static_cast<int>(Exit::internal));
      CHECK_EQ(result.outcome(), "error");
      CHECK(result.line("outcome")->at("what").as_string().starts_with("tiny: asked to fail"));
    });
}

TEST("an exit from under us is an error") {
  in_every_containment(tiny::plan("exit"), enough, [](const Result& result, Containment) {
    CHECK_EQ(result.outcome(), "error");
    CHECK_EQ(result.line("outcome")->at("exit_code").as_int(), 3);
    CHECK(result.line("outcome")->at("what").as_string().find("exited with 3") != std::string::npos);
  });
}

TEST("a crash leaves a record with everything up to it") {
  in_every_containment(tiny::plan("segv", 2), enough, [](const Result& result, Containment) {
    CHECK_EQ(result.exit_code, 0);
    CHECK_EQ(result.outcome(), "signal");
    CHECK_EQ(result.line("outcome")->at("signal").as_int(), SIGSEGV);
    CHECK_EQ(result.metric("events"), 2);
    CHECK_EQ(result.metric("value"), 4.5);
  });
}

TEST("a hang ends at the deadline") {
  in_every_containment(tiny::plan("hang", 2), std::chrono::milliseconds(400), [](const Result& result, Containment) {
    CHECK_EQ(result.exit_code, 0);
    CHECK_EQ(result.outcome(), "timeout");
    CHECK_EQ(result.metric("events"), 2);
    CHECK(result.elapsed_ns >= 400'000'000);
    CHECK(result.elapsed_ns < 3'000'000'000);
  });
}

TEST("a daemon that left its session does not outlive the trial") {
  for (const char* behaviour : {"escape", "escape_hang"})
    in_every_containment(tiny::plan(behaviour, 2), std::chrono::milliseconds(600), [&](const Result& result, Containment) {
      CHECK_EQ(result.outcome(), std::string(behaviour) == "escape" ? "ok" : "timeout");
      CHECK_EQ(result.metric("processes"), 4);  // the subject, two workers, the daemon
    });
}

TEST("an injection is proved by its evidence and a fault that does nothing is not") {
  for (const bool armed : {true, false})
    for (const bool works : {true, false}) {
      TrialPlan plan = tiny::plan("ok");
      plan.injections.push_back({{"fake.file", Json::object({{"works", works}})}, armed});
      in_every_containment(plan, enough, [&](const Result& result, Containment) {
        CHECK_EQ(result.outcome(), "ok");
        const Json* injection = result.line("injection");
        CHECK(injection != nullptr);
        if (!injection) return;
        CHECK_EQ(injection->at("armed").as_bool(), armed);
        CHECK_EQ(injection->at("proved").as_bool(), works || !armed);
        CHECK_EQ(injection->at("evidence").as_array().size(), 4U);
      });
    }
}

TEST("an injection is proved also when the workload crashes") {
  TrialPlan plan = tiny::plan("segv");
  plan.injections.push_back({{"fake.file", Json::object()}, true});
  in_every_containment(plan, enough, [](const Result& result, Containment) {
    CHECK_EQ(result.outcome(), "signal");
    CHECK(result.line("injection") && result.line("injection")->at("proved").as_bool());
  });
}

TEST("an unknown fault or option is refused") {
  TrialPlan unknown = tiny::plan("ok");
  unknown.injections.push_back({{"fake.moon", Json::object()}, true});
  in_every_containment(unknown, enough, [](const Result& result, Containment) {
    CHECK_EQ(result.outcome(), "error");
    CHECK(result.line("outcome")->at("what").as_string().find("fake.moon") != std::string::npos);
  });
  TrialPlan option = tiny::plan("ok");
  option.workload.set("behavior", "ok");
  const TemporaryDirectory out;
  TrialOptions options;
  CHECK_THROWS(run_planned_trial(tiny::scenario(), tiny::faults, option, options), "--record");
  options.record = out.path() + "/r.jsonl";
  CHECK_THROWS(run_planned_trial(tiny::scenario(), tiny::faults, option, options), "behaviour");
}

TEST("a trial costs little beyond its workload") {
  std::int64_t best = enough.count();
  for (int i = 0; i < 3; ++i)
    if (const auto result = run_tiny(Containment::user_namespace, tiny::plan("ok"))) best = std::min(best, result->elapsed_ns);
  if (best == enough.count()) SKIP("no user namespaces here");
  CHECK(best < 400'000'000);  // the bound on an idle machine is 100 ms
}

}  // namespace
}  // namespace misfire
