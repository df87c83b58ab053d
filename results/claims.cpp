#include "results/claims.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "harness/files.hpp"
#include "harness/text.hpp"
#include "results/statistics.hpp"

namespace misfire {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double coverage = 1 - 2.0 / 32;  // of five blocks: all of them

[[noreturn]] void refuse(const Json& at, const std::string& what) { throw Error(ErrorCode::invalid_input, at.where() + what); }

void check_keys(const Json& object, std::string_view what, const std::vector<std::string_view>& allowed) {
  for (const auto& [key, value] : object.as_object())
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end())
      refuse(value, "unknown key in " + std::string(what) + ": '" + key + "'" + did_you_mean(key, allowed));
}

void check_version(const Json& file, std::string_view what) {
  if (file.at("schema").as_int() != 1) refuse(file.at("schema"), "this Misfire reads version 1 of " + std::string(what));
}

std::optional<double> number_at(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value == nullptr ? std::nullopt : std::optional(value->as_double());
}

ClaimCheck read_check(const Json& json) {
  check_keys(json, "a check", {"failure", "metric", "arm", "over", "at_least", "at_most", "why"});
  ClaimCheck check{json.at("failure").as_string(), json.at("metric").as_string(), json.at("arm").as_string(), "", {}, {},
                   json.at("why").as_string()};
  if (const Json* over = json.find("over")) check.over = over->as_string();
  check.at_least = number_at(json, "at_least");
  check.at_most = number_at(json, "at_most");
  if (check.at_least.has_value() == check.at_most.has_value()) refuse(json, "a check has one bound: at_least or at_most");
  return check;
}

Claim read_claim(const Json& json) {
  check_keys(json, "a claim", {"id", "statement", "published", "effect", "needs", "checks", "conditions"});
  Claim claim;
  claim.id = json.at("id").as_string();
  claim.statement = json.at("statement").as_string();
  claim.effect = json.at("effect").as_string();
  for (const Json& item : json.at("published").as_array()) {
    check_keys(item, "a published figure", {"configuration", "figures"});
    Claim::Published published{item.at("configuration").as_string(), {}};
    for (const auto& [name, value] : item.at("figures").as_object()) published.figures.emplace_back(name, value.as_double());
    claim.published.push_back(std::move(published));
  }
  for (const Json& item : json.at("needs").as_array()) {
    check_keys(item, "a need", {"fact", "what", "at_least"});
    claim.needs.push_back({item.at("fact").as_string(), item.at("what").as_string(), item.at("at_least").as_double()});
  }
  for (const Json& item : json.at("checks").as_array()) claim.checks.push_back(read_check(item));
  if (claim.checks.empty()) refuse(json.at("checks"), "a claim needs a check");
  if (const Json* conditions = json.find("conditions")) claim.conditions = conditions->as_string();
  return claim;
}

/// The number at a dotted path of the environment; a list counts its items.
Json fact_of(const Json& environment, const std::string& path) {
  const Json* at = &environment;
  for (const std::string& part : split(path, '.')) {
    at = at->find(part);
    if (at == nullptr) return Json();
  }
  if (at->is_array()) return Json(at->as_array().size());
  return at->is_number() ? *at : Json();
}

ClaimMeasurement::Values values_of(const ClaimCheck& check, std::span<const RunRecord> runs) {
  ClaimMeasurement::Values result{check.describe(), {}, ""};
  const auto without = [&](const std::string& why) {
    result.values.clear();
    result.missing = why;
    return result;
  };
  const auto number = [&](const RunRecord& run, const std::string& arm, int block, std::string& why) -> std::optional<double> {
    for (const TrialRecord& trial : run.trials) {
      if (trial.arm != arm || trial.block != block || !trial.dose.empty()) continue;
      const Metric* metric = trial.metric(check.metric);
      if (metric != nullptr && !metric->is_text()) return metric->number();
      why = check.metric + " in '" + arm + "': " + trial.why_missing(check.metric);
      return std::nullopt;
    }
    why = "no trial of '" + arm + "' in block " + std::to_string(block);
    return std::nullopt;
  };
  for (const RunRecord& run : runs) {  // several runs of one failure give the blocks of all of them
    const Json* name = run.failure.find("name");
    if (name == nullptr || !name->is_string() || name->as_string() != check.failure) continue;
    for (const TrialRecord& trial : run.trials) {
      if (trial.arm != check.arm || !trial.dose.empty()) continue;
      std::string why;
      const auto value = number(run, check.arm, trial.block, why);
      if (!value) return without(why);
      if (check.over.empty()) {
        result.values.push_back(*value);
        continue;
      }
      const auto base = number(run, check.over, trial.block, why);
      if (!base) return without(why);
      if (*base < 0 || *value < 0) return without("a ratio needs values of 0 or more");
      result.values.push_back(*base > 0 ? *value / *base : *value > 0 ? infinite : 1);
    }
  }
  if (result.values.empty()) return without("no trial of '" + check.arm + "': misfire reproduce " + check.failure);
  return result;
}

std::string shown(double value) { return std::isinf(value) ? "infinite" : value_text(value, Unit::none); }

ClaimResult::Measured decide(const ClaimCheck& check, const ClaimMeasurement::Values* values) {
  ClaimResult::Measured measured;
  measured.check = check;
  if (values == nullptr || values->values.empty()) {
    measured.explanation = values == nullptr || values->missing.empty() ? "not measured" : values->missing;
    return measured;
  }
  std::vector<double> sorted = values->values;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  const QuantileRanks ranks = quantile_ranks(n, 0.5, coverage);
  measured.blocks = n;
  measured.estimate = n % 2 == 1 || std::isinf(sorted[n / 2]) ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  measured.low = sorted[ranks.low - 1];
  measured.high = sorted[ranks.high - 1];
  const auto holds = [&](double value) { return check.at_least ? value >= *check.at_least : value <= *check.at_most; };
  const bool enough = n >= static_cast<std::size_t>(claim_blocks);
  if (enough && holds(measured.low) && holds(measured.high)) measured.presence = Presence::present;
  if (enough && !holds(measured.low) && !holds(measured.high)) measured.presence = Presence::absent;
  measured.explanation = shown(measured.estimate);
  if (measured.low < measured.high) measured.explanation += " [" + shown(measured.low) + ", " + shown(measured.high) + "]";
  measured.explanation += n == 1 ? " in one trial" : " in " + std::to_string(n) + " blocks";
  return measured;
}

}  // namespace

std::string_view claim_verdict_name(ClaimVerdict verdict) noexcept {
  switch (verdict) {
    case ClaimVerdict::holds:
      return "holds";
    case ClaimVerdict::holds_under_conditions:
      return "holds under conditions";
    case ClaimVerdict::contradicted:
      return "contradicted";
    case ClaimVerdict::not_measurable:
      return "not measurable here";
  }
  return "not measurable here";
}

std::string ClaimCheck::describe() const {
  return failure + ": " + metric + ", " + arm + (over.empty() ? "" : " / " + over) + (at_least ? " >= " : " <= ") +
         value_text(at_least ? *at_least : at_most.value_or(0), Unit::none);
}

std::vector<Claim> read_claims(const std::string& path) {
  const Json file = Json::read_file(path);
  check_version(file, "claims");
  check_keys(file, "a file of claims", {"schema", "scenario", "claims"});
  const std::string& scenario = file.at("scenario").as_string();
  std::vector<Claim> claims;
  for (const Json& item : file.at("claims").as_array()) {
    claims.push_back(read_claim(item));
    if (!claims.back().id.starts_with(scenario + "."))
      refuse(item.at("id"), "a claim of " + scenario + " is named '" + scenario + ".NAME'");
  }
  return claims;
}

std::vector<Claim> shipped_claims(std::string_view scenario) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(shipped_file("results/claims"), error))
    if (entry.path().extension() == ".json" && (scenario.empty() || entry.path().stem() == scenario))
      paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::vector<Claim> claims;
  for (const std::string& path : paths)
    for (Claim& claim : read_claims(path)) claims.push_back(std::move(claim));
  return claims;
}

ClaimMeasurement measure_claims(std::span<const Claim> claims, std::span<const RunRecord> runs) {
  ClaimMeasurement measurement;
  for (const RunRecord& run : runs) {
    if (const Json* version = run.header.find("version"); version != nullptr && version->is_string())
      measurement.version = version->as_string();
    if (const Json* started = run.header.find("started"); started != nullptr && started->is_string())
      measurement.started = started->as_string();
  }
  const Json* environment = nullptr;
  for (const RunRecord& run : runs)
    for (const TrialRecord& trial : run.trials)
      if (trial.environment.is_object()) environment = &trial.environment;
  if (environment != nullptr)
    if (const Json* name = environment->find("hardware_class"); name != nullptr && name->is_string())
      measurement.hardware_class = name->as_string();
  for (const Claim& claim : claims) {
    for (const ClaimNeed& need : claim.needs)
      if (environment != nullptr) measurement.facts.set(need.fact, fact_of(*environment, need.fact));
    for (const ClaimCheck& check : claim.checks) measurement.values.push_back(values_of(check, runs));
  }
  return measurement;
}

Json ClaimMeasurement::to_json() const {
  Json json = Json::object(
      {{"schema", 1}, {"hardware_class", hardware_class}, {"started", started}, {"version", version}, {"facts", facts}});
  Json list = Json::array();
  for (const Values& entry : values) {
    Json item = Json::object({{"check", entry.check}});
    if (entry.values.empty()) {
      item.set("missing", entry.missing);
    } else {
      Json numbers = Json::array();
      for (double value : entry.values) numbers.push_back(std::isinf(value) ? Json("infinite") : Json(value));
      item.set("values", numbers);
    }
    list.push_back(item);
  }
  json.set("values", list);
  return json;
}

ClaimMeasurement read_claim_measurement(const std::string& path) {
  const Json file = Json::read_file(path);
  check_version(file, "measurements of claims");
  check_keys(file, "a measurement of claims", {"schema", "hardware_class", "started", "version", "facts", "values"});
  ClaimMeasurement measurement;
  measurement.hardware_class = file.at("hardware_class").as_string();
  measurement.started = file.at("started").as_string();
  measurement.version = file.at("version").as_string();
  measurement.facts = file.at("facts");
  measurement.facts.as_object();
  for (const Json& item : file.at("values").as_array()) {
    check_keys(item, "a measured check", {"check", "values", "missing"});
    ClaimMeasurement::Values values{item.at("check").as_string(), {}, ""};
    if (const Json* numbers = item.find("values")) {
      for (const Json& value : numbers->as_array())
        values.values.push_back(value.is_string() && value.as_string() == "infinite" ? infinite : value.as_double());
    } else {
      values.missing = item.at("missing").as_string();
    }
    measurement.values.push_back(std::move(values));
  }
  return measurement;
}

ClaimResult assess(const Claim& claim, const ClaimMeasurement& measurement) {
  ClaimResult result;
  result.claim = claim;
  for (const ClaimCheck& check : claim.checks) {
    const std::string name = check.describe();
    const auto values = std::find_if(measurement.values.begin(), measurement.values.end(),
                                     [&](const auto& entry) { return entry.check == name; });
    result.measured.push_back(decide(check, values == measurement.values.end() ? nullptr : &*values));
  }
  for (const ClaimNeed& need : claim.needs) {
    const Json* fact = measurement.facts.find(need.fact);
    if (fact != nullptr && fact->is_number() && fact->as_double() >= need.at_least) continue;
    const bool known = fact != nullptr && fact->is_number();
    result.explanation = "needs at least " + value_text(need.at_least, Unit::none) + " " + need.what + ", " +
                         (known ? "there is " + value_text(fact->as_double(), Unit::none) : "their number is not known");
    return result;
  }
  const auto any = [&](Presence presence) {
    return std::find_if(result.measured.begin(), result.measured.end(),
                        [&](const ClaimResult::Measured& entry) { return entry.presence == presence; });
  };
  if (const auto against = any(Presence::absent); against != result.measured.end()) {
    result.verdict = ClaimVerdict::contradicted;
    result.explanation = against->check.describe() + ": " + against->explanation;
  } else if (const auto open = any(Presence::not_measurable); open != result.measured.end()) {
    result.explanation =
        open->check.describe() + ": " + open->explanation +
        (open->blocks == 0                                       ? ""
         : open->blocks < static_cast<std::size_t>(claim_blocks) ? "; " + std::to_string(claim_blocks) + " are needed"
                                                                 : ", which does not decide it");
  } else {
    result.verdict = claim.conditions.empty() ? ClaimVerdict::holds : ClaimVerdict::holds_under_conditions;
  }
  return result;
}

Json ClaimResult::to_json() const {
  Json json = Json::object(
      {{"id", claim.id}, {"statement", claim.statement}, {"effect", claim.effect}, {"verdict", claim_verdict_name(verdict)}});
  Json published = Json::array();
  for (const Claim::Published& entry : claim.published) {
    Json figures = Json::object();
    for (const auto& [name, value] : entry.figures) figures.set(name, value);
    published.push_back(Json::object({{"configuration", entry.configuration}, {"figures", figures}}));
  }
  json.set("published", published);
  Json list = Json::array();
  for (const Measured& entry : measured) {
    Json item = Json::object(
        {{"check", entry.check.describe()}, {"presence", presence_name(entry.presence)}, {"explanation", entry.explanation}});
    if (entry.blocks > 0) {
      item.set("estimate", std::isinf(entry.estimate) ? Json("infinite") : Json(entry.estimate));
      item.set("low", std::isinf(entry.low) ? Json("infinite") : Json(entry.low));
      item.set("high", std::isinf(entry.high) ? Json("infinite") : Json(entry.high));
      item.set("blocks", entry.blocks);
    }
    list.push_back(item);
  }
  json.set("measured", list);
  json.set("conditions", claim.conditions);
  json.set("explanation", explanation);
  return json;
}

std::string claims_text(std::span<const ClaimResult> results, const ClaimMeasurement& measurement, int width) {
  std::string text;
  for (const ClaimResult& result : results) {
    text += result.claim.id + ": " + std::string(claim_verdict_name(result.verdict)) + "\n" +
            wrap(result.claim.statement, width, 2) + "\n";
    text += wrap("effect: " + result.claim.effect, width, 4) + "\n";
    for (const Claim::Published& entry : result.claim.published) {
      std::string line = "published: " + entry.configuration;
      for (const auto& [name, value] : entry.figures) line += ", " + name + " " + value_text(value, Unit::none);
      text += wrap(line, width, 4) + "\n";
    }
    for (const ClaimResult::Measured& entry : result.measured) {
      const char* answer = entry.presence == Presence::present ? "yes" : entry.presence == Presence::absent ? "no" : "?";
      text += wrap("measured: " + entry.check.describe() + ": " + entry.explanation + " (" + answer + ")", width, 4) + "\n";
    }
    if (!result.explanation.empty()) text += wrap("because: " + result.explanation, width, 4) + "\n";
    if (!result.claim.conditions.empty()) text += wrap("conditions: " + result.claim.conditions, width, 4) + "\n";
    text += "\n";
  }
  text += "measured on " + (measurement.hardware_class.empty() ? "no machine yet" : measurement.hardware_class);
  if (!measurement.started.empty()) text += ", " + measurement.started;
  if (!measurement.version.empty()) text += ", Misfire " + measurement.version;
  return text + "\n";
}

}  // namespace misfire
