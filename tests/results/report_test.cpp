// Goal: a verdict reads the same everywhere: arms side by side with every condition's value and answer, the evidence, the reason,
// the replay. Method: golden files in tests/golden/results, from verdicts over trials made by hand; MISFIRE_UPDATE_GOLDEN=1
// writes them anew.

#include "results/report.hpp"

#include <cstdlib>
#include <functional>

#include "harness/files.hpp"
#include "tests/check.hpp"
#include "tests/results/trials.hpp"

using namespace misfire;
using namespace misfire::test;

namespace {

void golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(MISFIRE_SOURCE_DIR) + "/tests/golden/results/" + name;
  if (std::getenv("MISFIRE_UPDATE_GOLDEN") != nullptr) write_file_atomically(path, text);
  CHECK_EQ(text, read_whole_file(path));
}

Verdict reproduced() {
  const Failure failure = invariant_failure();
  return judge(failure, invariant_trials(failure));
}

const std::string replay = "misfire reproduce example-failure --seed 7";

std::vector<SummaryRow> rows() {
  return {
      {"shm-exhaustion-sigbus", VerdictKind::reproduced, "signature_present_and_cured", "cured", "", 1.25, replay},
      {"numa-binding-conflict", VerdictKind::reproduced, "signature_present_and_cured", "cured", "(partial: one memory node)", 2,
       ""},
      {"no-workers-serial", VerdictKind::not_reproduced, "signature_absent", "step_seconds / control = 1.1, wanted >= 1.2", "",
       4.5, replay},
      {"copy-on-write-growth", VerdictKind::skipped, "capability_missing", "userns: refused by AppArmor", "", 0.01, ""},
      {"in-order-head-of-line", VerdictKind::invalid, "fault_not_observed", "evidence <missing> & \"odd\" | here", "", 3, ""},
  };
}

}  // namespace

TEST("a verdict as a terminal shows it") {
  const Failure failure = invariant_failure();
  golden("reproduced.txt", verdict_text(failure, reproduced(), replay));
  std::vector<TrialRecord> trials = invariant_trials(failure);
  set_metric(of_arm(trials, "faulty"), "worker_signal", 9.0);
  golden("not_reproduced.txt", verdict_text(failure, judge(failure, trials), replay));
  trials = invariant_trials(failure);
  lose_metric(of_arm(trials, "faulty"), "shm_used_fraction", "the witness could not read it");
  golden("invalid.txt", verdict_text(failure, judge(failure, trials), replay));
}

TEST("blocks show their interval, and arms that do not fit go below") {
  const Failure failure = slow_step_failure();
  const std::vector<TrialRecord> trials = slow_step_trials(failure, 5, {.deeper = 2.1, .other = 1});
  const Verdict verdict = judge(failure, trials);
  golden("blocks.txt", verdict_text(failure, verdict, replay));
  golden("narrow.txt", verdict_text(failure, verdict, replay, {.width = 80}));
  golden("verdict.md", verdict_markdown(failure, verdict, replay));
}

TEST("colours are asked for, and change nothing but colours") {
  const Failure failure = invariant_failure();
  const std::string plain = verdict_text(failure, reproduced(), replay),
                    colourful = verdict_text(failure, reproduced(), replay, {.colour = true});
  CHECK(plain.find('\033') == std::string::npos);
  CHECK(colourful.find("\033[32m") != std::string::npos);
  std::string stripped;
  for (std::size_t i = 0; i < colourful.size(); ++i) {
    if (colourful[i] == '\033') {
      i = colourful.find('m', i);
    } else {
      stripped += colourful[i];
    }
  }
  CHECK_EQ(stripped, plain);
}

TEST("a run over several failures ends with a table") {
  golden("summary.txt", summary_text(rows(), 10.8));
  golden("summary.md", summary_markdown(rows(), 10.8));
  CHECK_EQ(summary_text({}, 0).find("nothing run") != std::string::npos, true);
}

TEST("JUnit counts what ctest and CI servers count") {
  const std::string xml = summary_junit(rows(), 10.8, "misfire.dataloader");
  golden("summary.xml", xml);
  CHECK(xml.find("tests=\"5\" failures=\"1\" errors=\"1\" skipped=\"1\"") != std::string::npos);
  CHECK(xml.find("<missing>") == std::string::npos);  // escaped
}

TEST("the matrix shows who carries whose signature, and every problem") {
  const Failure failure = invariant_failure(), other = slow_step_failure();
  RunRecord run, second;
  run.failure = failure.source;
  run.trials = invariant_trials(failure);
  second.failure = other.source;
  second.trials = slow_step_trials(other, 5);
  for (TrialRecord& record : run.trials) record.metrics.push_back({"step_seconds", Unit::seconds, 1.0});
  const std::vector<Failure> failures = {failure, other};
  const std::vector<RunRecord> runs = {run, second};
  golden("matrix.txt", matrix_text(confusion_matrix(failures, runs)));
}
