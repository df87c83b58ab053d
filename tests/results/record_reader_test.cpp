// Goal: a record reads back as it was written, ends where its writer died without harm, and anything else that is not as
// described is refused with file and line. Method: records written by RecordWriter and by hand; each line broken in turn.

#include "results/record_reader.hpp"

#include <fstream>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/record.hpp"
#include "tests/check.hpp"

using namespace misfire;

namespace {

const std::vector<std::string> whole = {
    R"({"type":"run","schema":1,"version":"0.1.0","command":"misfire reproduce x","seed":1,"failure":{"schema":1,"name":"x"}})",
    R"({"type":"trial","schema":1,"failure":"x","arm":"faulty","role":"faulty","dose":"4","sabotage":"condition","block":2,)"
    R"("seed":18446744073709551615,"has_condition":true,"has_misuse":false,"replay":"misfire-dataloader --arm faulty"})",
    R"({"type":"environment","environment":{"cpu":{"model":"c"}}})",
    R"({"type":"options","options":{"num_workers":2}})",
    R"({"type":"injection","fault":"mem.shm_size","armed":true,"proved":true,"evidence":[{"what":"size","holds":true}]})",
    R"({"type":"lane","name":"worker 1","events":4,"dropped":0})",
    R"({"type":"metric","name":"batches","unit":"count","value":3})",
    R"({"type":"metric","name":"outcome","unit":"text","value":"ok"})",
    R"({"type":"metric","name":"step_seconds","unit":"seconds","value":null})",
    R"({"type":"missing","name":"remote_page_fraction","why":"one node"})",
    R"({"type":"note","what":"anything"})",
    R"({"type":"outcome","kind":"ok","what":"","exit_code":0,"signal":0,"core":false,"elapsed_seconds":0.5})",
    R"({"type":"verdict","verdict":"reproduced","reason":"signature_present_and_cured"})",
};

class File {
 public:
  explicit File(const std::string& content) { std::ofstream(path(), std::ios::binary) << content; }
  File(const std::vector<std::string>& lines, const std::string& end = "\n") : File(joined(lines, end)) {}
  std::string path() const { return directory_.path() + "/record.jsonl"; }

 private:
  static std::string joined(const std::vector<std::string>& lines, const std::string& end) {
    std::string text;
    for (std::size_t i = 0; i < lines.size(); ++i) text += lines[i] + (i + 1 < lines.size() ? "\n" : end);
    return text;
  }
  TemporaryDirectory directory_;
};

std::vector<std::string> with(std::size_t index, const std::string& line) {
  std::vector<std::string> lines = whole;
  lines[index] = line;
  return lines;
}

/// What is said of a record, without its path.
std::string refusal(const std::vector<std::string>& lines) {
  const File file(lines);
  try {
    read_run_record(file.path());
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_input);
    const std::string what = error.what();
    CHECK(what.starts_with(file.path() + ":"));
    return what.substr(file.path().size() + 1);
  }
  return "accepted";
}

}  // namespace

TEST("a run reads back whole") {
  const File file(whole);
  const RunRecord run = read_run_record(file.path());
  CHECK_EQ(run.header.at("command").as_string(), "misfire reproduce x");
  CHECK_EQ(run.failure.at("name").as_string(), "x");
  CHECK_EQ(run.verdict.at("verdict").as_string(), "reproduced");
  CHECK_EQ(run.trials.size(), 1u);
  const TrialRecord& trial = run.trials.at(0);
  CHECK_EQ(trial.failure, "x");
  CHECK(trial.role == Role::faulty);
  CHECK(trial.sabotage == Sabotage::condition);
  CHECK_EQ(trial.dose, "4");
  CHECK_EQ(trial.block, 2);
  CHECK_EQ(trial.seed, UINT64_MAX);
  CHECK(trial.has_condition && !trial.has_misuse);
  CHECK(trial.complete);
  CHECK_EQ(trial.replay, "misfire-dataloader --arm faulty");
  CHECK_EQ(trial.metric("batches")->number(), 3.0);
  CHECK(trial.metric("batches")->unit == Unit::count);
  CHECK_EQ(trial.metric("outcome")->text(), "ok");
  CHECK(trial.injections.at(0).armed && trial.injections.at(0).proved);
  CHECK_EQ(trial.injections.at(0).json.at("evidence").as_array().size(), 1u);
  CHECK_EQ(trial.options.at("num_workers").as_int(), 2);
}

TEST("what was not measured says why") {
  const RunRecord run = read_run_record(File(whole).path());
  const TrialRecord& trial = run.trials.at(0);
  CHECK(trial.metric("remote_page_fraction") == nullptr);
  CHECK_EQ(trial.why_missing("remote_page_fraction"), "one node");
  CHECK(trial.metric("step_seconds") == nullptr);  // NaN is written as null
  CHECK_EQ(trial.why_missing("step_seconds"), "it was not a finite number");
  CHECK_EQ(trial.why_missing("unheard_of"), "the record does not have it");
}

TEST("what RecordWriter wrote is what is read") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/record.jsonl";
  {
    RecordWriter writer = RecordWriter::create(path);
    writer.write("trial",
                 Json::object({{"failure", "f\n\"g\""}, {"arm", "control"}, {"role", "control"}, {"block", 0}, {"seed", 1}}));
    writer.write("metric", Json::object({{"name", "a"}, {"unit", "ratio"}, {"value", 0.1}}));
    writer.write("outcome", Json::object({{"kind", "ok"}}));
  }
  const auto trials = read_trial_records(path);
  CHECK_EQ(trials.size(), 1u);
  CHECK_EQ(trials.at(0).failure, "f\n\"g\"");
  CHECK_EQ(trials.at(0).metric("a")->number(), 0.1);
  CHECK(trials.at(0).complete);
}

TEST("a record may end at any byte; what was whole is kept") {
  std::string text;
  for (std::size_t i = 1; i + 1 < whole.size(); ++i) text += whole[i] + "\n";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const File file(text.substr(0, size));
    std::size_t lines = 0;
    bool torn = false;
    read_record_lines(
        file.path(), [&](const Json&) { ++lines; }, &torn);
    const auto ends = static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<long>(size), '\n'));
    const bool at_line = size == 0 || text[size - 1] == '\n', whole_line = size < text.size() && text[size] == '\n';
    CHECK_EQ(lines, ends + (!at_line && whole_line ? 1 : 0));
    CHECK_EQ(torn, !at_line && !whole_line);
    const auto trials = read_trial_records(file.path());
    CHECK(trials.empty() || trials.front().complete == (size + 1 >= text.size()));
    CHECK(trials.empty() || trials.front().complete || trials.front().why_missing("none") == "the record was cut");
  }
}

TEST("a skipped trial says why, before it began or after") {
  auto lines = whole;
  lines.resize(2);
  lines.push_back(R"({"type":"skipped","capability":"userns","why":"refused by AppArmor"})");
  RunRecord run = read_run_record(File(lines).path());
  CHECK_EQ(run.trials.at(0).skipped, "userns: refused by AppArmor");
  CHECK(!run.trials.at(0).complete);
  lines.erase(lines.begin() + 1);
  run = read_run_record(File(lines).path());
  CHECK_EQ(run.trials.size(), 1u);
  CHECK_EQ(run.trials.at(0).why_missing("outcome"), "the trial was skipped: userns: refused by AppArmor");
}

TEST("lines that are no record's are refused with their place") {
  CHECK(refusal(whole) == "accepted");
  CHECK(refusal(with(3, "not json")).starts_with("4: "));
  CHECK(refusal(with(3, "[1]")).starts_with("4: a line of a record is an object"));
  CHECK(refusal(with(3, R"({"kind":"options"})")).starts_with("4: "));
  CHECK(refusal(with(3, "")).starts_with("4: "));
  CHECK(refusal(with(6, R"({"type":"metrik","name":"a","unit":"count","value":1})")) ==
        "7: unknown line type 'metrik' (did you mean 'metric'?)");
  CHECK(refusal(with(6, R"({"type":"metric","name":"a","unit":"cuont","value":1})")) ==
        "7: unknown unit 'cuont' (did you mean 'count'?)");
  CHECK(refusal(with(6, R"({"type":"metric","name":"a","unit":"count","value":"three"})")).starts_with("7: "));
  CHECK(refusal(with(6, R"({"type":"metric","name":"outcome","unit":"text","value":"ok"})")) ==
        "8: the metric 'outcome' appears twice in one trial");
  CHECK(refusal(with(1, R"({"type":"trial","failure":"x","arm":"a","role":"fualty","block":0,"seed":1})")) ==
        "2: unknown role 'fualty' (did you mean 'faulty'?)");
  CHECK(refusal(with(1, R"({"type":"trial","failure":"x","arm":"a","role":"faulty","block":-1,"seed":1})"))
            .starts_with("2: block -1"));
  CHECK(refusal(with(1, R"({"type":"note"})")) == "2: a line of type 'note' outside a trial");
  CHECK(refusal(with(11, R"({"type":"outcome"})")).starts_with("12: "));
  CHECK(refusal(with(12, whole[7])) == "13: a line of type 'metric' outside a trial");
  CHECK(refusal(with(12, whole[0])) == "13: a second 'run' line");
}

TEST("headers of other versions, and none, are refused") {
  CHECK(refusal(with(0, R"({"type":"run","schema":2})")) ==
        "1: record schema 2 is newer than this Misfire reads (1): update Misfire");
  CHECK(refusal(with(0, R"({"type":"run","schema":0})")) == "1: there is no record schema 0");
  CHECK(refusal(with(0, R"({"type":"run"})")) == "1: the header has no schema version");
  CHECK(refusal({whole.begin() + 1, whole.end()}) == "1: a run's record begins with its 'run' line, not 'trial'");
  CHECK_THROWS(read_run_record(File("").path()), ":1: the record is empty");
  CHECK_THROWS(read_run_record("/nonexistent/record.jsonl"), "/nonexistent/record.jsonl");
}
