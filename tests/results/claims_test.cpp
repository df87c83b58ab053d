// Goal: a published claim gets the verdict that its measured checks give, with its conditions; what was not measured, or needs
// another machine, is said to be so. Method: claims made by hand over runs made by hand; the shipped claims are read.

#include "results/claims.hpp"

#include <algorithm>

#include "harness/files.hpp"
#include "tests/check.hpp"
#include "tests/results/trials.hpp"

using namespace misfire;
using namespace misfire::test;

namespace {

Claim claim(std::string conditions = "") {
  Claim result;
  result.id = "dataloader.example";
  result.statement = "Steps get slow.";
  result.effect = "a half";
  result.published = {{"default", {{"samples_per_second", 1240}}}};
  result.checks = {{"slow-step", "step_seconds", "faulty", "control", 1.2, {}, "slow"},
                   {"slow-step", "step_seconds", "remedied", "control", {}, 1.1, "cured"}};
  result.conditions = std::move(conditions);
  return result;
}

RunRecord run(const SlowStep& seconds, int blocks = 5, int nodes = 1) {
  const Failure failure = slow_step_failure();
  RunRecord record;
  record.header = Json::object({{"version", "0.1.0"}, {"started", "2026-05-04T10:00:00Z"}});
  record.failure = failure.source;
  record.trials = slow_step_trials(failure, blocks, seconds);
  Json list = Json::array();
  for (int i = 0; i < nodes; ++i) list.push_back(Json::object());
  for (TrialRecord& trial : record.trials)
    trial.environment = Json::object({{"hardware_class", "here"}, {"numa", Json::object({{"nodes", list}})}});
  return record;
}

ClaimResult assessed(const Claim& claim, const std::vector<RunRecord>& runs) {
  return assess(claim, measure_claims(std::vector{claim}, runs));
}

}  // namespace

TEST("a claim holds, holds under conditions, or is contradicted") {
  CHECK(assessed(claim(), {run({})}).verdict == ClaimVerdict::holds);
  CHECK(assessed(claim("where there is compute"), {run({})}).verdict == ClaimVerdict::holds_under_conditions);
  const ClaimResult slow = assessed(claim("where there is compute"), {run({.remedied = 1.5})});
  CHECK(slow.verdict == ClaimVerdict::contradicted);
  CHECK(slow.explanation.find("remedied / control <= 1.1: 1.5 in 5 blocks") != std::string::npos);
  CHECK(slow.measured.at(0).presence == Presence::present);
}

TEST("what was not measured is not measurable here") {
  const ClaimResult none = assessed(claim(), {});
  CHECK(none.verdict == ClaimVerdict::not_measurable);
  CHECK(none.explanation.find("misfire reproduce slow-step") != std::string::npos);
  RunRecord lost = run({});
  lose_metric(of_arm(lost.trials, "faulty", 2), "step_seconds", "the trial was cut");
  CHECK(assessed(claim(), {lost}).explanation.find("the trial was cut") != std::string::npos);
  const ClaimResult few = assessed(claim(), {run({}, 4)});
  CHECK(few.verdict == ClaimVerdict::not_measurable);
  CHECK(few.explanation.find("in 4 blocks; 5 are needed") != std::string::npos);
  CHECK(assessed(claim(), {run({}, 4), run({}, 1)}).verdict == ClaimVerdict::holds);  // two runs, five blocks
  RunRecord mixed = run({});
  set_metric(of_arm(mixed.trials, "faulty", 2), "step_seconds", 0.1);
  const ClaimResult open = assessed(claim(), {mixed});
  CHECK(open.verdict == ClaimVerdict::not_measurable);
  CHECK(open.explanation.find("does not decide") != std::string::npos);
}

TEST("a needed fact decides before the checks") {
  Claim numa = claim();
  numa.needs = {{"numa.nodes", "memory nodes", 2}};
  const ClaimResult one = assessed(numa, {run({}, 5, 1)});
  CHECK(one.verdict == ClaimVerdict::not_measurable);
  CHECK_EQ(one.explanation, "needs at least 2 memory nodes, there is 1");
  CHECK(one.measured.at(0).presence == Presence::present);  // and what was measured is shown
  CHECK(assessed(numa, {run({}, 5, 2)}).verdict == ClaimVerdict::holds);
  CHECK(assessed(numa, {}).explanation.find("not known") != std::string::npos);
}

TEST("a committed measurement gives the verdict of the records") {
  const std::vector<Claim> claims = {claim("when")};
  const ClaimMeasurement fresh = measure_claims(claims, std::vector{run({})});
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/dataloader.json";
  write_file_atomically(path, fresh.to_json().dump(1));
  const ClaimMeasurement kept = read_claim_measurement(path);
  CHECK_EQ(assess(claims.at(0), kept).to_json().dump(), assess(claims.at(0), fresh).to_json().dump());
  CHECK_EQ(kept.hardware_class, "here");
  CHECK_EQ(kept.started, "2026-05-04T10:00:00Z");
  // A claim whose bound changed since is not decided by values kept for another check.
  Claim stricter = claim("when");
  stricter.checks.at(0).at_least = 1.9;
  CHECK(assess(stricter, kept).verdict == ClaimVerdict::not_measurable);
  const ClaimMeasurement empty = measure_claims(claims, {});
  write_file_atomically(path, empty.to_json().dump());
  CHECK(read_claim_measurement(path).values.at(0).missing == empty.values.at(0).missing);
}

TEST("the shipped claims are read, and name failures, arms and metrics that exist") {
  const std::vector<Claim> claims = shipped_claims("dataloader");
  CHECK(claims.size() >= 2);
  for (const Claim& shipped : claims)
    for (const ClaimCheck& check : shipped.checks) {
      const auto paths = shipped_failures();
      const auto path = std::find_if(paths.begin(), paths.end(),
                                     [&](const std::string& p) { return p.ends_with("/" + check.failure + ".json"); });
      CHECK(path != paths.end());
      if (path == paths.end()) continue;
      const Json failure = Json::read_file(*path);
      CHECK(failure.at("arms").find(check.arm) != nullptr);
      CHECK(check.over.empty() || failure.at("arms").find(check.over) != nullptr);
    }
  // And every claim that a failure names is there.
  for (const std::string& path : shipped_failures("dataloader")) {
    const Json failure = Json::read_file(path);
    if (const Json* named = failure.find("claims"))
      for (const Json& id : named->as_array())
        CHECK(std::any_of(claims.begin(), claims.end(), [&](const Claim& shipped) { return shipped.id == id.as_string(); }));
  }
}

TEST("broken files of claims are refused with file and line") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/claims.json";
  const std::string whole = read_whole_file(shipped_file("results/claims/dataloader.json"));
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& what) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    write_file_atomically(path, text);
    CHECK_THROWS(read_claims(path), what);
    CHECK_THROWS(read_claims(path), path + ":");
  };
  refused("\"schema\": 1", "\"schema\": 2", "version 1");
  refused("\"statement\"", "\"statment\"", "did you mean 'statement'?");
  refused("\"id\": \"dataloader.", "\"id\": \"collective.", "is named");
  refused("\"at_least\": 1.2,\n          \"why\"", "\"why\"", "one bound");
  refused("\"at_least\": 1.2,", "\"at_least\": 1.2, \"at_most\": 2,", "one bound");
}

TEST("claims as text: published beside measured, with the conditions") {
  const std::vector<Claim> claims = {claim("Where there is compute.")};
  const ClaimMeasurement measurement = measure_claims(claims, std::vector{run({})});
  const std::string text = claims_text(std::vector{assess(claims.at(0), measurement)}, measurement, 200);
  CHECK(text.find("dataloader.example: holds under conditions") != std::string::npos);
  CHECK(text.find("published: default, samples_per_second 1240") != std::string::npos);
  CHECK(text.find("measured: slow-step: step_seconds, faulty / control >= 1.2: 2 in 5 blocks (yes)") != std::string::npos);
  CHECK(text.find("conditions: Where there is compute.") != std::string::npos);
  CHECK(text.find("measured on here, 2026-05-04T10:00:00Z, Misfire 0.1.0") != std::string::npos);
}
