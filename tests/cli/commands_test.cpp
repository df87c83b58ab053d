// Goal: the commands that look things up answer, with exit code and JSON as promised, and say what is wrong with a wrong
// question. Method: the driver itself.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "harness/files.hpp"
#include "harness/text.hpp"
#include "tests/check.hpp"
#include "tests/cli/driver.hpp"

namespace misfire::test {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Wrong usage: exit code 64, nothing on standard output, one line on standard error that contains `part`.
void refused(std::vector<std::string> arguments, const std::string& part) {
  const ProcessResult result = misfire(arguments);
  CHECK_EQ(result.exit_code, 64);
  CHECK_EQ(result.out, "");
  CHECK_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
  if (!contains(result.err, part)) CHECK_EQ(result.err, part);
}

TEST("mistakes are one line with the nearest name, exit code 64") {
  refused({"reproduec"}, "did you mean 'reproduce'");
  refused({"--verison"}, "unknown option '--verison'");
  refused({"list", "--jsn"}, "did you mean '--json'");
  refused({"list", "--owner", "jobs"}, "did you mean 'job'");
  refused({"list", "--scenario", "dataloadr"}, "did you mean 'dataloader'");
  refused({"show"}, "which failure?");
  refused({"show", "shm-exhaustion"}, "no failure is named");
  refused({"show", "./nothing.json"}, "nothing.json");
  refused({"reproduce"}, "which failure?");
  refused({"reproduce", "shm-exhaustion-sigbuss"}, "did you mean 'shm-exhaustion-sigbus'");
  refused({"reproduce", canned("canned-signal"), "--scenario", "dataloader"}, "not both");
  refused({"reproduce", canned("canned-signal"), "--repeat", "0"}, "--repeat");
  refused({"reproduce", canned("canned-signal"), "--seed", "abc"}, "--seed");
  refused({"reproduce", canned("canned-signal"), "--expect", "reproduce"}, "did you mean 'reproduced'");
  refused({"reproduce", canned("canned-signal"), "--arm", "faulty", "--expect", "reproduced"}, "without a verdict");
  refused({"matrix"}, "which scenario?");
  refused({"judge"}, "which record?");
  refused({"judge", "/nowhere/record.jsonl"}, "/nowhere/record.jsonl");
  refused({"baseline"}, "record or compare");
  refused({"baseline", "compar"}, "did you mean 'compare'");
  refused({"doctor", "--require", "gpuu"}, "gpu");
  refused({"doctor", "extra"}, "unexpected argument 'extra'");
  refused({"faults", "mem.shm_sise"}, "did you mean 'mem.shm_size'");
  refused({"schema", "failures"}, "did you mean 'failure'");
  refused({"completion", "tcsh"}, "bash, zsh, fish");
  refused({"help", "lst"}, "did you mean 'list'");
}

TEST("without a command: the overview on standard error, exit code 64") {
  const ProcessResult result = misfire({});
  CHECK_EQ(result.exit_code, 64);
  CHECK_EQ(result.out, "");
  CHECK(contains(result.err, "usage: misfire COMMAND"));
}

TEST("list: all, by owner, by symptom, by a log on standard input, as JSON, as names") {
  const Json all = json_of(misfire({"list", "--json"}));
  CHECK(all.as_array().size() >= 8);
  const Json jobs = json_of(misfire({"list", "--owner", "job", "--json"}));
  CHECK(!jobs.as_array().empty() && jobs.as_array().size() < all.as_array().size());
  for (const Json& failure : jobs.as_array()) CHECK_EQ(failure.at("owner").as_string(), "job");
  const ProcessResult symptom = misfire({"list", "DataLoader worker (pid 4711) is killed by signal: Bus error"});
  CHECK_EQ(symptom.exit_code, 0);
  CHECK(symptom.out.starts_with("shm-exhaustion-sigbus  job"));
  CHECK(contains(symptom.out, "Next: misfire show shm-exhaustion-sigbus"));
  CHECK_EQ(misfire({"list", "--names", "Bus", "error"}).out, "shm-exhaustion-sigbus\n");
  const ProcessResult log =
      run_process({.argv = {"/bin/sh", "-c", "printf 'step 1\\nSIGBUS in worker: Bus error\\n' | " DRIVER " list --names -"}});
  CHECK_EQ(log.out, "shm-exhaustion-sigbus\n");
}

TEST("list: what resembles nothing is exit code 1 and says so; JSON stays JSON") {
  const ProcessResult nothing = misfire({"list", "connection refused"});
  CHECK_EQ(nothing.exit_code, 1);
  CHECK_EQ(nothing.out, "");
  CHECK(contains(nothing.err, "no failure resembles that text"));
  CHECK_EQ(json_of(misfire({"list", "connection refused", "--json"})).as_array().size(), 0u);
}

TEST("show: a shipped failure, a file of one's own, a broken file with its line") {
  const ProcessResult shipped = misfire({"show", "shm-exhaustion-sigbus"});
  CHECK_EQ(shipped.exit_code, 0);
  for (const char* part : {"cause", "remedy", "who acts", "seen as", "signature", "sources", "needs", "Next: misfire reproduce"})
    CHECK(contains(shipped.out, part));
  golden("show.txt", misfire({"show", canned("canned-signal")}).out);
  CHECK_EQ(json_of(misfire({"show", canned("canned-signal"), "--json"})).at("name").as_string(), "canned-signal");
  const std::string path = scratch() + "/broken.json";
  std::string text = read_whole_file(canned("canned-signal"));
  text.replace(text.find("\"remedy\""), 8, "\"remdey\"");
  write_file_atomically(path, text);
  const ProcessResult broken = misfire({"show", path});
  CHECK_EQ(broken.exit_code, 64);
  CHECK(contains(broken.err, path + ":7:") && contains(broken.err, "did you mean 'remedy'"));
  CHECK(contains(misfire({"show", "--options", "dataloader"}).out, "--prefetch-factor"));
}

TEST("doctor: every capability with its reason; what is required and missing is exit code 1") {
  const Json all = json_of(misfire({"doctor", "--json"}));
  CHECK(all.as_array().size() >= 10);
  std::string present, missing;
  for (const Json& capability : all.as_array()) {
    CHECK(!capability.at("reason").as_string().empty());
    (capability.at("present").as_bool() ? present : missing) = capability.at("name").as_string();
  }
  if (!present.empty()) CHECK_EQ(misfire({"doctor", "--require", present}).exit_code, 0);
  if (missing.empty()) SKIP("this machine has every capability");
  const ProcessResult required = misfire({"doctor", "--require", present.empty() ? missing : present + "," + missing});
  CHECK_EQ(required.exit_code, 1);
  CHECK(contains(required.out, "missing: " + missing));
}

TEST("env, faults, schema and version answer, as text and as JSON") {
  CHECK(contains(misfire({"env"}).out, "hardware_class"));
  CHECK(!json_of(misfire({"env", "--json"})).at("hardware_class").as_string().empty());
  CHECK(contains(misfire({"faults"}).out, "mem.shm_size"));
  CHECK(contains(misfire({"faults", "mem.shm_size"}).out, "--size"));
  CHECK_EQ(json_of(misfire({"faults", "mem.shm_size", "--json"})).as_array().size(), 1u);
  for (const std::string& name : split(misfire({"schema"}).out, '\n'))
    if (!name.empty()) CHECK(json_of(misfire({"schema", name})).find("$schema") != nullptr);
  CHECK_EQ(misfire({"version"}).out, misfire({"--version"}).out);
  CHECK(misfire({"version"}).out.starts_with("misfire "));
  CHECK_EQ("misfire " + json_of(misfire({"version", "--json"})).at("version").as_string() + "\n", misfire({"version"}).out);
}

TEST("judge: the verdict of a record, again; of a directory; of several the worst; not of something else") {
  const std::string out = scratch() + "/out";
  CHECK_EQ(misfire({"reproduce", canned("canned-signal"), "-o", out}).exit_code, 0);
  const ProcessResult again = misfire({"judge", out});
  CHECK_EQ(again.exit_code, 0);
  CHECK(contains(again.out, "REPRODUCED"));
  CHECK(!contains(again.out, "recorded"));
  const std::string bad = scratch() + "/out";
  CHECK_EQ(misfire({"reproduce", canned("canned-signal"), "-o", bad, "--sabotage", "condition"}).exit_code, 3);
  CHECK_EQ(misfire({"judge", out, bad}).exit_code, 3);
  const Json json = json_of(misfire({"judge", out, bad, "--json"}));
  CHECK_EQ(json.as_array().at(0).at("verdict").as_string(), "reproduced");
  CHECK_EQ(json.as_array().at(1).at("verdict").as_string(), "invalid");

  std::string record = read_whole_file(out + "/record.jsonl");
  const std::size_t at =
      record.find("{\"name\":\"worker_signal\"") == std::string::npos ? record.find("\"worker_signal\",\"value\":7") : 0;
  if (at != std::string::npos && at != 0) record.replace(at, 25, "\"worker_signal\",\"value\":9");
  write_file_atomically(out + "/changed.jsonl", record);
  const ProcessResult changed = misfire({"judge", out + "/changed.jsonl"});
  CHECK_EQ(changed.exit_code, 1);
  CHECK(contains(changed.out, "recorded  reproduced"));
  refused({"judge", canned("canned-signal")}, "canned-signal.json:1");
}

TEST("matrix: of records; a failure without a run is a problem") {
  const std::string out = scratch() + "/out";
  const ProcessResult none = misfire({"reproduce", canned("canned-signal"), "-o", out});
  CHECK_EQ(none.exit_code, 0);
  const ProcessResult matrix = misfire({"matrix", "--scenario", "dataloader", out});
  CHECK_EQ(matrix.exit_code, 1);
  CHECK(contains(matrix.out, "problem"));
  const Json json = json_of(misfire({"matrix", "--scenario", "dataloader", out, "--json"}));
  CHECK(!json.at("diagonal").as_bool());
  CHECK(!json.at("problems").as_array().empty());
}

TEST("baseline: recorded, compared, refused where there is none; a case that fails keeps nothing") {
  const std::string directory = scratch();
  const std::vector<std::string> common{
      "--directory", directory + "/kept", "-o", directory + "/out", "--case", "processes-1", "--case",
      "processes-4", "--launches",        "3"};
  const auto run = [&](const std::string& action, std::vector<std::string> environment = {}) {
    std::vector<std::string> arguments{"baseline", action};
    arguments.insert(arguments.end(), common.begin(), common.end());
    return misfire(arguments, environment);
  };
  const ProcessResult nothing = run("compare");
  CHECK_EQ(nothing.exit_code, 64);
  CHECK(contains(nothing.err, "misfire baseline record"));
  const ProcessResult failed = run("record", {"CANNED_MODE=crash"});
  CHECK_EQ(failed.exit_code, 70);
  CHECK(!fs::exists(directory + "/kept"));
  const ProcessResult recorded = run("record");
  CHECK_EQ(recorded.exit_code, 0);
  CHECK(contains(recorded.out, "1 session, 6 launches added"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // sessions are told apart by the second
  CHECK_EQ(run("compare").exit_code, 2);                         // one session: only floors can be checked
  CHECK_EQ(run("compare", {"CANNED_MODE=slow"}).exit_code, 1);
}

TEST("claims: published figures, what was measured, verdict") {
  const ProcessResult text = misfire({"claims"});
  CHECK_EQ(text.exit_code, 0);
  CHECK(contains(text.out, "dataloader.workers-zero"));
  const Json json = json_of(misfire({"claims", "--scenario", "dataloader", "--json"}));
  CHECK(json.at("claims").as_array().size() >= 2);
}

}  // namespace
}  // namespace misfire::test
