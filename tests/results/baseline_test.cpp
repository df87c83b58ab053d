// Goal: a stored baseline says "worse" and "not worse" with the error it states, nothing without enough sessions, and never
// passes what is missing or from other hardware. Method: sessions made by hand and by a seeded simulation of two-level noise;
// files written and read back, and broken.

#include "results/baseline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "harness/files.hpp"
#include "harness/seed.hpp"
#include "misfire_config.hpp"
#include "tests/check.hpp"

using namespace misfire;

namespace {

constexpr const char* here = "intel-6-106-2c-4g";

double normal(Stream& stream) {
  const double u = 1 - stream.uniform(), v = stream.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

BaselineSession session(const std::string& started, const std::vector<double>& rates, const std::string& name = "processes-2") {
  BaselineSession result;
  result.started = started;
  result.version = "0.1.0";
  result.commit = "abc";
  result.environment = Json::object({{"hardware_class", here}});
  for (double rate : rates)
    result.launches.push_back(
        {name, 1, {{"images_per_second", Unit::images_per_second, rate}, {"first_batch_seconds", Unit::seconds, 0.1}}, {}});
  return result;
}

std::string day(int number, int hour = 9) {
  char text[32];
  std::snprintf(text, sizeof text, "2026-05-%02dT%02d:00:00Z", number, hour);
  return text;
}

/// Sessions on successive days, with noise between and within them.
Baseline noisy(Stream& stream, int sessions, int launches, double between, double within) {
  Baseline baseline;
  for (int i = 0; i < sessions; ++i) {
    const double level = 1000 * std::exp(between * normal(stream));
    std::vector<double> rates;
    for (int k = 0; k < launches; ++k) rates.push_back(level * std::exp(within * normal(stream)));
    add_session(baseline, here, "dataloader", session(day(1 + i), rates));
  }
  return baseline;
}

BaselineSession fresh(Stream& stream, double worse, int launches, double between, double within) {
  const double level = 1000 / (1 + worse) * std::exp(between * normal(stream));
  std::vector<double> rates;
  for (int k = 0; k < launches; ++k) rates.push_back(level * std::exp(within * normal(stream)));
  return session(day(28), rates);
}

std::string said(const BaselineReport& report) { return std::string(comparison_name(report.result)) + " " + report.reason; }

}  // namespace

TEST("a baseline reads back as it was written, one line a launch") {
  Stream stream = Seed(1).stream("files");
  const Baseline baseline = noisy(stream, 3, 2, 0.01, 0.01);
  const TemporaryDirectory directory;
  const std::string path = baseline_path(directory.path(), here, "dataloader");
  CHECK_EQ(path, directory.path() + "/intel-6-106-2c-4g/dataloader.json");
  write_baseline(path, baseline);
  const Baseline back = read_baseline(path);
  CHECK_EQ(baseline_text(back), baseline_text(baseline));
  CHECK_EQ(back.sessions.size(), 3u);
  CHECK_EQ(back.sessions.at(1).launches.at(0).metrics.at(0).number(),
           baseline.sessions.at(1).launches.at(0).metrics.at(0).number());
  CHECK(back.sessions.at(1).launches.at(0).metrics.at(1).unit == Unit::seconds);
  const std::string text = read_whole_file(path);
  CHECK_EQ(std::count(text.begin(), text.end(), '\n'), 5 + 3 * (1 + 2 + 2) + 3);
  // The published schema knows every key that is written.
  const Json schema = Json::read_file(std::string(MISFIRE_SOURCE_DIR) + "/results/schema/baseline.schema.json");
  const Json file = Json::read_file(path);
  const auto same_keys = [](const Json& object, const Json& definition) {
    for (const auto& [key, value] : object.as_object()) CHECK(definition.at("properties").find(key) != nullptr);
    for (const Json& key : definition.at("required").as_array()) CHECK(object.find(key.as_string()) != nullptr);
  };
  same_keys(file, schema);
  same_keys(file.at("sessions").as_array().at(0), schema.at("$defs").at("session"));
  same_keys(file.at("sessions").as_array().at(0).at("launches").as_array().at(0), schema.at("$defs").at("launch"));
}

TEST("broken baselines are refused with file and line") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/dataloader.json";
  Stream stream = Seed(1).stream("files");
  const std::string whole = baseline_text(noisy(stream, 2, 1, 0, 0));
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& what) {
    std::string text = whole;
    const auto at = text.find(from);
    CHECK(at != std::string::npos);
    text.replace(at, from.size(), to);
    write_file_atomically(path, text);
    CHECK_THROWS(read_baseline(path), what);
    CHECK_THROWS(read_baseline(path), path + ":");
  };
  refused("\"schema\": 1", "\"schema\": 2", "newer");
  refused("\"schema\": 1", "\"schema\": 0", "none that");
  refused("\"scenario\"", "\"scenari\"", "did you mean 'scenario'?");
  refused("\"started\": \"2026-05-02", "\"started\": \"2026-05-01", "sorted");
  refused("2026-05-01T09", "2026-13-01T09", "is not a time");
  refused("\"case\":\"processes-2\",\"seed\":1", "\"case\":\"processes-2\",\"seed\":-1", "0 or more");
  refused("\"images_per_second\":1000", "\"images_per_secon\":1000", "has no unit");
  refused("\"images_per_second\":1000.0", "\"images_per_second\":\"fast\"", "expected a number");
  refused("\"seconds\"", "\"minutes\"", "unknown unit");
  refused("\"sessions\": [", "\"sessions\": 3, \"x\": [", "");
  refused("}\n]\n}", "}\n]", "");
}

TEST("sessions are merged by their start") {
  Baseline baseline;
  add_session(baseline, here, "dataloader", session(day(2), {1000}));
  add_session(baseline, here, "dataloader", session(day(1), {900}));
  add_session(baseline, here, "dataloader", session(day(2), {1100, 1200}));
  CHECK_EQ(baseline.sessions.size(), 2u);
  CHECK_EQ(baseline.sessions.at(0).started, day(1));
  CHECK_EQ(baseline.sessions.at(1).launches.size(), 2u);
  CHECK_THROWS(add_session(baseline, "amd-25-1-2c-4g", "dataloader", session(day(3), {1})), "this machine is of the class");
  CHECK_THROWS(add_session(baseline, here, "collective", session(day(3), {1})), "of the scenario 'dataloader'");
  CHECK_THROWS(add_session(baseline, here, "dataloader", session("yesterday", {1})), "is not a time");
}

TEST("other hardware and missing data are invalid, whatever the figures") {
  Stream stream = Seed(1).stream("missing");
  const Baseline baseline = noisy(stream, 8, 3, 0.005, 0.005);
  const BaselineSession now = fresh(stream, 0, 3, 0.005, 0.005);
  CHECK_EQ(said(compare_with_baseline(baseline, "amd-25-1-2c-4g", now)), "invalid wrong_hardware");
  CHECK_EQ(said(compare_with_baseline({here, "dataloader", {}}, here, now)), "invalid no_baseline");
  CHECK_EQ(said(compare_with_baseline(baseline, here, session(day(28), {}))), "invalid data_missing");
  CHECK_EQ(said(compare_with_baseline(baseline, here, session(day(28), {1000}, "another-case"))), "invalid data_missing");
  BaselineSession lost = now;
  lost.launches.at(1).metrics.clear();
  lost.launches.at(1).missing = {{"images_per_second", "no epoch was begun"}};
  const BaselineReport report = compare_with_baseline(baseline, here, lost);
  CHECK_EQ(said(report), "invalid data_missing");
  CHECK(report.explanation.find("no epoch was begun") != std::string::npos);
  BaselinePolicy counts;
  counts.metrics = {"no_such_metric"};
  CHECK_EQ(said(compare_with_baseline(baseline, here, now, counts)), "invalid data_missing");
  BaselineSession zero = session(day(28), {0});
  CHECK_EQ(said(compare_with_baseline(baseline, here, zero)), "invalid data_missing");
  // Sessions of 90 days ago no longer count; nor does the new one if it was recorded before it is compared.
  BaselineSession late = now;
  late.started = "2026-09-01T09:00:00Z";
  CHECK_EQ(said(compare_with_baseline(baseline, here, late)), "invalid no_baseline");
  Baseline with_now = baseline;
  add_session(with_now, here, "dataloader", now);
  CHECK_EQ(compare_with_baseline(with_now, here, now).rows.at(0).sessions, 8u);
}

TEST("with few sessions, or on few days, only coarse floors decide, and only against") {
  Baseline few;
  for (int i = 1; i <= 7; ++i) add_session(few, here, "dataloader", session(day(i), {1000, 1010}));
  CHECK_EQ(said(compare_with_baseline(few, here, session(day(28), {1000}))), "inconclusive coarse_floors_only");
  CHECK_EQ(said(compare_with_baseline(few, here, session(day(28), {2000}))), "inconclusive coarse_floors_only");
  CHECK_EQ(said(compare_with_baseline(few, here, session(day(28), {720}))), "inconclusive coarse_floors_only");
  CHECK_EQ(said(compare_with_baseline(few, here, session(day(28), {690}))), "regression worse_than_baseline");
  CHECK_EQ(compare_with_baseline(few, here, session(day(28), {1000})).rows.at(0).mode, "floor");
  Baseline two_days;
  for (int i = 0; i < 10; ++i) add_session(two_days, here, "dataloader", session(day(1 + i % 2, i), {1000, 1010}));
  CHECK_EQ(said(compare_with_baseline(two_days, here, session(day(28), {1000}))), "inconclusive coarse_floors_only");
  // Seconds are worse when they are more.
  BaselinePolicy latency;
  latency.metrics = {"first_batch_seconds"};
  BaselineSession slow = session(day(28), {1000});
  slow.launches.at(0).metrics.at(1).value = 0.14;
  CHECK_EQ(said(compare_with_baseline(few, here, slow, latency)), "regression worse_than_baseline");
  slow.launches.at(0).metrics.at(1).value = 0.05;
  CHECK_EQ(said(compare_with_baseline(few, here, slow, latency)), "inconclusive coarse_floors_only");
}

TEST("with enough sessions a loss is found, sameness passes, a gain passes") {
  Stream stream = Seed(7).stream("clear");
  const Baseline baseline = noisy(stream, 12, 4, 0.003, 0.003);
  CHECK_EQ(said(compare_with_baseline(baseline, here, fresh(stream, 0, 4, 0.003, 0.003))), "pass within_baseline");
  CHECK_EQ(said(compare_with_baseline(baseline, here, fresh(stream, -0.1, 4, 0.003, 0.003))), "pass within_baseline");
  CHECK_EQ(said(compare_with_baseline(baseline, here, fresh(stream, 0.1, 4, 0.003, 0.003))), "regression worse_than_baseline");
  CHECK_EQ(exit_for(compare_with_baseline(baseline, here, fresh(stream, 0.1, 4, 0.003, 0.003)).result), Exit::failure);
  const BaselineRow row = compare_with_baseline(baseline, here, fresh(stream, 0, 4, 0.003, 0.003)).rows.at(0);
  CHECK_NEAR(row.session_sd, 0.003, 0.002);
  CHECK_NEAR(row.launch_sd, 0.003, 0.001);
  CHECK(row.low < row.worse && row.worse < row.high);
}

TEST("a machine too noisy to gate says so and is never green") {
  Stream stream = Seed(7).stream("noisy");
  const Baseline baseline = noisy(stream, 10, 3, 0.05, 0.02);
  const BaselineReport report = compare_with_baseline(baseline, here, fresh(stream, -0.2, 3, 0.05, 0.02));
  CHECK_EQ(said(report), "inconclusive undecided");
  CHECK(report.explanation.find("not gateable here") != std::string::npos);
  CHECK(report.rows.at(0).detectable > 0.05);
}

TEST("the error rates are those stated") {
  // Alpha 0.01, launches that differ less than sessions, eight sessions: 1500 comparisons each.
  constexpr int runs = 1500;
  Stream stream = Seed(11).stream("rates");
  int false_alarms = 0, at_tolerance = 0, caught = 0, false_pass = 0;
  for (int i = 0; i < runs; ++i) {
    const Baseline baseline = noisy(stream, 10, 3, 0.004, 0.004);
    const auto result = [&](double worse) {
      return compare_with_baseline(baseline, here, fresh(stream, worse, 3, 0.004, 0.004)).result;
    };
    false_alarms += result(0) == Comparison::regression;
    at_tolerance += result(0.01) == Comparison::regression;
    caught += result(0.06) == Comparison::regression;
    false_pass += result(0.05) == Comparison::pass;
  }
  std::printf("of %d: false alarms %d, at the tolerance %d, 6%% caught %d, 5%% passed %d\n", runs, false_alarms, at_tolerance,
              caught, false_pass);
  CHECK(false_alarms <= 4);
  CHECK(at_tolerance <= 30);  // 1 % of 1500, and three standard errors
  CHECK(false_pass <= 30);
  CHECK(caught > runs * 9 / 10);
}

TEST("a report says each figure and the reason, as text and as JSON") {
  Stream stream = Seed(7).stream("clear");
  const BaselineReport report =
      compare_with_baseline(noisy(stream, 12, 4, 0.003, 0.003), here, fresh(stream, 0.1, 4, 0.003, 0.003));
  const std::string text = baseline_report_text(report);
  CHECK(text.find("processes-2") != std::string::npos);
  CHECK(text.find("regression (worse_than_baseline)") != std::string::npos);
  CHECK_EQ(report.to_json().at("rows").as_array().at(0).at("result").as_string(), "regression");
}
