// Goal: what a failure file may not say is refused in one line that names the place, what is allowed and the nearest word; each
// arm runs with what its role says. Method: one whole file; broken variants of it in tests/broken, each beside the line it must
// give; plans of every arm, with dose and sabotage.

#include "harness/failure.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/text.hpp"
#include "tests/check.hpp"
#include "tests/harness/vocabulary.hpp"

using namespace misfire;
using test::example_path;
using test::vocabulary;
namespace fs = std::filesystem;

namespace {

const std::string source_tree = MISFIRE_SOURCE_DIR;

Failure example() { return read_failure(example_path(), vocabulary()); }

/// The example with one text replaced.
Failure changed(std::string_view from, std::string_view to) {
  std::string text = read_whole_file(example_path());
  const auto at = text.find(from);
  CHECK(at != std::string::npos);
  text.replace(at, from.size(), to);
  return parse_failure(Json::parse(text, "changed.json"), vocabulary());
}

std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_input);
    return error.what();
  }
  return "accepted";
}

std::string armed(const TrialPlan& plan) {
  std::string text;
  for (const auto& injection : plan.injections)
    text += injection.spec.fault + injection.spec.options.dump() + (injection.armed ? "+" : "-");
  return text;
}

std::int64_t prefetch(const TrialPlan& plan) { return plan.workload.at("prefetch_factor").as_int(); }

}  // namespace

TEST("a whole file is read whole") {
  const Failure failure = example();
  CHECK_EQ(failure.name, "example-failure");
  CHECK_EQ(failure.scenario, "dataloader");
  CHECK_EQ(failure.workload_name, "loading");
  CHECK(failure.workload.find("name") == nullptr);
  CHECK_EQ(failure.workload.at("num_workers").as_int(), 2);
  CHECK_EQ(failure.owner, "job");
  CHECK_EQ(failure.search_for.size(), 1u);
  CHECK(failure.invariant);
  CHECK(failure.deadline == std::chrono::seconds(10));
  CHECK_EQ(failure.condition.inject.at(0).fault, "mem.shm_size");
  CHECK(failure.condition.inject.at(0).options.find("fault") == nullptr);
  CHECK_EQ(failure.condition.evidence.at(0).bounds.at(0).as_double(), 18.0 * 1024 * 1024);
  CHECK_EQ(failure.condition.evidence.at(0).describe(), "shm_total_bytes <= 18 MiB");
  CHECK_EQ(failure.signature.at(1).describe(), "shm_used_fraction >= 0.95");
  CHECK_EQ(failure.signature.at(1).why, "full");
  CHECK_EQ(failure.arms.size(), 5u);
  CHECK(failure.arm("faulty").expect_present);
  CHECK(!failure.arm("reserved").expect_present);
  CHECK(failure.arm(Role::lookalike).name == "killed-worker");
  CHECK_EQ(failure.dose->values.size(), 2u);
  CHECK(failure.dose->increasing);
  CHECK_EQ(failure.recovery_metric, "outcome");
  CHECK_EQ(failure.implies.at(0).failure, "other-failure");
  CHECK(failure.source == Json::read_file(example_path()));
  CHECK_THROWS(failure.arm("faulti"), "did you mean 'faulty'?");
}

TEST("a file embedded in a record reads as it did") {
  const Json embedded = Json::parse("{\"failure\": " + read_whole_file(example_path()) + "}", "run.jsonl").at("failure");
  const Failure failure = parse_failure(embedded, vocabulary());
  CHECK_EQ(failure.name, "example-failure");
  CHECK_EQ(failure.path, "run.jsonl");
}

TEST("each broken file is refused with the line beside it") {
  const bool update = std::getenv("MISFIRE_UPDATE_GOLDEN") != nullptr;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(source_tree + "/tests/broken")) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    const std::string path = entry.path().string(), name = entry.path().filename().string();
    std::string message = refusal([&] { read_failure(path, vocabulary()); });
    CHECK_EQ(message.substr(0, path.size() + 1), path + ":");
    CHECK(message.find('\n') == std::string::npos);
    const auto folder = path.size() - name.size();
    message = message.size() > folder ? message.substr(folder) : message;
    const fs::path golden = fs::path(entry.path()).replace_extension(".error");
    if (update) write_file_atomically(golden.string(), message + "\n");
    CHECK_EQ(message + "\n", read_whole_file(golden.string()));
  }
  CHECK(files >= 20);
}

TEST("conditions take suffixes by the metric's unit and every comparison") {
  const auto one = [](const std::string& condition) {
    return changed(R"({"metric": "worker_signal", "equals": 7})", condition).signature.at(0);
  };
  CHECK_EQ(one(R"({"metric": "step_seconds", "at_most": "200ms"})").bounds.at(0).as_double(), 0.2);
  CHECK_EQ(one(R"({"metric": "step_seconds", "at_most": 0.2})").describe(), "step_seconds <= 200 ms");
  CHECK_EQ(one(R"({"metric": "shm_total_bytes", "between": ["1MiB", 2097152]})").describe(), "shm_total_bytes in [1 MiB, 2 MiB]");
  CHECK_EQ(one(R"({"metric": "shm_total_bytes", "at_least": -5})").describe(), "shm_total_bytes >= -5");
  CHECK_EQ(one(R"({"metric": "outcome", "not_equals": "ok"})").describe(), "outcome != 'ok'");
  CHECK_EQ(one(R"({"metric": "worker_signal", "equals": 7, "optional": true})").optional, true);
  CHECK_EQ(changed(R"("invariant": true)", R"("blocks": 7)").blocks, 7);
  const std::string ratio = refusal([&] { one(R"({"metric": "step_seconds", "ratio_to_control": {"at_least": 1.2}})"); });
  CHECK(ratio.find("no invariant") != std::string::npos);
}

TEST("numbers are shown in few digits, and no digit that matters is lost") {
  CHECK_EQ(value_text(0.95, Unit::fraction), "0.95");
  CHECK_EQ(value_text(7, Unit::count), "7");
  CHECK_EQ(value_text(123456, Unit::count), "123456");
  CHECK_EQ(value_text(1.0 / 3, Unit::ratio), "0.3333");
  CHECK_EQ(value_text(0.99999, Unit::fraction), "0.99999");
  CHECK_EQ(value_text(18.0 * 1024 * 1024, Unit::bytes), "18 MiB");
  CHECK_EQ(value_text(0.2, Unit::seconds), "200 ms");
}

TEST("an arm runs with what its role says") {
  const Failure failure = example();
  const auto plan = [&](std::string_view arm) { return compose(failure, failure.arm(arm), std::nullopt, Sabotage::none); };
  const std::string fault = R"(mem.shm_size{"size":"18MiB"})";
  CHECK_EQ(armed(plan("control")), fault + "-");
  CHECK_EQ(armed(plan("faulty")), fault + "+");
  CHECK_EQ(armed(plan("remedied")), fault + "+");
  CHECK_EQ(armed(plan("reserved")), fault + "+");
  CHECK_EQ(armed(plan("killed-worker")), fault + "-");
  CHECK_EQ(prefetch(plan("control")), 1);
  CHECK_EQ(prefetch(plan("faulty")), 4);
  CHECK_EQ(prefetch(plan("remedied")), 1);
  CHECK_EQ(prefetch(plan("reserved")), 4);
  CHECK_EQ(prefetch(plan("killed-worker")), 1);
  CHECK(plan("reserved").workload.at("reserve").as_bool());
  CHECK_EQ(plan("faulty").workload.at("name").as_string(), "loading");
  CHECK(!plan("control").has_condition && !plan("control").has_misuse);
  CHECK(plan("faulty").has_condition && plan("faulty").has_misuse);
  CHECK(plan("remedied").has_condition && !plan("remedied").has_misuse);
  CHECK(plan("reserved").has_condition && plan("reserved").has_misuse);
  CHECK(!plan("killed-worker").has_condition && !plan("killed-worker").has_misuse);
}

TEST("an arm's own injection replaces the ingredient's, or is added") {
  const Failure failure =
      changed(R"("workload": {"reserve": true}})",
              R"("inject": [{"fault": "mem.shm_size", "size": "40MiB"}, {"fault": "cpu.affinity", "cpus": 1}]})");
  CHECK_EQ(armed(compose(failure, failure.arm("reserved"), std::nullopt, Sabotage::none)),
           R"(mem.shm_size{"size":"40MiB"}+cpu.affinity{"cpus":1}+)");
  CHECK_EQ(armed(compose(failure, failure.arm("faulty"), std::nullopt, Sabotage::none)), R"(mem.shm_size{"size":"18MiB"}+)");
}

TEST("a dose reaches the ingredient that holds its key, where that is present") {
  const Failure by_fault = example();
  const Json dose = read_dose(by_fault, "256MiB");
  CHECK_EQ(armed(compose(by_fault, by_fault.arm("faulty"), dose, Sabotage::none)), R"(mem.shm_size{"size":"256MiB"}+)");
  const std::string whole = R"("key": "mem.shm_size.size", "values": ["256MiB", "18MiB"], "neutral": "256MiB",)";
  const std::string onset = R"(, "onset": "18MiB", "formula": "size < need")";
  const auto with_key = [&](const std::string& key) {
    std::string text = read_whole_file(example_path());
    text.replace(text.find(whole), whole.size(), "\"key\": \"" + key + "\", \"values\": [1, 4, 8], \"neutral\": 1,");
    text.erase(text.find(onset), onset.size());
    return parse_failure(Json::parse(text, "dosed.json"), vocabulary());
  };
  const Failure by_misuse = with_key("prefetch_factor"), common = with_key("num_workers");
  const auto plan = [](const Failure& failure, std::string_view arm, Sabotage sabotage = Sabotage::none) {
    return compose(failure, failure.arm(arm), Json(8), sabotage);
  };
  CHECK_EQ(prefetch(plan(by_misuse, "faulty")), 8);
  CHECK_EQ(prefetch(plan(by_misuse, "reserved")), 8);
  CHECK_EQ(prefetch(plan(by_misuse, "control")), 1);
  CHECK_EQ(prefetch(plan(by_misuse, "remedied")), 1);
  CHECK_EQ(prefetch(plan(by_misuse, "faulty", Sabotage::misuse)), 1);
  CHECK_EQ(plan(common, "control").workload.at("num_workers").as_int(), 8);
  CHECK_EQ(plan(common, "faulty").workload.at("num_workers").as_int(), 8);
  CHECK_EQ(plan(common, "killed-worker").workload.at("num_workers").as_int(), 1);  // the arm's own
  CHECK(refusal([&] { with_key("prefetch_facto"); }).find("did you mean 'prefetch_factor'?") != std::string::npos);
}

TEST("a dose is known in any spelling") {
  const Failure failure = example();
  for (const char* text : {"256MiB", "268435456", "256M"}) CHECK_EQ(read_dose(failure, text).dump(), "\"256MiB\"");
  CHECK_EQ(read_dose(failure, "100MiB").dump(), "\"100MiB\"");
  CHECK_EQ(read_dose(failure, "0.25").dump(), "0.25");
  CHECK_EQ(read_dose(failure, "4").dump(), "4");
  CHECK_EQ(read_dose(failure, "true").dump(), "true");
  CHECK_EQ(dose_text(Json("256MiB")), "256MiB");
  CHECK_EQ(dose_text(Json(0.25)), "0.25");
  CHECK(same_dose(Json(1), Json(1.0)));
  CHECK(!same_dose(Json(1), Json(2)));
  CHECK(!same_dose(Json("a"), Json("b")));
}

TEST("sabotage takes the ingredient out of the faulty arm, and does not say so") {
  const Failure failure = example();
  const auto plan = [&](std::string_view arm, Sabotage sabotage) {
    return compose(failure, failure.arm(arm), std::nullopt, sabotage);
  };
  CHECK_EQ(armed(plan("faulty", Sabotage::condition)), R"(mem.shm_size{"size":"18MiB"}-)");
  CHECK_EQ(prefetch(plan("faulty", Sabotage::condition)), 4);
  CHECK_EQ(armed(plan("faulty", Sabotage::misuse)), R"(mem.shm_size{"size":"18MiB"}+)");
  CHECK_EQ(prefetch(plan("faulty", Sabotage::misuse)), 1);
  for (Sabotage sabotage : all_sabotages) {
    CHECK(plan("faulty", sabotage).has_condition);
    CHECK(plan("faulty", sabotage).has_misuse);
    CHECK_EQ(armed(plan("remedied", sabotage)), R"(mem.shm_size{"size":"18MiB"}+)");
  }
  // Not even by the faulty arm's own words.
  const Failure stubborn =
      changed(R"("faulty": {"role": "faulty"})", R"("faulty": {"role": "faulty", "workload": {"prefetch_factor": 8}})");
  CHECK_EQ(prefetch(compose(stubborn, stubborn.arm("faulty"), std::nullopt, Sabotage::none)), 8);
  CHECK_EQ(prefetch(compose(stubborn, stubborn.arm("faulty"), std::nullopt, Sabotage::misuse)), 1);
}

TEST("shipped failures are found by name, others by path") {
  const auto paths = shipped_failures();
  CHECK(std::is_sorted(paths.begin(), paths.end(),
                       [](const auto& a, const auto& b) { return fs::path(a).stem() < fs::path(b).stem(); }));
  CHECK(paths.size() >= 8);
  CHECK(shipped_failures("dataloader").size() >= 8);
  CHECK(shipped_failures("no-such-scenario").empty());
  CHECK_THROWS(find_failure("shm-exhaustion-sigbuss", vocabulary()), "did you mean 'shm-exhaustion-sigbus'?");
  CHECK_THROWS(find_failure("./no-such-file.json", vocabulary()), "no-such-file.json");
  CHECK_EQ(find_failure(example_path(), vocabulary()).name, "example-failure");
  for (const std::string& path : paths) CHECK_EQ(Json::read_file(path).at("name").as_string(), fs::path(path).stem().string());
}

TEST("outside suites/ a file may be named otherwise than its failure") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/another-name.json";
  write_file_atomically(path, read_whole_file(example_path()));
  CHECK_EQ(read_failure(path, vocabulary()).name, "example-failure");
}

TEST("the schema and the reader accept the same keys") {
  const Json schema = Json::read_file(source_tree + "/results/schema/failure.schema.json");
  const Json whole = Json::read_file(example_path());
  // Where each object of the schema stands in the example, as a path of members.
  const std::pair<const char*, std::vector<std::string>> places[] = {
      {"", {}},           {"ingredient", {"condition"}}, {"arm", {"arms", "remedied"}},     {"condition", {"signature", "0"}},
      {"dose", {"dose"}}, {"recovery", {"recovery"}},    {"implication", {"implies", "0"}},
  };
  const auto step = [](Json& at, const std::string& key) -> Json& {
    return at.is_array() ? at.as_array().at(std::stoul(key)) : *at.find(key);
  };
  const auto accepted_by_reader = [&](const std::vector<std::string>& place, const char* extra) {
    Json file = whole;
    Json* at = &file;
    for (const std::string& key : place) at = &step(*at, key);
    at->set(extra, 1);
    const std::string message = refusal([&] { parse_failure(file, vocabulary()); });
    const auto begin = message.find("; allowed: "), end = message.find(" (did you");
    CHECK(begin != std::string::npos);
    std::set<std::string> keys;
    if (begin != std::string::npos)
      for (std::string& key : split(message.substr(begin + 11, end == std::string::npos ? end : end - begin - 11), ',')) {
        key.erase(0, key.find_first_not_of(' '));
        keys.insert(key);
      }
    return keys;
  };
  const auto in_schema = [&](const std::string& definition) {
    std::set<std::string> keys;
    const Json& object = definition.empty() ? schema : schema.at("$defs").at(definition);
    CHECK(!object.at("additionalProperties").as_bool());
    for (const auto& [key, value] : object.at("properties").as_object()) keys.insert(key);
    return keys;
  };
  for (const auto& [definition, place] : places) CHECK(accepted_by_reader(place, "zzz") == in_schema(definition));
  // Every closed object of the schema was looked at: those above, and the ratio, whose keys a condition tries below.
  std::set<std::string> closed;
  for (const auto& [name, definition] : schema.at("$defs").as_object())
    if (const Json* open = definition.find("additionalProperties"); open != nullptr && open->is_bool()) closed.insert(name);
  CHECK(closed == std::set<std::string>({"ingredient", "arm", "condition", "ratio", "dose", "recovery", "implication"}));
  CHECK(in_schema("ratio") == std::set<std::string>({"at_least", "at_most"}));
  // Required in the schema is required by the reader.
  for (const Json& key : schema.at("required").as_array()) {
    Json file = whole;
    std::erase_if(file.as_object(), [&](const Json::Member& member) { return member.first == key.as_string(); });
    CHECK(refusal([&] { parse_failure(file, vocabulary()); }) != "accepted");
  }
}
