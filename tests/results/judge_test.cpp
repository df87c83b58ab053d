// Goal: each verdict has its own reason, in the order error, leak, skipped, invalid, not reproduced, inconclusive, reproduced;
// and nothing that is missing, cut, doubled or foreign ever passes. Method: whole runs of an invariant and of a failure of
// degree, in which one thing at a time is put wrong.

#include "results/judge.hpp"

#include <functional>

#include "tests/check.hpp"
#include "tests/results/trials.hpp"

using namespace misfire;
using namespace misfire::test;

namespace {

using Trials = std::vector<TrialRecord>;

/// "invalid: record_cut" of the invariant's run after `change`.
std::string after(const std::function<void(Trials&)>& change) {
  const Failure failure = invariant_failure();
  Trials trials = invariant_trials(failure);
  change(trials);
  const Verdict verdict = judge(failure, trials);
  CHECK(!verdict.explanation.empty());
  return std::string(verdict_name(verdict.kind)) + ": " + verdict.reason;
}

std::string of(const Failure& failure, const Trials& trials) {
  const Verdict verdict = judge(failure, trials);
  return std::string(verdict_name(verdict.kind)) + ": " + verdict.reason;
}

/// The same of the failure of degree, after five blocks.
std::string after_blocks(const SlowStep& seconds, const std::function<void(Trials&)>& change = {}) {
  const Failure failure = slow_step_failure();
  Trials trials = slow_step_trials(failure, 5, seconds);
  if (change) change(trials);
  return of(failure, trials);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST("a whole run is reproduced, with its evidence and its recovery") {
  const Failure failure = invariant_failure();
  const Verdict verdict = judge(failure, invariant_trials(failure));
  CHECK_EQ(verdict.reason, "signature_present_and_cured");
  CHECK(verdict.kind == VerdictKind::reproduced);
  CHECK_EQ(verdict.arms.size(), 3u);
  CHECK(verdict.arms[0].presence == Presence::absent);
  CHECK(verdict.arms[1].presence == Presence::present);
  CHECK_EQ(verdict.arms[1].conditions.at(0).explanation, "worker_signal = 7, wanted = 7");
  CHECK_EQ(verdict.evidence.size(), 2u);  // of the condition, in faulty and remedied
  CHECK(verdict.recovery_known);
  CHECK_EQ(verdict.recovery, 1.0);
  CHECK(verdict.partial.empty());
  CHECK(!verdict.needs_more_blocks);
}

TEST("an error of ours, then a leak, then a skip come before everything else") {
  const auto wrong = [](const std::string& what) {
    return [what](Trials& trials) {
      of_arm(trials, "control").complete = false;
      if (what == "skip") of_arm(trials, "remedied").skipped = "userns: refused";
      if (what == "leak" || what == "error") of_arm(trials, "faulty").outcome.set("leaks", Json::array({"/dev/shm/left"}));
      if (what == "leak") of_arm(trials, "remedied").skipped = "userns: refused";
      if (what == "error") of_arm(trials, "remedied").outcome = Json::object({{"kind", "error"}, {"what", "no memory"}});
    };
  };
  CHECK_EQ(after(wrong("error")), "error: trial_error");
  CHECK_EQ(after(wrong("leak")), "leak: left_behind");
  CHECK_EQ(after(wrong("skip")), "skipped: capability_missing");
  CHECK_EQ(after(wrong("nothing")), "invalid: record_cut");
}

TEST("what is missing, cut, doubled or foreign is invalid") {
  CHECK_EQ(after([](Trials& trials) { trials.clear(); }), "invalid: no_trials");
  for (const char* arm : {"control", "faulty", "remedied"}) {
    CHECK_EQ(after([&](Trials& trials) { std::erase_if(trials, [&](const auto& one) { return one.arm == arm; }); }),
             "invalid: arm_missing");
    CHECK_EQ(after([&](Trials& trials) { of_arm(trials, arm).complete = false; }), "invalid: record_cut");
    CHECK_EQ(after([&](Trials& trials) { trials.push_back(of_arm(trials, arm)); }), "invalid: duplicate_trial");
  }
  CHECK_EQ(after([](Trials& trials) { of_arm(trials, "faulty").failure = "another"; }), "invalid: foreign_trial");
  CHECK_EQ(after([](Trials& trials) { of_arm(trials, "faulty").arm = "another"; }), "invalid: unknown_arm");
  CHECK_EQ(after([](Trials& trials) { of_arm(trials, "faulty").role = Role::remedied; }), "invalid: unknown_arm");
  CHECK_EQ(after([](Trials& trials) { of_arm(trials, "faulty").has_condition = false; }), "invalid: unknown_arm");
  CHECK_EQ(after([](Trials& trials) {
             of_arm(trials, "faulty").dose = "18MiB";
             of_arm(trials, "remedied").dose = "256MiB";
           }),
           "invalid: mixed_doses");
  CHECK_EQ(after_blocks({},
                        [](Trials& trials) {
                          std::erase_if(trials, [](const auto& one) { return one.arm == "control" && one.block == 3; });
                        }),
           "invalid: block_incomplete");
}

TEST("a fault that was not proved, or in the wrong arm, is invalid") {
  CHECK_EQ(after([](Trials& trials) { of_arm(trials, "faulty").injections.at(0).proved = false; }),
           "invalid: injection_not_proved");
  CHECK_EQ(after([](Trials& trials) { of_arm(trials, "control").injections.at(0).proved = false; }),
           "invalid: injection_not_proved");
  CHECK_EQ(after([](Trials& trials) { of_arm(trials, "faulty").injections.at(0).armed = false; }), "invalid: fault_not_observed");
  CHECK_EQ(after([](Trials& trials) { of_arm(trials, "remedied").injections.clear(); }), "invalid: fault_not_observed");
  CHECK_EQ(after([](Trials& trials) { of_arm(trials, "control").injections.at(0).armed = true; }), "invalid: control_not_clean");
  const Failure failure = invariant_failure();
  Trials trials = invariant_trials(failure);
  of_arm(trials, "faulty").injections.at(0).proved = false;
  of_arm(trials, "faulty").injections.at(0).json =
      Json::parse(R"({"evidence": [{"what": "size of /dev/shm", "value": 64, "expected": 18, "holds": false}]})", "");
  CHECK(contains(judge(failure, trials).explanation, "size of /dev/shm = 64, expected 18"));
}

TEST("evidence that does not hold, or was not measured, is invalid") {
  CHECK_EQ(after([](Trials& trials) { set_metric(of_arm(trials, "faulty"), "shm_total_bytes", 1e9); }),
           "invalid: fault_not_observed");
  CHECK_EQ(after([](Trials& trials) { set_metric(of_arm(trials, "remedied"), "shm_total_bytes", 1e9); }),
           "invalid: fault_not_observed");
  CHECK_EQ(after([](Trials& trials) { lose_metric(of_arm(trials, "faulty"), "shm_total_bytes", "no tmpfs"); }),
           "invalid: evidence_not_measurable");
  CHECK_EQ(after([](Trials& trials) { set_metric(of_arm(trials, "control"), "shm_total_bytes", 0.0); }),
           "reproduced: signature_present_and_cured");  // nothing is claimed of the control
  CHECK_EQ(after_blocks({},
                        [](Trials& trials) {
                          for (int block = 0; block < 5; ++block)
                            set_metric(of_arm(trials, "faulty", block), "shm_total_bytes", 1e9);
                        }),
           "invalid: misuse_not_observed");
}

TEST("a control that is not clean is invalid") {
  CHECK_EQ(after([](Trials& trials) {
             set_metric(of_arm(trials, "control"), "worker_signal", 7.0);
             set_metric(of_arm(trials, "control"), "shm_used_fraction", 1.0);
           }),
           "invalid: control_not_clean");
  CHECK_EQ(after([](Trials& trials) { of_arm(trials, "control").outcome.set("kind", "timeout"); }), "invalid: control_not_clean");
  CHECK_EQ(after([](Trials& trials) {  // not known to be absent
             lose_metric(of_arm(trials, "control"), "worker_signal", "no wait status");
             set_metric(of_arm(trials, "control"), "shm_used_fraction", 1.0);
           }),
           "invalid: not_measurable");
}

TEST("no symptom in the faulty arm: not reproduced; unknown: invalid") {
  CHECK_EQ(after([](Trials& trials) { set_metric(of_arm(trials, "faulty"), "worker_signal", 9.0); }),
           "not_reproduced: signature_absent");
  CHECK_EQ(after([](Trials& trials) { lose_metric(of_arm(trials, "faulty"), "worker_signal", "no wait status"); }),
           "invalid: not_measurable");
  CHECK_EQ(after([](Trials& trials) {  // absent in one condition is absent, whatever else is unknown
             lose_metric(of_arm(trials, "faulty"), "worker_signal", "no wait status");
             set_metric(of_arm(trials, "faulty"), "shm_used_fraction", 0.5);
           }),
           "not_reproduced: signature_absent");
  CHECK_EQ(after([](Trials& trials) { set_metric(of_arm(trials, "faulty"), "worker_signal", std::string("SIGBUS")); }),
           "invalid: not_measurable");
}

TEST("a remedy that leaves the symptom, or the harm, or ends badly, is ineffective") {
  CHECK_EQ(after([](Trials& trials) { set_metric(of_arm(trials, "remedied"), "worker_signal", 7.0); }),
           "not_reproduced: remedy_ineffective");
  CHECK_EQ(after([](Trials& trials) { set_metric(of_arm(trials, "remedied"), "outcome", std::string("failed")); }),
           "not_reproduced: remedy_ineffective");
  CHECK_EQ(after([](Trials& trials) { of_arm(trials, "remedied").outcome.set("kind", "timeout"); }),
           "not_reproduced: remedy_ineffective");
  CHECK_EQ(after([](Trials& trials) { set_metric(of_arm(trials, "faulty"), "outcome", std::string("ok")); }),
           "not_reproduced: no_harm");
  CHECK_EQ(after([](Trials& trials) { lose_metric(of_arm(trials, "remedied"), "outcome", "cut"); }), "invalid: not_measurable");
  // What health fulfils too is no symptom; what is not known of health may be one.
  CHECK_EQ(after([](Trials& trials) {
             for (const char* arm : {"control", "remedied"}) set_metric(of_arm(trials, arm), "shm_used_fraction", 1.0);
           }),
           "reproduced: signature_present_and_cured");
  CHECK_EQ(after([](Trials& trials) {
             lose_metric(of_arm(trials, "control"), "shm_used_fraction", "no tmpfs");
             set_metric(of_arm(trials, "remedied"), "shm_used_fraction", 1.0);
           }),
           "invalid: not_measurable");
  CHECK_EQ(after([](Trials& trials) { lose_metric(of_arm(trials, "control"), "shm_used_fraction", "no tmpfs"); }),
           "reproduced: signature_present_and_cured");  // the remedied arm is without it
  // Of the distance 1 to 2 the remedy must recover 80 %.
  CHECK_EQ(after_blocks({.remedied = 1.19}), "reproduced: signature_present_and_cured");
  CHECK_EQ(after_blocks({.remedied = 1.21}), "not_reproduced: remedy_ineffective");
  CHECK_EQ(after_blocks({.remedied = 0.5}), "reproduced: signature_present_and_cured");  // better than the control
  // Harm in two blocks of five proves neither harm nor its absence.
  const auto unharmed = [](int blocks) {
    return [blocks](Trials& trials) {
      for (int block = 0; block < blocks; ++block)
        set_metric(of_arm(trials, "faulty", block), "step_seconds",
                   of_arm(trials, "control", block).metric("step_seconds")->number());
    };
  };
  CHECK_EQ(after_blocks({}, unharmed(3)), "inconclusive: signature_undecided");
  CHECK_EQ(after_blocks({}, unharmed(5)), "not_reproduced: signature_absent");
}

TEST("popular advice and look-alikes are held to what the file expects") {
  CHECK_EQ(after_blocks({.deeper = 2, .other = 1}), "reproduced: signature_present_and_cured");
  CHECK_EQ(after_blocks({.deeper = 1.1, .other = 1}), "not_reproduced: arm_against_expectation:deeper");
  CHECK_EQ(after_blocks({.deeper = 2, .other = 2}), "not_reproduced: arm_against_expectation:other");
  CHECK_EQ(after_blocks({.other = 1},
                        [](Trials& trials) {
                          for (int block = 0; block < 5; ++block) {
                            lose_metric(of_arm(trials, "other", block), "step_seconds", "no step");
                            set_metric(of_arm(trials, "other", block), "remote_page_fraction", 0.9);
                          }
                        }),
           "invalid: arm_not_measurable:other");
}

TEST("an optional condition that cannot be measured makes the verdict partial") {
  const Failure failure = slow_step_failure();
  Trials trials = slow_step_trials(failure, 5);
  for (TrialRecord& one : trials) lose_metric(one, "remote_page_fraction", "one NUMA node");
  Verdict verdict = judge(failure, trials);
  CHECK(verdict.kind == VerdictKind::reproduced);
  CHECK_EQ(verdict.partial, "(partial: remote_page_fraction: not measurable here: in block 0: one NUMA node)");
  // Measured, it counts as any other.
  trials = slow_step_trials(failure, 5);
  for (TrialRecord& one : trials) set_metric(one, "remote_page_fraction", 0.1);
  verdict = judge(failure, trials);
  CHECK_EQ(verdict.reason, "signature_absent");
}

TEST("ratios are taken inside the block, against the same drift") {
  const Failure failure = slow_step_failure();
  Trials trials = slow_step_trials(failure, 5);
  for (TrialRecord& one : trials)  // the whole third block ten times slower
    if (one.block == 2)
      for (Metric& metric : one.metrics)
        if (metric.name == "step_seconds") metric.value = metric.number() * 10;
  const Verdict verdict = judge(failure, trials);
  CHECK(verdict.kind == VerdictKind::reproduced);
  for (double ratio : verdict.arms.at(1).conditions.at(0).values) CHECK_NEAR(ratio, 2.0, 1e-12);
}

TEST("a ratio over nothing is infinite, nothing over nothing unchanged") {
  const Failure failure = slow_step_failure();
  Trials trials = slow_step_trials(failure, 5);
  for (TrialRecord& one : trials)
    if (one.arm != "faulty") set_metric(one, "step_seconds", 0.0);
  const Verdict verdict = judge(failure, trials);
  CHECK(verdict.arms.at(1).presence == Presence::present);
  CHECK(contains(verdict.arms[1].conditions[0].explanation, "infinite"));
  CHECK_EQ(verdict.arms.at(2).conditions.at(0).estimate, 1.0);
  CHECK(verdict.kind == VerdictKind::reproduced);
  CHECK(contains(verdict.to_json().dump(), "\"infinite\""));
}

TEST("an interval that straddles its bound asks for more blocks, until the last look") {
  const Failure failure = slow_step_failure();
  CHECK(looks(failure) == (std::vector<int>{5, 8, 11}));
  CHECK(looks(invariant_failure()) == std::vector<int>{1});
  const auto one_low = [&](int blocks, int low) {  // `low` of the blocks with a ratio of 1.4
    Trials trials;
    for (int block = 0; block < blocks; ++block) add_block(trials, failure, block, {.faulty = block < low ? 1.4 : 2});
    for (TrialRecord& one : trials)
      if (one.arm == "faulty") set_metric(one, "remote_page_fraction", 0.9);
    return judge(failure, trials);
  };
  Verdict verdict = one_low(5, 1);
  CHECK(verdict.kind == VerdictKind::inconclusive);
  CHECK_EQ(verdict.reason, "signature_undecided");
  CHECK(verdict.needs_more_blocks);
  CHECK(contains(verdict.explanation, "straddles the bound"));
  CHECK(one_low(8, 1).needs_more_blocks);
  CHECK(one_low(11, 1).kind == VerdictKind::reproduced);  // one of eleven is allowed to differ
  verdict = one_low(11, 2);
  CHECK(verdict.kind == VerdictKind::inconclusive);
  CHECK(!verdict.needs_more_blocks);
  CHECK_EQ(one_low(5, 5).reason, "signature_absent");
  CHECK(judge(failure, slow_step_trials(failure, 4)).kind == VerdictKind::inconclusive);  // too few
  CHECK(judge(failure, slow_step_trials(failure, 4)).needs_more_blocks);
}

TEST("an invariant is undecided when its trials differ") {
  const Failure failure = invariant_failure();
  Trials trials = invariant_trials(failure);
  for (TrialRecord one : invariant_trials(failure)) {
    one.block = 1;
    if (one.arm == "faulty") set_metric(one, "worker_signal", 9.0);
    trials.push_back(one);
  }
  CHECK_EQ(of(failure, trials), "inconclusive: signature_undecided");
  CHECK(!judge(failure, trials).needs_more_blocks);
}

TEST("sabotage: without the condition or the misuse the verdict is invalid") {
  // The trials say what the plan meant; what was there is seen by the evidence alone.
  CHECK_EQ(after([](Trials& trials) {
             TrialRecord& faulty = of_arm(trials, "faulty");
             faulty.sabotage = Sabotage::condition;
             faulty.injections.at(0).armed = false;
             set_metric(faulty, "shm_total_bytes", 4e9);
             set_metric(faulty, "worker_signal", 0.0);
           }),
           "invalid: fault_not_observed");
  CHECK_EQ(after_blocks({.faulty = 1},
                        [](Trials& trials) {
                          for (int block = 0; block < 5; ++block)
                            set_metric(of_arm(trials, "faulty", block), "worker_processes", 0.0);
                        }),
           "invalid: fault_not_observed");
}

TEST("a signature with its contrary in it is never reproduced") {
  for (const Failure& failure : {invariant_failure(), slow_step_failure()}) {
    const Failure broken = with_broken_signature(failure, vocabulary());
    CHECK_EQ(broken.signature.size(), 2u);
    CHECK_EQ(broken.name, failure.name);
    const Trials trials = failure.invariant ? invariant_trials(failure) : slow_step_trials(failure, 5);
    CHECK(judge(failure, trials).kind == VerdictKind::reproduced);
    CHECK_EQ(of(broken, trials), "not_reproduced: signature_absent");
  }
}

TEST("the neutral dose must read healthy") {
  const Failure failure = slow_step_failure();
  const auto at_neutral = [&](double seconds) {
    Trials trials;
    for (int block = 0; block < 5; ++block) {
      Trials one;
      add_block(one, failure, block, {.faulty = seconds, .remedied = 0});
      for (TrialRecord& trial : one)
        if (trial.arm == "faulty") trial.dose = "0ms";
      trials.insert(trials.end(), one.begin(), one.end());
    }
    return trials;
  };
  CHECK_EQ(of(failure, at_neutral(1.02)), "not_reproduced: neutral_dose_healthy");
  CHECK_EQ(of(failure, at_neutral(2)), "invalid: neutral_dose_not_healthy");
  Trials trials = at_neutral(1.02);
  of_arm(trials, "faulty", 2).outcome.set("kind", "timeout");
  CHECK_EQ(of(failure, trials), "invalid: neutral_dose_not_healthy");
  trials = at_neutral(1.02);
  std::erase_if(trials, [](const TrialRecord& one) { return one.arm == "control"; });
  CHECK_EQ(of(failure, trials), "not_reproduced: neutral_dose_healthy");  // absent by a condition that needs no control
  for (TrialRecord& one : trials) set_metric(one, "remote_page_fraction", 0.9);
  CHECK_EQ(of(failure, trials), "invalid: not_measurable");  // a ratio to nothing
}

TEST("a sweep follows the dose: healthy when neutral, set in where stated, never back") {
  const Failure failure = slow_step_failure();
  const auto sweep = [&](const std::vector<std::pair<std::string, double>>& doses) {
    Trials trials;
    for (int block = 0; block < 5; ++block) {
      add_block(trials, failure, block, {.faulty = 0, .remedied = 0});
      for (const auto& [dose, seconds] : doses) {
        Trials one;
        add_block(one, failure, block, {.control = 1, .faulty = seconds, .remedied = 0});
        for (TrialRecord& trial : one)
          if (trial.arm == "faulty") {
            trial.dose = dose;
            trials.push_back(trial);
          }
      }
    }
    return trials;
  };
  CHECK_EQ(of(failure, sweep({{"0ms", 1}, {"1ms", 2}, {"4ms", 5}})), "reproduced: dose_response_as_stated");
  CHECK_EQ(of(failure, sweep({{"0ms", 1}, {"1ms", 2}, {"4ms", 2}})), "reproduced: dose_response_as_stated");  // a tie
  CHECK_EQ(of(failure, sweep({{"0", 1}, {"0.001", 2}, {"0.004", 5}})), "reproduced: dose_response_as_stated");
  CHECK_EQ(of(failure, sweep({{"0ms", 1}, {"1ms", 1}, {"4ms", 5}})), "not_reproduced: onset_differs");
  CHECK_EQ(of(failure, sweep({{"0ms", 1}, {"1ms", 2}, {"4ms", 1}})), "not_reproduced: not_monotone");
  CHECK_EQ(of(failure, sweep({{"0ms", 1}, {"1ms", 5}, {"4ms", 2}})), "not_reproduced: not_monotone");  // by the metric
  CHECK_EQ(of(failure, sweep({{"0ms", 1}, {"1ms", 1}, {"4ms", 1}})), "not_reproduced: signature_absent");
  CHECK_EQ(of(failure, sweep({{"0ms", 2}, {"1ms", 2}, {"4ms", 5}})), "invalid: neutral_dose_not_healthy");
  CHECK_EQ(of(failure, sweep({{"1ms", 2}, {"4ms", 5}})), "invalid: dose_missing");
  const Verdict verdict = judge(failure, sweep({{"0ms", 1}, {"1ms", 2}, {"4ms", 5}}));
  CHECK_EQ(verdict.arms.size(), 3u);
  CHECK_EQ(verdict.arms.at(1).dose, "1ms");
}

TEST("one record, one verdict: the order of the trials does not matter") {
  const Failure failure = slow_step_failure();
  Trials trials = slow_step_trials(failure, 5, {.deeper = 2, .other = 1});
  const std::string text = judge(failure, trials).to_json().dump();
  std::reverse(trials.begin(), trials.end());
  CHECK_EQ(judge(failure, trials).to_json().dump(), text);
}

TEST("of several verdicts the worst decides the exit") {
  using enum VerdictKind;
  const auto exit_of = [](std::vector<VerdictKind> kinds) { return static_cast<int>(exit_for(kinds)); };
  CHECK_EQ(exit_of({reproduced, reproduced}), 0);
  CHECK_EQ(exit_of({reproduced, skipped}), 0);
  CHECK_EQ(exit_of({skipped, skipped}), 77);
  CHECK_EQ(exit_of({}), 3);
  CHECK_EQ(exit_of({reproduced, inconclusive}), 2);
  CHECK_EQ(exit_of({inconclusive, not_reproduced}), 1);
  CHECK_EQ(exit_of({not_reproduced, invalid}), 3);
  CHECK_EQ(exit_of({invalid, leak}), 4);
  CHECK_EQ(exit_of({leak, error, skipped}), 70);
}

TEST("the matrix: each failure has its own signature and no other's") {
  Failure first = invariant_failure();
  Failure second = invariant_failure();
  second.name = "starved";
  second.signature = {{.metric = "shm_used_fraction", .test = Condition::Test::at_most, .bounds = {Json(0.3)}, .why = {}}};
  const std::vector<Failure> failures{first, second};
  const auto run_of = [](const Failure& failure, double used) {
    RunRecord run;
    run.failure = Json::object({{"name", failure.name}});
    run.trials = invariant_trials(failure);
    set_metric(of_arm(run.trials, "faulty"), "shm_used_fraction", used);
    return run;
  };
  std::vector<RunRecord> runs{run_of(first, 1), run_of(second, 0.2)};
  Matrix matrix = confusion_matrix(failures, runs);
  CHECK(matrix.diagonal());
  CHECK(matrix.cells.at(0).at(0).presence == Presence::present);
  CHECK(matrix.cells.at(0).at(1).presence == Presence::absent);

  const auto problem = [&](const std::string& row, const std::string& column) {
    matrix = confusion_matrix(failures, runs);
    return std::any_of(matrix.problems.begin(), matrix.problems.end(), [&](const Matrix::Problem& one) {
      return one.failure == row && one.signature == column && !one.why.empty();
    });
  };
  runs[1] = run_of(second, 1);  // carries the first's signature instead of its own
  CHECK(problem("starved", "example-failure"));
  CHECK(problem("starved", "starved"));
  std::vector<Failure> implying = failures;
  implying[1].implies = {{"example-failure", "contains it"}};
  matrix = confusion_matrix(implying, runs);
  CHECK_EQ(matrix.problems.size(), 1u);  // the diagonal's alone

  runs[1] = run_of(second, 0.2);
  lose_metric(of_arm(runs[1].trials, "faulty"), "worker_signal", "unknown");
  CHECK(!problem("starved", "example-failure"));  // absent by the other condition
  runs[0] = run_of(first, 1);
  lose_metric(of_arm(runs[0].trials, "faulty"), "shm_used_fraction", "unknown");
  CHECK(problem("example-failure", "starved"));
  CHECK(problem("example-failure", "example-failure"));

  runs.pop_back();
  CHECK(problem("starved", "starved"));  // no run is no proof
  RunRecord skipped;
  skipped.failure = Json::object({{"name", "starved"}});
  skipped.trials.emplace_back().skipped = "userns: refused";
  runs = {run_of(first, 1), skipped};
  matrix = confusion_matrix(failures, runs);
  CHECK(matrix.diagonal());
  CHECK_EQ(matrix.skipped.size(), 1u);
}
