// The reader of failure files, and what each arm of a failure runs with.
//
// A file is read once and checked whole: spelling of every key, every name against the catalogues, every number against what its
// metric can be, and what the file says of itself (a remedy that changes nothing is no remedy). Each complaint is one line with
// file, line, what is allowed and the nearest valid word. The shape is published as results/schema/failure.schema.json.

#include "harness/failure.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/text.hpp"

namespace misfire {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string_view>;

constexpr int schema_version = 1;
constexpr int fewest_blocks = 5, most_blocks = 50;
constexpr Duration longest_deadline = std::chrono::hours(1);

[[noreturn]] void refuse(const Json& at, const std::string& what) { throw Error(ErrorCode::invalid_input, at.where() + what); }

std::string in_quotes(std::string_view word) { return "'" + std::string(word) + "'"; }

std::string listed(std::span<const std::string_view> words) {
  std::string text;
  for (std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text.empty() ? "none" : text;
}

/// "unknown metric 'x'; allowed: a, b (did you mean 'a'?)"
[[noreturn]] void unknown(const Json& at, const std::string& what, std::string_view word, const Words& allowed) {
  refuse(at, "unknown " + what + " " + in_quotes(word) + "; allowed: " + listed(allowed) + did_you_mean(word, allowed));
}

bool contains(const Words& words, std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); }

bool kebab_case(std::string_view word) {
  if (word.empty() || word.front() == '-' || word.back() == '-' || word.find("--") != std::string_view::npos) return false;
  return std::all_of(word.begin(), word.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

/// In four digits, more where fewer would make a whole number of one that is none; a whole number whole.
std::string number_text(double value) {
  char buffer[40];
  const bool whole = value == std::floor(value);
  if (whole && std::fabs(value) < 1e15) {
    std::snprintf(buffer, sizeof buffer, "%.0f", value);
    return buffer;
  }
  for (int digits : {4, 6, 9, 17}) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    const double back = std::strtod(buffer, nullptr);
    if (whole || back != std::floor(back)) break;
  }
  return buffer;
}

/// @param what  the object, for complaints: "the failure", "an arm"
void check_keys(const Json& object, const std::string& what, const Words& allowed) {
  if (!object.is_object()) refuse(object, "expected an object for " + what + ", found " + std::string(object.type_name()));
  for (const auto& [key, value] : object.as_object())
    if (!contains(allowed, key)) unknown(value, "key in " + what + ":", key, allowed);
}

const Json& member(const Json& object, const std::string& what, std::string_view key) {
  if (const Json* found = object.find(key)) return *found;
  refuse(object, what + " lacks " + in_quotes(key));
}

std::string text_of(const Json& value, std::string_view what) {
  if (!value.is_string()) refuse(value, std::string(what) + ": expected text, found " + std::string(value.type_name()));
  const std::string& text = value.as_string();
  if (text.find_first_not_of(" \t") == std::string::npos) refuse(value, std::string(what) + " is empty");
  if (text.find_first_of("\n\r") != std::string::npos) refuse(value, std::string(what) + " must be one line");
  return text;
}

std::string text_at(const Json& object, const std::string& owner, std::string_view key) {
  return text_of(member(object, owner, key), key);
}

std::vector<std::string> texts_at(const Json& object, std::string_view key) {
  std::vector<std::string> texts;
  const Json* list = object.find(key);
  if (list == nullptr) return texts;
  if (!list->is_array()) refuse(*list, std::string(key) + ": expected a list of texts, found " + std::string(list->type_name()));
  for (const Json& item : list->as_array()) {
    texts.push_back(text_of(item, key));
    if (std::count(texts.begin(), texts.end(), texts.back()) > 1)
      refuse(item, std::string(key) + " names " + in_quotes(texts.back()) + " twice");
  }
  return texts;
}

bool flag_at(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  if (value == nullptr) return false;
  if (!value->is_bool()) refuse(*value, std::string(key) + ": expected true or false, found " + std::string(value->type_name()));
  return value->as_bool();
}

void check_name(const Json& at, const std::string& what, std::string_view name) {
  if (!kebab_case(name))
    refuse(at, what + " " + in_quotes(name) + " must be lower-case words joined by '-', as in 'shm-exhaustion-sigbus'");
}

/// A complaint of the option tables, whoever raised it, with a place in the file.
template <class F>
void with_place(const Json& at, F&& check) {
  try {
    check();
  } catch (const Error& error) {
    const std::string what = error.what();
    const bool placed = !at.source().empty() && what.starts_with(at.source() + ":");
    throw Error(ErrorCode::invalid_input, placed ? what : at.where() + what);
  }
}

/// Smallest and largest value that a metric of this unit can have.
std::pair<double, double> range_of(Unit unit) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  switch (unit) {
    case Unit::count:
    case Unit::seconds:
    case Unit::ratio:
    case Unit::bytes_per_second:
    case Unit::images_per_second:
      return {0, infinite};
    case Unit::fraction:
      return {0, 1};
    default:
      return {-infinite, infinite};  // bytes too: a growth may be negative
  }
}

const Words owners = {"job", "framework", "data", "node", "fabric", "storage", "scheduler", "driver"};
const Words failure_keys = {"schema",   "name",       "scenario",   "summary",   "cause",    "remedy",    "said",
                            "owner",    "action",     "search_for", "sources",   "needs",    "workload",  "condition",
                            "misuse",   "arms",       "dose",       "signature", "recovery", "invariant", "blocks",
                            "deadline", "lookalikes", "implies",    "claims"};
const Words ingredient_keys = {"inject", "workload", "evidence"};
const Words arm_keys = {"role", "expect", "inject", "workload", "summary"};
const Words condition_keys = {"metric",  "equals",           "not_equals", "at_least", "at_most",
                              "between", "ratio_to_control", "optional",   "why"};
const Words test_keys = {"equals", "not_equals", "at_least", "at_most", "between", "ratio_to_control"};
const Words ratio_keys = {"at_least", "at_most"};
const Words dose_keys = {"key", "values", "neutral", "metric", "effect", "onset", "formula"};
const Words recovery_keys = {"metric", "fraction"};
const Words implication_keys = {"failure", "reason"};

/// Puts the members of `more` over those of `options`.
void merge(Json& options, const Json& more) {
  for (const auto& [key, value] : more.as_object()) options.set(key, value);
}

/// The fault and the option of a dose key such as "mem.shm_size.size", when an ingredient injects that fault.
struct FaultDose {
  const Ingredient* ingredient = nullptr;
  std::string_view fault, option;
};
FaultDose fault_dose(const Failure& failure) {
  FaultDose found;
  if (!failure.dose) return found;
  const std::string_view key = failure.dose->key;
  for (const Ingredient* ingredient : {&failure.condition, &failure.misuse})
    for (const InjectionSpec& spec : ingredient->inject)
      if (key.size() > spec.fault.size() + 1 && key.starts_with(spec.fault) && key[spec.fault.size()] == '.' &&
          spec.fault.size() > found.fault.size())
        found = {ingredient, spec.fault, key.substr(spec.fault.size() + 1)};
  return found;
}

class Reader {
 public:
  Reader(const Json& root, const Vocabulary& vocabulary, bool is_file)
      : root_(root), vocabulary_(vocabulary), is_file_(is_file) {}

  Failure read() {
    check_version();
    check_keys(root_, "the failure", failure_keys);
    failure_.source = root_;
    words();
    workload();
    failure_.condition = ingredient("condition");
    failure_.misuse = ingredient("misuse");
    check_ingredients();
    arms();
    check_plans();
    dose();
    failure_.signature = conditions(member(root_, "the failure", "signature"), "signature");
    check_signature();
    recovery();
    effort();
    relations();
    return std::move(failure_);
  }

 private:
  void check_version() {
    if (!root_.is_object()) refuse(root_, "expected an object for the failure, found " + std::string(root_.type_name()));
    const Json& version = member(root_, "the failure", "schema");
    if (!version.is_integer())
      refuse(version, "schema: expected the version as an integer, found " + std::string(version.type_name()));
    if (version.as_double() > schema_version)
      refuse(version, "schema " + version.dump() + " is newer than this Misfire reads (" + std::to_string(schema_version) +
                          "): update Misfire");
    if (version.as_double() != schema_version) refuse(version, "schema: there is no version " + version.dump() + "; allowed: 1");
  }

  std::string word_of(std::string_view key, const Words& allowed) {
    const Json& value = member(root_, "the failure", key);
    const std::string word = text_of(value, key);
    if (!contains(allowed, word)) unknown(value, std::string(key), word, allowed);
    return word;
  }

  void words() {
    failure_.name = text_at(root_, "the failure", "name");
    check_name(root_.at("name"), "name", failure_.name);
    Words names;
    for (const auto& scenario : vocabulary_.scenarios) names.push_back(scenario.name);
    failure_.scenario = word_of("scenario", names);
    scenario_ = &*std::find_if(vocabulary_.scenarios.begin(), vocabulary_.scenarios.end(),
                               [&](const Vocabulary::Scenario& scenario) { return scenario.name == failure_.scenario; });
    failure_.summary = text_at(root_, "the failure", "summary");
    failure_.cause = text_at(root_, "the failure", "cause");
    failure_.remedy = text_at(root_, "the failure", "remedy");
    if (const Json* said = root_.find("said")) failure_.said = text_of(*said, "said");
    failure_.owner = word_of("owner", owners);
    failure_.action = text_at(root_, "the failure", "action");
    failure_.search_for = texts_at(root_, "search_for");
    failure_.sources = texts_at(root_, "sources");
    failure_.needs = texts_at(root_, "needs");
    for (std::size_t i = 0; i < failure_.needs.size(); ++i)
      if (!contains(vocabulary_.capabilities, failure_.needs[i]))
        unknown(root_.at("needs").as_array()[i], "capability", failure_.needs[i], vocabulary_.capabilities);
  }

  void workload() {
    const Json& given = member(root_, "the failure", "workload");
    if (!given.is_object()) refuse(given, "expected an object for workload, found " + std::string(given.type_name()));
    const Json& name = member(given, "workload", "name");
    failure_.workload_name = text_of(name, "workload name");
    if (!contains(scenario_->workloads, failure_.workload_name))
      unknown(name, "workload", failure_.workload_name, scenario_->workloads);
    failure_.workload = given;
    auto& members = failure_.workload.as_object();
    std::erase_if(members, [](const Json::Member& entry) { return entry.first == "name"; });
    check_options(failure_.workload);
  }

  void check_options(Json options) {
    if (scenario_->check_workload == nullptr) return;
    std::erase_if(options.as_object(), [](const Json::Member& entry) { return entry.first == "name"; });
    with_place(options, [&] { scenario_->check_workload(failure_.workload_name, options); });
  }

  Json options_at(const Json& object, const std::string& what) {
    const Json* options = object.find("workload");
    if (options == nullptr) return Json::object();
    if (!options->is_object())
      refuse(*options, "expected an object for the workload of " + what + ", found " + std::string(options->type_name()));
    if (const Json* name = options->find("name")) refuse(*name, "the workload's name is given once, in the failure's 'workload'");
    return *options;
  }

  void check_fault_options(const FaultEntry& entry, const Json& options) {
    if (entry.make == nullptr) return;
    with_place(options, [&] { entry.make()->options().set(options); });
  }

  const FaultEntry& fault(const Json& at, std::string_view name) {
    Words names;
    for (const FaultEntry& entry : vocabulary_.faults) {
      if (entry.name == name) return entry;
      names.push_back(entry.name);
    }
    unknown(at, "fault", name, names);
  }

  std::vector<InjectionSpec> injections(const Json& object, const std::string& what) {
    std::vector<InjectionSpec> specs;
    const Json* list = object.find("inject");
    if (list == nullptr) return specs;
    if (!list->is_array()) refuse(*list, "inject: expected a list of faults, found " + std::string(list->type_name()));
    for (const Json& item : list->as_array()) {
      if (!item.is_object()) refuse(item, "inject: expected an object with 'fault', found " + std::string(item.type_name()));
      InjectionSpec spec{text_at(item, "an injection", "fault"), item};
      std::erase_if(spec.options.as_object(), [](const Json::Member& entry) { return entry.first == "fault"; });
      check_fault_options(fault(item.at("fault"), spec.fault), spec.options);
      for (const InjectionSpec& other : specs)
        if (other.fault == spec.fault) refuse(item, what + " injects " + in_quotes(spec.fault) + " twice");
      specs.push_back(std::move(spec));
    }
    return specs;
  }

  Ingredient ingredient(const std::string& key) {
    Ingredient result;
    const Json* given = root_.find(key);
    if (given == nullptr) return result;
    check_keys(*given, key, ingredient_keys);
    result.inject = injections(*given, key);
    result.workload = options_at(*given, key);
    if (result.empty()) refuse(*given, key + " is empty; allowed: 'inject' (faults) or 'workload' (options), and 'evidence'");
    if (const Json* evidence = given->find("evidence")) result.evidence = conditions(*evidence, "evidence of the " + key);
    return result;
  }

  void check_ingredients() {
    const Ingredient &condition = failure_.condition, &misuse = failure_.misuse;
    if (condition.empty() && misuse.empty())
      refuse(root_, "the failure has neither a 'condition' nor a 'misuse': nothing would be wrong in its faulty arm");
    const bool proved = !condition.evidence.empty() || (condition.empty() && !misuse.evidence.empty());
    if (!proved)
      refuse(root_.at(condition.empty() ? "misuse" : "condition"),
             std::string(condition.empty() ? "the misuse" : "the condition") +
                 " lacks 'evidence': a metric that proves it was there");
    for (const InjectionSpec& spec : misuse.inject)
      for (const InjectionSpec& other : condition.inject)
        if (spec.fault == other.fault) refuse(root_.at("misuse"), "both condition and misuse inject " + in_quotes(spec.fault));
  }

  std::vector<Condition> conditions(const Json& list, const std::string& what) {
    std::vector<Condition> result;
    if (!list.is_array()) refuse(list, what + ": expected a list of conditions, found " + std::string(list.type_name()));
    if (list.as_array().empty()) refuse(list, what + " is empty");
    for (const Json& item : list.as_array()) result.push_back(condition(item, what));
    return result;
  }

  const MetricInfo& metric(const Json& value) {
    const std::string name = text_of(value, "metric");
    Words names;
    for (const MetricInfo& info : scenario_->metrics) {
      if (info.name == name) return info;
      names.push_back(info.name);
    }
    unknown(value, "metric", name, names);
  }

  Condition condition(const Json& item, const std::string& what) {
    check_keys(item, "a condition of the " + what, condition_keys);
    Condition result;
    result.line = item.line();
    const MetricInfo& info = metric(member(item, "a condition", "metric"));
    result.metric = info.name;
    result.unit = info.unit;
    result.optional = flag_at(item, "optional");
    if (const Json* why = item.find("why")) result.why = text_of(*why, "why");
    const Json* bound = nullptr;
    std::string_view test;
    for (std::string_view key : test_keys)
      if (const Json* found = item.find(key)) {
        if (bound != nullptr)
          refuse(*found, "a condition makes one comparison, not both " + in_quotes(test) + " and " + in_quotes(key));
        bound = found;
        test = key;
      }
    if (bound == nullptr)
      refuse(item, "the condition on " + in_quotes(info.name) + " compares with nothing; allowed: " + listed(test_keys));
    using Test = Condition::Test;
    if (test == "equals" || test == "not_equals") {
      result.test = test == "equals" ? Test::equals : Test::not_equals;
      result.bounds = {amount(*bound, info, true)};
    } else if (info.unit == Unit::text) {
      refuse(*bound, in_quotes(info.name) + " is text; allowed: equals, not_equals");
    } else if (test == "between") {
      result.test = Test::between;
      if (!bound->is_array() || bound->as_array().size() != 2) refuse(*bound, "between needs two bounds, as in [1, 2]");
      for (const Json& end : bound->as_array()) result.bounds.push_back(amount(end, info, true));
      if (result.bounds[0].as_double() > result.bounds[1].as_double())
        refuse(*bound, "between: the first bound is above the second");
    } else if (test == "ratio_to_control") {
      check_keys(*bound, "ratio_to_control", ratio_keys);
      if (bound->as_object().size() != 1) refuse(*bound, "ratio_to_control makes one comparison; allowed: at_least, at_most");
      const auto& [key, value] = bound->as_object().front();
      result.test = key == "at_least" ? Test::ratio_at_least : Test::ratio_at_most;
      if (!value.is_number()) refuse(value, "ratio_to_control: expected a number, found " + std::string(value.type_name()));
      if (!(value.as_double() > 0)) refuse(value, "ratio_to_control: a ratio to compare with is above 0, not " + value.dump());
      result.bounds = {value};
    } else {
      result.test = test == "at_least" ? Test::at_least : Test::at_most;
      result.bounds = {amount(*bound, info, true)};
      const auto [low, high] = range_of(info.unit);
      const double limit = result.bounds[0].as_double();
      if (result.test == Test::at_least ? limit <= low : limit >= high)
        refuse(*bound,
               "every " + std::string(unit_name(info.unit)) + " is " + result.bound_text() + ": the condition says nothing");
    }
    return result;
  }

  /// A value of a metric in base units; sizes and durations may carry a suffix.
  Json amount(const Json& value, const MetricInfo& info, bool check_range) {
    if (info.unit == Unit::text) return Json(text_of(value, info.name));
    Json number = value;
    if (value.is_string()) {
      const bool suffixes = info.unit == Unit::bytes || info.unit == Unit::seconds;
      if (!suffixes) refuse(value, in_quotes(info.name) + " is a number, not " + value.dump());
      with_place(value, [&] {
        number =
            info.unit == Unit::bytes ? Json(parse_size(value.as_string())) : Json(to_seconds(parse_duration(value.as_string())));
      });
    }
    if (!number.is_number()) refuse(value, in_quotes(info.name) + ": expected a number, found " + std::string(value.type_name()));
    const auto [low, high] = range_of(info.unit);
    const double amount = number.as_double();
    if (check_range && (amount < low || amount > high))
      refuse(value, in_quotes(info.name) + " can never be " + number_text(amount) + ": a " + std::string(unit_name(info.unit)) +
                        " is " + (info.unit == Unit::fraction ? "from 0 to 1" : "0 or more"));
    return number;
  }

  void arms() {
    const Json& given = member(root_, "the failure", "arms");
    if (!given.is_object())
      refuse(given, "expected an object for arms (name: what is special), found " + std::string(given.type_name()));
    for (const auto& [name, value] : given.as_object()) failure_.arms.push_back(arm(name, value));
    for (Role role : {Role::control, Role::faulty, Role::remedied}) {
      const auto count =
          std::count_if(failure_.arms.begin(), failure_.arms.end(), [&](const Arm& arm) { return arm.role == role; });
      if (count == 0) refuse(given, "no arm has the role " + in_quotes(role_name(role)) + "; needed: control, faulty, remedied");
      if (count > 1 && role != Role::remedied) refuse(given, "more than one arm has the role " + in_quotes(role_name(role)));
    }
  }

  Arm arm(const std::string& name, const Json& value) {
    check_name(value, "arm", name);
    const std::string what = "arm " + in_quotes(name);
    check_keys(value, what, arm_keys);
    Arm result;
    result.name = name;
    result.line = value.line();
    const Json& role = member(value, what, "role");
    const std::string word = text_of(role, "role");
    Words names;
    for (Role candidate : all_roles) names.push_back(role_name(candidate));
    if (!contains(names, word)) unknown(role, "role", word, names);
    result.role = *std::find_if(all_roles.begin(), all_roles.end(), [&](Role candidate) { return role_name(candidate) == word; });
    result.expect_present = result.role == Role::faulty;
    if (const Json* expect = value.find("expect")) {
      const std::string wanted = text_of(*expect, "expect");
      if (!contains({"present", "absent"}, wanted)) unknown(*expect, "expect", wanted, {"present", "absent"});
      if (result.role != Role::popular_advice && (wanted == "present") != result.expect_present)
        refuse(*expect,
               "in a " + word + " arm the signature is " + (result.expect_present ? "present" : "absent") + " by definition");
      result.expect_present = wanted == "present";
    } else if (result.role == Role::popular_advice) {
      refuse(value, what + " lacks 'expect': whether the signature stays with that advice; allowed: present, absent");
    }
    result.inject = injections(value, what);
    if (result.role == Role::control && !result.inject.empty())
      refuse(value.at("inject"), "the control arm injects nothing: the faults of the ingredients are in it, disarmed");
    result.workload = options_at(value, what);
    if (const Json* summary = value.find("summary")) result.summary = text_of(*summary, "summary");
    return result;
  }

  void check_plans() {
    Json options = failure_.workload;
    for (const Ingredient* ingredient : {&failure_.condition, &failure_.misuse}) {
      merge(options, ingredient->workload);
      check_options(options);
    }
    for (const Arm& arm : failure_.arms) {
      if (arm.role == Role::remedied) check_remedy_keeps_condition(arm);
      check_options(plan(arm).workload);
    }
    const Arm& faulty = failure_.arm(Role::faulty);
    for (const Arm& arm : failure_.arms) {
      if (arm.role != Role::control && arm.role != Role::remedied) continue;
      const Json& at = root_.at("arms").at(arm.name);
      if (same_plan(plan(arm), plan(faulty)))
        refuse(at,
               "arm " + in_quotes(arm.name) + " runs with the same as " + in_quotes(faulty.name) + ": " +
                   (arm.role == Role::remedied ? "the remedy changes nothing" : "neither condition nor misuse changes anything"));
    }
  }

  TrialPlan plan(const Arm& arm) const { return compose(failure_, arm, std::nullopt, Sabotage::none); }

  void check_remedy_keeps_condition(const Arm& arm) {
    const Json& at = root_.at("arms").at(arm.name);
    for (const auto& [key, value] : arm.workload.as_object())
      if (failure_.condition.workload.find(key) != nullptr)
        refuse(value, "the remedied arm keeps the condition: it cannot set " + in_quotes(key));
    for (const InjectionSpec& spec : arm.inject)
      for (const InjectionSpec& own : failure_.condition.inject)
        if (spec.fault == own.fault)
          refuse(at, "the remedied arm keeps the condition: it cannot inject " + in_quotes(spec.fault) + " of its own");
  }

  static bool same_plan(const TrialPlan& a, const TrialPlan& b) {
    const auto armed = [](const TrialPlan& plan) {
      Json list = Json::array();
      for (const auto& injection : plan.injections)
        if (injection.armed) list.push_back(Json::object({{injection.spec.fault, injection.spec.options}}));
      return list;
    };
    return a.workload == b.workload && armed(a) == armed(b);
  }

  void dose() {
    const Json* given = root_.find("dose");
    if (given == nullptr) return;
    check_keys(*given, "the dose", dose_keys);
    Dose dose;
    dose.key = text_at(*given, "the dose", "key");
    const Json& values = member(*given, "the dose", "values");
    if (!values.is_array() || values.as_array().size() < 2)
      refuse(values, "dose: 'values' needs at least two, in increasing harm");
    for (const Json& value : values.as_array()) {
      if (!value.is_number() && !value.is_string() && !value.is_bool())
        refuse(value, "dose: a value is a number, a text or true or false");
      for (const Json& other : dose.values)
        if (same_dose(value, other)) refuse(value, "dose: the value " + value.dump() + " is there twice");
      dose.values.push_back(value);
    }
    const auto among = [&](const Json& value, std::string_view what) {
      for (const Json& candidate : dose.values)
        if (same_dose(candidate, value)) return candidate;
      refuse(value, "dose: " + std::string(what) + " " + value.dump() + " is none of its values " + values.dump());
    };
    dose.neutral = among(member(*given, "the dose", "neutral"), "neutral");
    const Json *name = given->find("metric"), *effect = given->find("effect");
    if ((name == nullptr) != (effect == nullptr)) refuse(*given, "dose: 'metric' and 'effect' come together");
    if (name != nullptr) {
      const MetricInfo& info = metric(*name);
      if (info.unit == Unit::text) refuse(*name, in_quotes(info.name) + " is text: it cannot follow a dose");
      dose.metric = info.name;
      const std::string direction = text_of(*effect, "effect");
      if (!contains({"increasing", "decreasing"}, direction)) unknown(*effect, "effect", direction, {"increasing", "decreasing"});
      dose.increasing = direction == "increasing";
    }
    if (const Json* formula = given->find("formula")) dose.formula = text_of(*formula, "formula");
    if (const Json* onset = given->find("onset")) {
      dose.onset = among(*onset, "onset");
      if (same_dose(*dose.onset, dose.neutral)) refuse(*onset, "dose: the onset is the neutral value");
      if (dose.formula.empty()) refuse(*onset, "dose: 'onset' needs 'formula': where it comes from");
    }
    failure_.dose = std::move(dose);
    check_dose_key(given->at("key"));
  }

  void check_dose_key(const Json& at) {
    const std::string& key = failure_.dose->key;
    const Arm& faulty = failure_.arm(Role::faulty);
    const FaultDose target = fault_dose(failure_);
    for (const Json& value : failure_.dose->values) {
      Json one = Json::object({{std::string(target.ingredient ? target.option : std::string_view(key)), value}});
      if (target.ingredient) {
        with_place(at, [&] { check_fault_options(fault(at, target.fault), one); });
      } else {
        if (key.find('.') != std::string::npos) {
          Words injected;
          for (const Ingredient* ingredient : {&failure_.condition, &failure_.misuse})
            for (const InjectionSpec& spec : ingredient->inject) injected.push_back(spec.fault);
          refuse(at, "dose key " + in_quotes(key) +
                         " not found: neither condition nor misuse injects that fault; allowed: a workload option, or " +
                         "'fault.option' of: " + listed(injected));
        }
        Json options = plan(faulty).workload;
        options.set(key, value);
        with_place(at, [&] { check_options(options); });
      }
    }
    const bool overridden = target.ingredient ? std::any_of(faulty.inject.begin(), faulty.inject.end(),
                                                            [&](const InjectionSpec& spec) { return spec.fault == target.fault; })
                                              : faulty.workload.find(key) != nullptr;
    if (overridden) refuse(at, "dose key " + in_quotes(key) + " is set by the faulty arm itself: no dose would reach it");
  }

  void check_signature() {
    const Json& at = root_.at("signature");
    if (std::all_of(failure_.signature.begin(), failure_.signature.end(),
                    [](const Condition& condition) { return condition.optional; }))
      refuse(at, "signature: at least one condition must not be optional");
  }

  void recovery() {
    const Json& given = member(root_, "the failure", "recovery");
    check_keys(given, "recovery", recovery_keys);
    failure_.recovery_metric = metric(member(given, "recovery", "metric")).name;
    if (const Json* fraction = given.find("fraction")) {
      if (!fraction->is_number()) refuse(*fraction, "fraction: expected a number, found " + std::string(fraction->type_name()));
      failure_.recovery_fraction = fraction->as_double();
      if (!(failure_.recovery_fraction > 0 && failure_.recovery_fraction <= 1))
        refuse(*fraction,
               "fraction: the share of the harm that the remedy takes away is above 0 and at most 1, not " + fraction->dump());
    }
  }

  void effort() {
    failure_.invariant = flag_at(root_, "invariant");
    if (const Json* blocks = root_.find("blocks")) {
      if (failure_.invariant) refuse(*blocks, "'blocks' and 'invariant' exclude each other: one trial decides an invariant");
      if (!blocks->is_integer()) refuse(*blocks, "blocks: expected an integer, found " + std::string(blocks->type_name()));
      if (blocks->as_double() < fewest_blocks || blocks->as_double() > most_blocks)
        refuse(*blocks, "blocks: " + blocks->dump() + " is out of range; allowed: " + std::to_string(fewest_blocks) + " to " +
                            std::to_string(most_blocks));
      failure_.blocks = static_cast<int>(blocks->as_int());
    }
    if (failure_.invariant) {
      const Json::Array& list = root_.at("signature").as_array();
      for (std::size_t i = 0; i < list.size(); ++i)
        if (failure_.signature[i].ratio())
          refuse(list[i], "a ratio to the control is no invariant: leave 'invariant' out, it then takes blocks");
    }
    failure_.deadline = std::chrono::seconds(10);
    if (const Json* deadline = root_.find("deadline")) {
      with_place(*deadline, [&] {
        failure_.deadline = deadline->is_string() ? parse_duration(deadline->as_string()) : from_seconds(deadline->as_double());
      });
      if (failure_.deadline <= Duration::zero() || failure_.deadline > longest_deadline)
        refuse(*deadline, "deadline: " + deadline->dump() + " is out of range; allowed: above 0 to 1h");
    }
  }

  void relations() {
    failure_.claims = texts_at(root_, "claims");
    failure_.lookalikes = texts_at(root_, "lookalikes");
    if (is_file_) check_lookalikes();
    const Json* implies = root_.find("implies");
    if (implies == nullptr) return;
    if (!implies->is_array()) refuse(*implies, "implies: expected a list, found " + std::string(implies->type_name()));
    for (const Json& item : implies->as_array()) {
      check_keys(item, "an implication", implication_keys);
      Implication implication{text_at(item, "an implication", "failure"), text_at(item, "an implication", "reason")};
      check_name(item.at("failure"), "failure", implication.failure);
      if (implication.failure == failure_.name) refuse(item, "a failure does not imply itself");
      failure_.implies.push_back(std::move(implication));
    }
  }

  /// Look-alikes are arms of this file or failures that ship.
  void check_lookalikes() {
    std::vector<std::string> shipped;
    if (!failure_.lookalikes.empty())
      for (const std::string& path : shipped_failures()) shipped.push_back(fs::path(path).stem().string());
    Words known;
    for (const Arm& arm : failure_.arms)
      if (arm.role == Role::lookalike) known.push_back(arm.name);
    known.insert(known.end(), shipped.begin(), shipped.end());
    for (std::size_t i = 0; i < failure_.lookalikes.size(); ++i) {
      const Json& at = root_.at("lookalikes").as_array()[i];
      if (failure_.lookalikes[i] == failure_.name) refuse(at, "a failure is no look-alike of itself");
      if (!contains(known, failure_.lookalikes[i]))
        unknown(at, "look-alike (an arm of that role, or a failure)", failure_.lookalikes[i], known);
    }
  }

  const Json& root_;
  const Vocabulary& vocabulary_;
  const bool is_file_;
  const Vocabulary::Scenario* scenario_ = nullptr;
  Failure failure_;
};

/// A file among the shipped ones is named for its failure and lies with its scenario.
void check_place(const Failure& failure) {
  std::error_code ignored;
  const fs::path path = fs::weakly_canonical(failure.path, ignored), folder = path.parent_path();
  const fs::path suites = fs::weakly_canonical(shipped_file("suites"), ignored);
  if (folder.filename() != "failures" || folder.parent_path().parent_path() != suites) return;
  if (path.stem() != failure.name)
    refuse(failure.source.at("name"),
           "name " + in_quotes(failure.name) + " differs from the file's, " + in_quotes(path.stem().string()));
  if (folder.parent_path().filename() != failure.scenario)
    refuse(failure.source.at("scenario"), "scenario " + in_quotes(failure.scenario) + " differs from the folder's, " +
                                              in_quotes(folder.parent_path().filename().string()));
}

}  // namespace

std::string_view role_name(Role role) noexcept {
  switch (role) {
    case Role::control:
      return "control";
    case Role::faulty:
      return "faulty";
    case Role::remedied:
      return "remedied";
    case Role::popular_advice:
      return "popular_advice";
    case Role::lookalike:
      return "lookalike";
  }
  return "control";
}

std::string_view sabotage_name(Sabotage sabotage) noexcept {
  switch (sabotage) {
    case Sabotage::none:
      return "none";
    case Sabotage::condition:
      return "condition";
    case Sabotage::misuse:
      return "misuse";
  }
  return "none";
}

std::string value_text(double value, Unit unit) {
  if ((unit == Unit::bytes && std::fabs(value) >= 1024) || unit == Unit::seconds) return format_quantity(value, unit);
  return number_text(value);
}

std::string Condition::bound_text() const {
  const auto bound = [&](std::size_t i) {
    if (bounds[i].is_string()) return in_quotes(bounds[i].as_string());
    return ratio() ? number_text(bounds[i].as_double()) : value_text(bounds[i].as_double(), unit);
  };
  switch (test) {
    case Test::equals:
      return "= " + bound(0);
    case Test::not_equals:
      return "!= " + bound(0);
    case Test::at_least:
    case Test::ratio_at_least:
      return ">= " + bound(0);
    case Test::at_most:
    case Test::ratio_at_most:
      return "<= " + bound(0);
    case Test::between:
      return "in [" + bound(0) + ", " + bound(1) + "]";
  }
  return "";
}

std::string Condition::describe() const { return metric + (ratio() ? " / control " : " ") + bound_text(); }

const Arm& Failure::arm(std::string_view wanted) const {
  Words names;
  for (const Arm& candidate : arms) {
    if (candidate.name == wanted) return candidate;
    names.push_back(candidate.name);
  }
  throw Error(ErrorCode::not_found,
              in_quotes(name) + " has no arm " + in_quotes(wanted) + "; it has: " + listed(names) + did_you_mean(wanted, names));
}

const Arm& Failure::arm(Role role) const {
  for (const Arm& candidate : arms)
    if (candidate.role == role) return candidate;
  throw Error(ErrorCode::not_found, in_quotes(name) + " has no " + std::string(role_name(role)) + " arm");
}

Failure read_failure(const std::string& path, const Vocabulary& vocabulary) {
  const Json source = Json::read_file(path);
  Failure failure = Reader(source, vocabulary, true).read();
  failure.path = path;
  check_place(failure);
  return failure;
}

Failure parse_failure(const Json& source, const Vocabulary& vocabulary) {
  Failure failure = Reader(source, vocabulary, false).read();
  failure.path = source.source();
  return failure;
}

std::vector<std::string> shipped_failures(std::string_view scenario) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& suite : fs::directory_iterator(shipped_file("suites"), error)) {
    if (!scenario.empty() && suite.path().filename() != scenario) continue;
    std::error_code absent;
    for (const auto& file : fs::directory_iterator(suite.path() / "failures", absent))
      if (file.path().extension() == ".json") paths.push_back(file.path().string());
  }
  std::sort(paths.begin(), paths.end(),
            [](const std::string& a, const std::string& b) { return fs::path(a).stem() < fs::path(b).stem(); });
  return paths;
}

Failure find_failure(const std::string& name_or_path, const Vocabulary& vocabulary) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json"))
    return read_failure(name_or_path, vocabulary);
  std::vector<std::string> names;
  for (const std::string& path : shipped_failures()) {
    names.push_back(fs::path(path).stem().string());
    if (names.back() == name_or_path) return read_failure(path, vocabulary);
  }
  throw Error(ErrorCode::not_found, "no failure is named " + in_quotes(name_or_path) +
                                        did_you_mean(name_or_path, Words(names.begin(), names.end())) +
                                        "; 'misfire list' shows them, a file of your own is named by its path");
}

std::string dose_text(const Json& dose) { return dose.is_string() ? dose.as_string() : dose.dump(); }

bool same_dose(const Json& a, const Json& b) {
  if (a == b) return true;
  // A suffix means the same to both readers, or to one alone: a size and a duration are never spelt alike and equal by accident.
  const auto amount = [](const Json& value) -> std::optional<double> {
    if (value.is_number()) return value.as_double();
    if (!value.is_string()) return std::nullopt;
    try {
      return static_cast<double>(parse_size(value.as_string()));
    } catch (const Error&) {
    }
    try {
      return to_seconds(parse_duration(value.as_string()));
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  const auto x = amount(a), y = amount(b);
  return x && y && *x == *y;
}

Json read_dose(const Failure& failure, std::string_view text) {
  Json value(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(number))
    value = number == std::floor(number) && std::fabs(number) < 0x1p53 ? Json(static_cast<std::int64_t>(number)) : Json(number);
  if (text == "true" || text == "false") value = Json(text == "true");
  if (failure.dose)
    for (const Json& candidate : failure.dose->values)
      if (same_dose(candidate, value)) return candidate;
  return value;
}

TrialPlan compose(const Failure& failure, const Arm& arm, const std::optional<Json>& dose, Sabotage sabotage) {
  TrialPlan plan;
  const bool faulty_like = arm.role == Role::faulty || arm.role == Role::popular_advice;
  plan.has_condition = !failure.condition.empty() && (faulty_like || arm.role == Role::remedied);
  plan.has_misuse = !failure.misuse.empty() && faulty_like;
  const bool sabotaged = arm.role == Role::faulty;
  struct Part {
    const Ingredient& ingredient;
    bool present, removed;
  };
  const Part parts[] = {
      {failure.condition, plan.has_condition, sabotaged && sabotage == Sabotage::condition},
      {failure.misuse, plan.has_misuse, sabotaged && sabotage == Sabotage::misuse},
  };
  const FaultDose target = dose ? fault_dose(failure) : FaultDose{};

  plan.workload = Json::object({{"name", failure.workload_name}});
  merge(plan.workload, failure.workload);
  bool held = false, reached = false;  // by an ingredient, in this arm
  for (const Part& part : parts) {
    const bool present = part.present && !part.removed;
    if (present) merge(plan.workload, part.ingredient.workload);
    if (dose && !target.ingredient && part.ingredient.workload.find(failure.dose->key) != nullptr) {
      held = true;
      reached = reached || present;
    }
    for (const InjectionSpec& spec : part.ingredient.inject) {
      plan.injections.push_back({spec, present});
      if (target.ingredient == &part.ingredient && spec.fault == target.fault)
        plan.injections.back().spec.options.set(target.option, *dose);
    }
  }
  if (dose && failure.dose && !target.ingredient && (reached || !held)) plan.workload.set(failure.dose->key, *dose);

  for (const auto& [key, value] : arm.workload.as_object()) {
    const bool removed = std::any_of(std::begin(parts), std::end(parts), [&, &k = key](const Part& part) {
      return part.removed && part.ingredient.workload.find(k) != nullptr;
    });
    if (!removed) plan.workload.set(key, value);
  }
  for (const InjectionSpec& spec : arm.inject) {
    const auto same = std::find_if(plan.injections.begin(), plan.injections.end(),
                                   [&](const TrialPlan::PlannedInjection& planned) { return planned.spec.fault == spec.fault; });
    if (same == plan.injections.end()) {
      plan.injections.push_back({spec, true});
      continue;
    }
    const bool removed = std::any_of(std::begin(parts), std::end(parts), [&](const Part& part) {
      return part.removed && std::any_of(part.ingredient.inject.begin(), part.ingredient.inject.end(),
                                         [&](const InjectionSpec& own) { return own.fault == spec.fault; });
    });
    same->spec = spec;
    same->armed = !removed;
  }
  return plan;
}

}  // namespace misfire
