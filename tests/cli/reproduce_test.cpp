// Goal: the driver turns what trials leave into the right verdict, exit code and output, whatever becomes of the trials, and
// leaves nothing. Method: the driver itself, beside a stand-in for the scenario's executable that misbehaves on demand.

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "harness/files.hpp"
#include "harness/text.hpp"
#include "results/record_reader.hpp"
#include "tests/check.hpp"
#include "tests/cli/driver.hpp"

namespace misfire::test {
namespace {

namespace fs = std::filesystem;

Json only_run(const Json& json) { return json.at("runs").as_array().at(0); }

std::string text_at(const Json& json, std::string_view key) { return json.at(key).as_string(); }

struct Seen {
  ProcessResult process;
  Json json;
  std::string verdict, reason;
};

/// Runs a canned failure with --json. @param mode CANNED_MODE, in `arm` only when that is given
Seen reproduce(const std::string& name, std::vector<std::string> more = {}, const std::string& mode = "",
               const std::string& arm = "") {
  std::vector<std::string> arguments{"reproduce", canned(name), "--json", "-o", scratch() + "/out", "--seed", "7"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Seen seen{misfire(arguments, {"CANNED_MODE=" + mode, "CANNED_ARM=" + arm}), {}, "", ""};
  if (seen.process.out.empty()) return seen;
  seen.json = json_of(seen.process);
  const Json run = only_run(seen.json);
  seen.verdict = text_at(run, "verdict");
  if (const Json* reason = run.find("reason")) seen.reason = reason->as_string();
  return seen;
}

/// Processes that run the stand-in.
int stand_ins() {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::error_code error;
    const fs::path program = fs::read_symlink(entry.path() / "exe", error);
    if (!error && program == fs::path(DRIVER).parent_path() / "misfire-dataloader") ++count;
  }
  return count;
}

TEST("a failure is reproduced: control, faulty and remedied arms, verdict, record, exit code 0") {
  const Seen seen = reproduce("canned-signal");
  CHECK_EQ(seen.process.exit_code, 0);
  CHECK_EQ(seen.verdict, "reproduced");
  CHECK_EQ(only_run(seen.json).at("arms").as_array().size(), 3u);
  CHECK(seen.process.err.starts_with("seed 7 (replay with --seed 7)\n"));
  const RunRecord run = read_run_record(text_at(only_run(seen.json), "record"));
  CHECK_EQ(run.trials.size(), 3u);
  CHECK_EQ(run.header.at("seed").as_uint(), 7u);
  CHECK_EQ(run.failure.at("name").as_string(), "canned-signal");
  CHECK_EQ(run.verdict.at("verdict").as_string(), "reproduced");
}

TEST("a failure that takes blocks gets five of each arm, in an order drawn from the seed, each block with one seed") {
  const Seen seen = reproduce("canned-step");
  CHECK_EQ(seen.verdict, "reproduced");
  const RunRecord run = read_run_record(text_at(only_run(seen.json), "record"));
  CHECK_EQ(run.trials.size(), 15u);
  std::vector<std::string> orders;
  for (std::size_t block = 0; block < 5; ++block) {
    std::string order;
    for (std::size_t i = 3 * block; i < 3 * block + 3; ++i) {
      CHECK_EQ(run.trials[i].block, static_cast<int>(block));
      CHECK_EQ(run.trials[i].seed, run.trials[3 * block].seed);
      order += run.trials[i].arm + " ";
    }
    orders.push_back(order);
  }
  CHECK(std::adjacent_find(orders.begin(), orders.end(), std::not_equal_to<>()) != orders.end());
  const RunRecord again = read_run_record(text_at(only_run(reproduce("canned-step").json), "record"));
  for (std::size_t i = 0; i < run.trials.size(); ++i)
    CHECK_EQ(run.trials[i].arm + std::to_string(run.trials[i].seed), again.trials[i].arm + std::to_string(again.trials[i].seed));
}

TEST("an undecided interval asks for more blocks, up to the last look") {
  const Seen seen = reproduce("canned-step", {}, "noisy", "faulty");
  CHECK_EQ(seen.process.exit_code, 2);
  CHECK_EQ(seen.verdict, "inconclusive");
  CHECK_EQ(read_run_record(text_at(only_run(seen.json), "record")).trials.size(), 33u);
}

TEST("without the symptom it is not reproduced, without proof invalid") {
  const Seen symptomless = reproduce("canned-signal", {}, "symptomless");
  CHECK_EQ(symptomless.process.exit_code, 1);
  CHECK_EQ(symptomless.verdict, "not_reproduced");
  const Seen unproved = reproduce("canned-signal", {}, "unproved", "faulty");
  CHECK_EQ(unproved.process.exit_code, 3);
  CHECK_EQ(unproved.reason, "injection_not_proved");
}

TEST("sabotage: without the condition or the misuse invalid, with a broken signature not reproduced, and judge agrees") {
  CHECK_EQ(reproduce("canned-signal", {"--sabotage", "condition"}).verdict, "invalid");
  CHECK_EQ(reproduce("canned-step", {"--sabotage", "misuse"}).reason, "misuse_not_observed");
  const Seen broken = reproduce("canned-signal", {"--sabotage", "signature"});
  CHECK_EQ(broken.verdict, "not_reproduced");
  CHECK_EQ(misfire({"judge", text_at(only_run(broken.json), "record")}).exit_code, 1);
  const Seen nothing = reproduce("canned-step", {"--sabotage", "condition"});
  CHECK_EQ(nothing.process.exit_code, 64);
  CHECK(nothing.process.err.find("has no condition to take away") != std::string::npos);
}

TEST("doses: the neutral one is healthy, a sweep finds the onset, other spellings are the same dose") {
  const Seen neutral = reproduce("canned-signal", {"--dose", "268435456"});
  CHECK_EQ(neutral.reason, "neutral_dose_healthy");
  CHECK_EQ(neutral.process.exit_code, 1);
  CHECK_EQ(read_run_record(text_at(only_run(neutral.json), "record")).trials.size(), 2u);
  const Seen sweep = reproduce("canned-signal", {"--sweep"});
  CHECK_EQ(sweep.reason, "dose_response_as_stated");
  CHECK_EQ(read_run_record(text_at(only_run(sweep.json), "record")).trials.size(), 4u);  // one control for all
  CHECK_EQ(reproduce("canned-step", {"--sweep"}).reason, "dose_response_as_stated");     // its dose reaches the control
  CHECK_EQ(reproduce("canned-signal", {"--dose", "256MiB", "--sweep"}).process.exit_code, 64);
}

TEST("all arms, one arm alone, a block count of one's own") {
  CHECK_EQ(only_run(reproduce("canned-signal", {"--all-arms"}).json).at("arms").as_array().size(), 5u);
  const ProcessResult alone =
      misfire({"reproduce", canned("canned-signal"), "--arm", "faulty", "--json", "-o", scratch() + "/out"});
  CHECK_EQ(alone.exit_code, 0);
  const Json run = only_run(json_of(alone)), trial = run.at("trials").as_array().at(0);
  CHECK_EQ(trial.at("metrics").at("worker_signal").as_int(), 7);
  CHECK_EQ(trial.at("missing").at("remote_page_fraction").as_string(), "one node");
  CHECK(run.find("verdict") == nullptr);
  CHECK_EQ(read_run_record(text_at(only_run(reproduce("canned-step", {"--blocks", "6"}).json), "record")).trials.size(), 18u);
  CHECK_EQ(reproduce("canned-signal", {"--blocks", "6"}).process.exit_code, 64);
  CHECK_EQ(reproduce("canned-step", {"--blocks", "3"}).process.exit_code, 64);
  const Seen nearest = reproduce("canned-signal", {"--arm", "fualty"});
  CHECK_EQ(nearest.process.exit_code, 64);
  CHECK(nearest.process.err.find("did you mean 'faulty'") != std::string::npos);
}

TEST("a trial that dies, gives up, hangs or is cut is our error, told in one line, and judge says the same") {
  for (const char* mode : {"crash", "exit70", "cut", "after_outcome"}) {
    const Seen seen = reproduce("canned-signal", {}, mode, "faulty");
    CHECK_EQ(seen.process.exit_code, 70);
    CHECK_EQ(seen.reason, "trial_error");
    CHECK_EQ(misfire({"judge", text_at(only_run(seen.json), "record")}).exit_code, 70);
  }
  const Seen gave_up = reproduce("canned-signal", {}, "exit70", "faulty");
  CHECK(text_at(only_run(gave_up.json), "explanation").find("the canned trial gave up") != std::string::npos);
  CHECK(text_at(only_run(reproduce("canned-signal", {}, "full").json), "explanation").find("No space left on device") !=
        std::string::npos);
}

TEST("a trial that refuses its options is the caller's mistake; one that is skipped is skipped") {
  const Seen refused = reproduce("canned-signal", {}, "usage");
  CHECK_EQ(refused.process.exit_code, 64);
  CHECK(refused.process.err.find("no such workload here") != std::string::npos);
  const Seen skipped = reproduce("canned-signal", {}, "skip");
  CHECK_EQ(skipped.process.exit_code, 77);
  CHECK_EQ(skipped.verdict, "skipped");
}

TEST("a missing capability skips the failure before any trial, and judge says the same") {
  Json failure = Json::read_file(canned("canned-signal"));
  Json doctor = json_of(misfire({"doctor", "--json"}));
  std::string missing;
  for (const Json& capability : doctor.as_array())
    if (!capability.at("present").as_bool()) missing = capability.at("name").as_string();
  if (missing.empty()) SKIP("this machine has every capability");
  failure.set("needs", Json::array({Json(missing)}));
  const std::string directory = scratch(), path = directory + "/canned-signal.json";
  write_file_atomically(path, failure.dump(2));
  const ProcessResult result = misfire({"reproduce", path, "--json", "-o", directory + "/out"});
  CHECK_EQ(result.exit_code, 77);
  CHECK(text_at(only_run(json_of(result)), "explanation").starts_with(missing + ": "));
  CHECK(!fs::exists(directory + "/out/trial-001.jsonl"));
  CHECK_EQ(misfire({"judge", directory + "/out"}).exit_code, 77);
}

TEST("what a trial leaves is a leak, named, and removed") {
  for (const auto& [mode, what] :
       {std::pair{"leave_process", "process "}, {"leave_file", "file "}, {"leave_shared_memory", "shared memory "}}) {
    const Seen seen = reproduce("canned-signal", {}, mode, "remedied");
    CHECK_EQ(seen.process.exit_code, 4);
    CHECK_EQ(seen.verdict, "leak");
    CHECK(text_at(only_run(seen.json), "explanation").find(what) != std::string::npos);
  }
  CHECK_EQ(stand_ins(), 0);
  for (const auto& entry : fs::directory_iterator("/dev/shm")) CHECK(!entry.path().filename().string().ends_with("-left"));
}

TEST("what others make beside a trial is not blamed on it, and stays") {
  CHECK_EQ(reproduce("canned-signal", {}, "neighbour").verdict, "reproduced");
  CHECK(fs::remove("/dev/shm/misfire-1-neighbour"));
}

TEST("several failures: a table as the last output, the worst verdict decides, reports for build servers") {
  const std::string directory = scratch();
  const auto both = [&](const std::string& mode, const std::string& arm) {
    return misfire({"reproduce", canned("canned-signal"), canned("canned-step"), "-o", directory + "/out", "--junit",
                    directory + "/out.xml", "--markdown", directory + "/out.md"},
                   {"CANNED_MODE=" + mode, "CANNED_ARM=" + arm});
  };
  const ProcessResult well = both("", "");
  CHECK_EQ(well.exit_code, 0);
  const std::vector<std::string> lines = split(well.out, '\n');
  CHECK(lines.at(lines.size() - 2).find("2 ") != std::string::npos &&
        lines.at(lines.size() - 2).find("reproduced in ") != std::string::npos);
  CHECK(fs::exists(directory + "/out/canned-signal/record.jsonl") && fs::exists(directory + "/out/canned-step/record.jsonl"));
  CHECK(read_whole_file(directory + "/out.xml").find("tests=\"2\" failures=\"0\"") != std::string::npos);
  CHECK(read_whole_file(directory + "/out.md").find("canned-step") != std::string::npos);
  CHECK_EQ(both("unproved", "faulty").exit_code, 3);  // one invalid, one reproduced
  CHECK(read_whole_file(directory + "/out.xml").find("errors=\"1\"") != std::string::npos);
}

TEST("repeated runs have seeds of their own, counts and an interval") {
  const std::string out = scratch() + "/out";
  const ProcessResult result =
      misfire({"reproduce", canned("canned-signal"), "--repeat", "3", "--json", "-o", out, "--seed", "11"});
  const Json json = json_of(result);
  CHECK_EQ(json.at("runs").as_array().size(), 3u);
  CHECK(!(json.at("runs").as_array()[0].at("seed") == json.at("runs").as_array()[1].at("seed")));
  const Json& count = json.at("repeat").as_array().at(0);
  CHECK_EQ(count.at("count").as_int(), 3);
  CHECK_NEAR(count.at("low").as_double(), 0.2924, 0.001);  // 0.025^(1/3)
  CHECK(fs::exists(out + "/run-3/record.jsonl"));
  const ProcessResult text = misfire({"reproduce", canned("canned-signal"), "--repeat", "2", "-o", out});
  CHECK(text.out.find("canned-signal: reproduced 2 of 2 (95 %: 15.8 to 100.0 %)") != std::string::npos);
}

TEST("an expectation that is met is success, one that is missed a failure, and errors keep their code") {
  CHECK_EQ(reproduce("canned-signal", {"--expect", "reproduced"}).process.exit_code, 0);
  CHECK_EQ(reproduce("canned-signal", {"--expect", "invalid"}).process.exit_code, 1);
  CHECK_EQ(reproduce("canned-signal", {"--expect", "invalid", "--sabotage", "condition"}).process.exit_code, 0);
  CHECK_EQ(reproduce("canned-signal", {"--expect", "reproduced"}, "crash").process.exit_code, 70);
  CHECK_EQ(reproduce("canned-signal", {"--expect", "reproduced"}, "skip").process.exit_code, 77);
  CHECK_EQ(reproduce("canned-signal", {"--expect", "error"}, "crash").process.exit_code, 0);
}

TEST("the replay command runs as it is and gives the same trials") {
  const Seen seen = reproduce("canned-step", {"--dose", "2"});
  const std::string directory = scratch();
  const ProcessResult replayed =
      run_process({.argv = {"/bin/sh", "-c", "cd " + directory + " && " + text_at(only_run(seen.json), "replay") + " --json"},
                   .timeout = std::chrono::seconds(60)});
  CHECK_EQ(replayed.exit_code, 0);
  const RunRecord first = read_run_record(text_at(only_run(seen.json), "record"));
  const RunRecord second = read_run_record(directory + "/" + text_at(only_run(json_of(replayed)), "record"));
  CHECK_EQ(first.trials.size(), second.trials.size());
  for (std::size_t i = 0; i < first.trials.size(); ++i)
    CHECK_EQ(first.trials[i].metric("step_seconds")->number(), second.trials[i].metric("step_seconds")->number());
}

TEST("nothing is written outside the output directory, and a second run replaces the first") {
  const std::string directory = scratch();
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"reproduce", canned("canned-step"), "-o", directory + "/out"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return misfire(arguments).exit_code;
  };
  CHECK_EQ(run({}), 0);
  write_file_atomically(directory + "/out/mine.txt", "kept");
  CHECK(fs::exists(directory + "/out/trial-015.jsonl"));
  CHECK_EQ(run({"--arm", "control"}), 0);
  CHECK(!fs::exists(directory + "/out/trial-015.jsonl"));
  CHECK(fs::exists(directory + "/out/mine.txt"));
  CHECK(!fs::exists(directory + "/out/tmp"));
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(directory)) ++entries;
  CHECK_EQ(entries, 1);
}

TEST("a directory that cannot be written, or is being written, is one clear line") {
  const ProcessResult forbidden = misfire({"reproduce", canned("canned-signal"), "-o", "/sys/misfire/out"});
  CHECK_EQ(forbidden.exit_code, 70);
  CHECK(forbidden.err.find("/sys/misfire") != std::string::npos);
  const ProcessResult junit =
      misfire({"reproduce", canned("canned-signal"), "-o", scratch() + "/out", "--junit", "/nowhere/out.xml"});
  CHECK_EQ(junit.exit_code, 64);
  CHECK(junit.out.empty());
  const ProcessResult data =
      misfire({"reproduce", canned("canned-signal"), "-o", scratch() + "/out"}, {"CANNED_MODE=unprepared"});
  CHECK_EQ(data.exit_code, 70);
  CHECK(data.err.find("No space left on device") != std::string::npos);
  const ProcessResult full = run_process({.argv = {"/bin/sh", "-c", std::string(DRIVER) + " list >/dev/full"}});
  CHECK_EQ(full.exit_code, 70);
  CHECK(full.err.find("standard output") != std::string::npos);
}

/// Starts the driver on a failure whose faulty trial hangs, waits until that trial is there, and sends the driver a signal.
int end_driver(int signal_number, const std::string& out) {
  const std::string failure = canned("canned-signal");
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("CANNED_MODE", "hang", 1);
    setpgid(0, 0);
    if (std::freopen("/dev/null", "w", stdout) == nullptr || std::freopen("/dev/null", "w", stderr) == nullptr) _exit(127);
    execl(DRIVER, DRIVER, "reproduce", failure.c_str(), "-o", out.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  for (int i = 0; i < 500 && stand_ins() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(stand_ins() > 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(pid, signal_number);
  int status = 0;
  waitpid(pid, &status, 0);
  for (int i = 0; i < 300 && stand_ins() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK_EQ(stand_ins(), 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST("interrupted, the driver ends its trial, says so in the record, and exits with 128 + signal") {
  const std::string out = scratch() + "/out";
  CHECK_EQ(end_driver(SIGINT, out), 130);
  CHECK_EQ(read_run_record(out + "/record.jsonl").verdict.at("verdict").as_string(), "interrupted");
  CHECK(!fs::exists(out + "/tmp"));
  CHECK_EQ(end_driver(SIGTERM, scratch() + "/out"), 143);
}

TEST("killed, the driver leaves no process, and its directory can be used again") {
  const std::string out = scratch() + "/out";
  CHECK_EQ(end_driver(SIGKILL, out), -SIGKILL);
  CHECK_EQ(misfire({"reproduce", canned("canned-signal"), "-o", out}).exit_code, 0);
}

TEST("two drivers do not write to one directory") {
  const std::string out = scratch() + "/out";
  fs::create_directories(out);
  const int held = open(out.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK_EQ(flock(held, LOCK_EX), 0);
  const ProcessResult refused = misfire({"reproduce", canned("canned-signal"), "-o", out});
  CHECK_EQ(refused.exit_code, 64);
  CHECK(refused.err.find("another misfire is writing") != std::string::npos);
  close(held);
  CHECK_EQ(misfire({"reproduce", canned("canned-signal"), "-o", out}).exit_code, 0);
}

TEST("a trial whose witness does not keep the deadline is ended by the driver") {
  const auto begin = std::chrono::steady_clock::now();
  const ProcessResult result =
      misfire({"reproduce", canned("canned-signal"), "--deadline", "100ms", "--arm", "faulty", "-o", scratch() + "/out"},
              {"CANNED_MODE=hang"});
  CHECK_EQ(result.exit_code, 70);
  CHECK(result.out.find("did not end in time") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  CHECK_EQ(stand_ins(), 0);
}

}  // namespace
}  // namespace misfire::test
