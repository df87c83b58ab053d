// From the trials of a run to its verdict.
//
// Order: an error of ours, a leak, a missing capability; then whether the trials can be used at all (whole, in full blocks, every
// injection proved, evidence of condition and misuse, a clean control); then the signature in the faulty arm, the cure in the
// remedied ones, and what the file expects of the others. Nothing missing ever passes.
//
// The error of looking three times. A condition over blocks is decided by the order-statistic interval of the median: present (or
// absent) when the whole interval lies on one side of the bound. Its one-sided error at the k-th look is at most look_error[k],
// the chance that the median of the population lies on the other side; with n = 5, 8 and 11 blocks the intervals reach 1/32 (all
// five values), 1/256 (all eight) and 12/2048 (all but one at each end). Whatever the noise looks like, a condition whose true
// median sits exactly at its bound is therefore called present in at most 3/64 = 4.7 % of runs, and absent in at most as many;
// tests/results/judge_error_test.cpp simulates it. Anywhere else the error is smaller. Looks beyond the third are not offered.

#include "results/judge.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "results/statistics.hpp"

namespace misfire {
namespace {

constexpr double look_error[] = {1.0 / 32, 1.0 / 128, 1.0 / 128};
constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double tie_share = 0.05;  // of a sweep's range: doses whose metric differs by less are tied

using Test = Condition::Test;

// How the values of several trials become one answer.
struct Rule {
  bool invariant = false;  // every trial must agree
  bool unanimous = false;  // so do too few blocks for an interval
  double coverage = 0;
};

Rule rule_for(const Failure& failure, std::size_t blocks) {
  if (failure.invariant) return {.invariant = true, .coverage = 1};
  const std::vector<int> at = looks(failure);
  std::size_t look = 0;
  while (look + 1 < at.size() && blocks >= static_cast<std::size_t>(at[look + 1])) ++look;
  return {.coverage = 1 - 2 * look_error[look]};
}

bool same_as_text(const Metric& metric, const Json& bound) {
  return metric.is_text() && bound.is_string() && metric.text() == bound.as_string();
}

// Whether one value fulfils the condition.
bool holds(const Condition& condition, double value) {
  const double bound = condition.bounds[0].as_double();
  switch (condition.test) {
    case Test::equals:
      return value == bound;
    case Test::not_equals:
      return value != bound;
    case Test::at_least:
    case Test::ratio_at_least:
      return value >= bound;
    case Test::at_most:
    case Test::ratio_at_most:
      return value <= bound;
    case Test::between:
      return value >= bound && value <= condition.bounds[1].as_double();
  }
  return false;
}

bool is_equality(const Condition& condition) { return condition.test == Test::equals || condition.test == Test::not_equals; }

std::string shown(const Condition& condition, double value) {
  if (std::isinf(value)) return "infinite";
  return condition.ratio() ? value_text(value, Unit::ratio) : value_text(value, condition.unit);
}

// As shown(), but told apart from the bound when both would be written alike.
std::string beside_bound(const Condition& condition, double value) {
  const std::string text = shown(condition, value);
  for (const Json& bound : condition.bounds)
    if (bound.is_number() && bound.as_double() != value && shown(condition, bound.as_double()) == text) {
      char exact[40];
      std::snprintf(exact, sizeof exact, "%.17g", value);
      return exact;
    }
  return text;
}

struct Range {
  double estimate = 0, low = 0, high = 0, coverage = 0;
  bool decisive = false;  // has the coverage asked for
};

Range range_of(std::vector<double> values, const Rule& rule) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  Range range;
  range.estimate = n % 2 == 1 || std::isinf(values[n / 2]) ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  if (rule.invariant) return {range.estimate, values.front(), values.back(), 1, true};
  const QuantileRanks ranks = quantile_ranks(n, 0.5, rule.coverage);
  range.low = values[ranks.low - 1];
  range.high = values[ranks.high - 1];
  range.coverage = ranks.coverage;
  range.decisive = rule.unanimous || ranks.coverage >= rule.coverage - 1e-9;
  return range;
}

std::vector<const TrialRecord*> of_arm(std::span<const TrialRecord> trials, std::string_view arm) {
  std::vector<const TrialRecord*> found;
  for (const TrialRecord& trial : trials)
    if (trial.arm == arm) found.push_back(&trial);
  std::stable_sort(found.begin(), found.end(), [](const TrialRecord* a, const TrialRecord* b) { return a->block < b->block; });
  return found;
}

const TrialRecord* control_of(std::span<const TrialRecord> trials, const TrialRecord& of) {
  const TrialRecord* undosed = nullptr;
  for (const TrialRecord& trial : trials) {
    if (trial.role != Role::control || trial.block != of.block) continue;
    if (trial.dose == of.dose) return &trial;
    if (trial.dose.empty()) undosed = &trial;
  }
  return undosed;
}

// "in block 3: "; nothing when there is one block.
std::string in_block(const TrialRecord& trial, std::size_t count) {
  return count > 1 ? "in block " + std::to_string(trial.block) + ": " : "";
}

ConditionResult evaluate_condition(const Condition& condition, std::span<const TrialRecord> trials, std::string_view arm,
                                   const Rule& rule) {
  ConditionResult result;
  result.condition = condition;
  result.arm = arm;
  const auto unmeasured = [&](const std::string& why) {
    result.values.clear();
    result.explanation = condition.metric + ": not measurable here: " + why;
    return result;
  };
  const auto own = of_arm(trials, arm);
  if (own.empty()) return unmeasured("no trial of the arm '" + std::string(arm) + "'");

  std::vector<double> agreement;  // 1 where the value fulfils the condition
  std::map<std::string, int> texts;
  for (const TrialRecord* trial : own) {
    const std::string where = in_block(*trial, own.size());
    const Metric* metric = trial->metric(condition.metric);
    if (metric == nullptr) return unmeasured(where + trial->why_missing(condition.metric));
    if (metric->is_text() != condition.bounds[0].is_string())
      return unmeasured(where + "the record has it as " + (metric->is_text() ? "text" : "a number"));
    if (metric->is_text()) {
      ++texts[metric->text()];
      agreement.push_back(same_as_text(*metric, condition.bounds[0]) == (condition.test == Test::equals) ? 1 : 0);
      continue;
    }
    double value = metric->number();
    if (condition.ratio()) {
      const TrialRecord* control = control_of(trials, *trial);
      if (control == nullptr) return unmeasured(where + "the block has no control");
      const Metric* base = control->metric(condition.metric);
      if (base == nullptr) return unmeasured(where + "in the control: " + control->why_missing(condition.metric));
      if (base->is_text() || base->number() < 0 || value < 0) return unmeasured(where + "a ratio needs values of 0 or more");
      value = base->number() > 0 ? value / base->number() : value > 0 ? infinite : 1;  // nothing over nothing: unchanged
    }
    result.values.push_back(value);
    agreement.push_back(holds(condition, value) ? 1 : 0);
  }

  if (texts.empty()) {
    const Range range = range_of(result.values, rule);
    result.estimate = range.estimate;
    result.low = range.low;
    result.high = range.high;
    result.coverage = range.coverage;
  } else {
    result.text =
        std::max_element(texts.begin(), texts.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
  }
  // An equality, and anything said of texts or invariants, is decided by how many trials agree; an order by the interval.
  const bool by_count = rule.invariant || !texts.empty() || is_equality(condition);
  const Range agreed = range_of(agreement, rule);
  result.coverage = agreed.coverage;
  bool present = false, absent = false;
  if (by_count) {
    present = agreed.low == 1;
    absent = agreed.high == 0;
  } else if (condition.test == Test::between) {
    present = holds(condition, result.low) && holds(condition, result.high);
    absent = result.high < condition.bounds[0].as_double() || result.low > condition.bounds[1].as_double();
  } else {
    present = holds(condition, result.low) && holds(condition, result.high);
    absent = !holds(condition, result.low) && !holds(condition, result.high);
  }
  result.undecided = !agreed.decisive || (!present && !absent);
  if (!result.undecided) result.presence = present ? Presence::present : Presence::absent;

  const auto agreeing = static_cast<long>(std::count(agreement.begin(), agreement.end(), 1.0));
  result.explanation = condition.metric + (condition.ratio() ? " / control = " : " = ") + result.value_text() + ", wanted " +
                       condition.bound_text();
  if (std::any_of(result.values.begin(), result.values.end(), [](double value) { return std::isinf(value); }))
    result.explanation += " (the control is 0)";
  if (!agreed.decisive)
    result.explanation += ": " + std::to_string(own.size()) + " blocks are too few to decide";
  else if (result.undecided && by_count)
    result.explanation += ": " + std::to_string(agreeing) + " of " + std::to_string(own.size()) + " trials fulfil it";
  else if (result.undecided)
    result.explanation += ": the interval straddles the bound";
  return result;
}

SignatureResult evaluate_with(const Rule& rule, std::span<const TrialRecord> trials, std::string_view arm,
                              const std::vector<Condition>& conditions) {
  SignatureResult result;
  result.arm = arm;
  const auto own = of_arm(trials, arm);
  result.trials = static_cast<int>(own.size());
  if (!own.empty()) result.role = own.front()->role;
  bool absent = false, undecided = false, unknown = false;
  for (const Condition& condition : conditions) {
    result.conditions.push_back(evaluate_condition(condition, trials, arm, rule));
    const ConditionResult& last = result.conditions.back();
    if (last.presence == Presence::absent) absent = true;
    if (last.undecided) {
      undecided = true;
    } else if (last.presence == Presence::not_measurable) {
      (condition.optional ? result.partial : unknown) = true;
    }
  }
  if (absent) {
    result.presence = Presence::absent;
  } else if (!unknown) {
    result.undecided = undecided;
    if (!undecided) result.presence = Presence::present;
  }
  return result;
}

std::size_t count_blocks(std::span<const TrialRecord> trials, std::string_view arm) {
  std::set<int> blocks;
  for (const TrialRecord& trial : trials)
    if (trial.arm == arm) blocks.insert(trial.block);
  return blocks.size();
}

std::string named(const TrialRecord& trial) {
  std::string name = "'" + trial.arm + "'";
  if (!trial.dose.empty()) name += " at dose " + trial.dose;
  return name + ", block " + std::to_string(trial.block);
}

std::string text_member(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}
std::string outcome_kind(const TrialRecord& trial) { return text_member(trial.outcome, "kind"); }
std::string outcome_text(const TrialRecord& trial) {
  const std::string what = text_member(trial.outcome, "what"), kind = outcome_kind(trial);
  return what.empty() ? kind : kind + " (" + what + ")";
}

// Builds one verdict; each step may settle it.
class Judgement {
 public:
  Judgement(const Failure& failure, std::span<const TrialRecord> trials) : failure_(failure), trials_(trials) {}

  Verdict whole() {
    if (usable() && blocks_full() && injections_proved()) {
      evaluate_arms();
      if (evidence_holds() && control_clean() && signature_present() && cured() && others_as_expected()) {
        if (pending_.empty()) {
          settle(VerdictKind::reproduced, "signature_present_and_cured", praise());
        } else {
          defer();
        }
      }
    }
    return std::move(verdict_);
  }

  Verdict neutral() {
    if (usable() && injections_proved()) {
      const Arm& faulty = failure_.arm(Role::faulty);
      evaluate_arms();
      const SignatureResult* signature = result_of(faulty.name);
      const std::string dose = failure_.dose ? dose_text(failure_.dose->neutral) : "";
      if (signature == nullptr) {
        settle(VerdictKind::invalid, "arm_missing", "no trial of the arm '" + faulty.name + "'");
      } else if (healthy(*signature, "neutral_dose_not_healthy", "at the neutral dose " + dose + " ")) {
        settle(VerdictKind::not_reproduced, "neutral_dose_healthy",
               "at the neutral dose " + dose + " the signature is absent: " + signature->why(Presence::absent));
      }
    }
    return std::move(verdict_);
  }

  Verdict sweep() {
    if (usable() && injections_proved()) judge_doses();
    return std::move(verdict_);
  }

 private:
  bool settle(VerdictKind kind, std::string reason, std::string explanation) {
    verdict_.kind = kind;
    verdict_.reason = std::move(reason);
    verdict_.explanation = std::move(explanation);
    return false;
  }

  // Something is not decided yet: remembered, and the verdict unless something worse is found.
  void wait_for(const std::string& reason, const std::string& explanation) {
    if (pending_.empty()) pending_ = {reason, explanation};
  }
  bool defer() {
    std::size_t least = SIZE_MAX;
    for (const std::string& arm : waiting_arms_) least = std::min(least, count_blocks(trials_, arm));
    const std::string& faulty = failure_.arm(Role::faulty).name;
    if (least == SIZE_MAX) least = count_blocks(trials_, faulty);
    verdict_.needs_more_blocks = least < static_cast<std::size_t>(looks(failure_).back());
    return settle(VerdictKind::inconclusive, pending_.reason, pending_.explanation);
  }

  // Whole trials of this failure, once each, none of them an error, a leak or a skip.
  bool usable() {
    if (trials_.empty()) return settle(VerdictKind::invalid, "no_trials", "the record has no trial");
    for (const TrialRecord& trial : trials_)
      if (outcome_kind(trial) == "error")
        return settle(VerdictKind::error, "trial_error", named(trial) + ": " + outcome_text(trial));
    for (const TrialRecord& trial : trials_) {
      const Json* leaks = trial.outcome.find("leaks");
      if (leaks == nullptr || !leaks->is_array() || leaks->as_array().empty()) continue;
      const Json& first = leaks->as_array().front();
      return settle(VerdictKind::leak, "left_behind",
                    named(trial) + " left behind: " + (first.is_string() ? first.as_string() : first.dump()));
    }
    for (const TrialRecord& trial : trials_)
      if (!trial.skipped.empty()) return settle(VerdictKind::skipped, "capability_missing", trial.skipped);
    std::set<std::tuple<std::string, std::string, int>> seen;
    for (const TrialRecord& trial : trials_) {
      if (!trial.complete)
        return settle(VerdictKind::invalid, "record_cut", named(trial) + ": the record ends before the outcome");
      if (!trial.failure.empty() && trial.failure != failure_.name && trial.failure != failure_.path)
        return settle(VerdictKind::invalid, "foreign_trial", named(trial) + " is a trial of '" + trial.failure + "'");
      if (!seen.insert({trial.arm, trial.dose, trial.block}).second)
        return settle(VerdictKind::invalid, "duplicate_trial", named(trial) + " is there twice");
      const Arm* arm = arm_of(trial);
      if (arm == nullptr || arm->role != trial.role)
        return settle(VerdictKind::invalid, "unknown_arm", named(trial) + " is no such arm of the failure");
      const TrialPlan plan = compose(failure_, *arm, std::nullopt, Sabotage::none);
      if (trial.has_condition != plan.has_condition || trial.has_misuse != plan.has_misuse)
        return settle(VerdictKind::invalid, "unknown_arm",
                      named(trial) + ": the record and the file differ on what is wrong in it");
    }
    return true;
  }

  const Arm* arm_of(const TrialRecord& trial) const {
    for (const Arm& arm : failure_.arms)
      if (arm.name == trial.arm) return &arm;
    return nullptr;
  }

  // Each block has a trial of each arm that any block has, and the three that are needed are there.
  bool blocks_full() {
    std::set<int> blocks;
    std::set<std::string> doses;
    for (const TrialRecord& trial : trials_) {
      blocks.insert(trial.block);
      if (!trial.dose.empty()) doses.insert(trial.dose);
    }
    if (doses.size() > 1)
      return settle(VerdictKind::invalid, "mixed_doses",
                    "trials of " + *doses.begin() + " and " + *doses.rbegin() + " in one comparison");
    for (const Arm& arm : failure_.arms) {
      const std::size_t count = count_blocks(trials_, arm.name);
      const bool needed = arm.role == Role::control || arm.role == Role::faulty || arm.role == Role::remedied;
      if (count == 0 && needed) return settle(VerdictKind::invalid, "arm_missing", "no trial of the arm '" + arm.name + "'");
      if (count != 0 && count != blocks.size())
        return settle(
            VerdictKind::invalid, "block_incomplete",
            "'" + arm.name + "' has trials in " + std::to_string(count) + " of " + std::to_string(blocks.size()) + " blocks");
    }
    return true;
  }

  // What the plan arms was armed and proved, what it disarms read healthy.
  bool injections_proved() {
    for (const TrialRecord& trial : trials_) {
      for (const auto& injection : trial.injections)
        if (!injection.proved)
          return settle(VerdictKind::invalid, "injection_not_proved",
                        injection.fault + (injection.armed ? " armed" : " disarmed") + " in " + named(trial) + ": " +
                            failed_evidence(injection.json));
      for (const auto& planned : compose(failure_, *arm_of(trial), std::nullopt, Sabotage::none).injections) {
        const auto found = std::find_if(trial.injections.begin(), trial.injections.end(),
                                        [&](const auto& injection) { return injection.fault == planned.spec.fault; });
        const bool armed = found != trial.injections.end() && found->armed;
        if (planned.armed && !armed)
          return settle(VerdictKind::invalid, "fault_not_observed", planned.spec.fault + " was not armed in " + named(trial));
        if (!planned.armed && armed)
          return settle(VerdictKind::invalid, trial.role == Role::control ? "control_not_clean" : "fault_in_wrong_arm",
                        planned.spec.fault + " was armed in " + named(trial));
      }
    }
    return true;
  }

  static std::string failed_evidence(const Json& injection) {
    const Json* evidence = injection.find("evidence");
    if (evidence != nullptr && evidence->is_array())
      for (const Json& item : evidence->as_array()) {
        const Json* holds = item.find("holds");
        if (holds == nullptr || !holds->is_bool() || holds->as_bool()) continue;
        const Json *value = item.find("value"), *expected = item.find("expected");
        return text_member(item, "what") + " = " + (value ? value->dump() : "?") + ", expected " +
               (expected ? expected->dump() : "?");
      }
    return "its evidence does not hold";
  }

  void evaluate_arms() {
    for (const Arm& arm : failure_.arms)
      if (count_blocks(trials_, arm.name) > 0) verdict_.arms.push_back(evaluate(failure_, trials_, arm.name, failure_.signature));
  }
  const SignatureResult* result_of(std::string_view arm) const {
    for (const SignatureResult& result : verdict_.arms)
      if (result.arm == arm) return &result;
    return nullptr;
  }

  // Whether the arm leaves the ingredient as the evidence describes it: its own options, or a dose, may change it.
  bool evidence_applies(const Ingredient& ingredient, const Arm& arm) const {
    for (const InjectionSpec& spec : arm.inject)
      for (const InjectionSpec& own : ingredient.inject)
        if (spec.fault == own.fault) return false;
    for (const auto& [key, value] : arm.workload.as_object())
      if (ingredient.workload.find(key) != nullptr) return false;
    const bool dosed = std::any_of(trials_.begin(), trials_.end(),
                                   [&](const TrialRecord& trial) { return trial.arm == arm.name && !trial.dose.empty(); });
    if (!dosed || !failure_.dose) return true;
    const std::string& key = failure_.dose->key;
    return ingredient.workload.find(key) == nullptr &&
           std::none_of(ingredient.inject.begin(), ingredient.inject.end(),
                        [&](const InjectionSpec& spec) { return key.starts_with(spec.fault + "."); });
  }

  bool evidence_holds() {
    struct Kind {
      const Ingredient& ingredient;
      bool TrialRecord::*present;
      const char *name, *reason;
    };
    const Kind kinds[] = {{failure_.condition, &TrialRecord::has_condition, "condition", "fault_not_observed"},
                          {failure_.misuse, &TrialRecord::has_misuse, "misuse", "misuse_not_observed"}};
    for (const Kind& kind : kinds)
      for (const Arm& arm : failure_.arms) {
        const auto own = of_arm(trials_, arm.name);
        if (own.empty() || kind.ingredient.evidence.empty() || !(own.front()->*kind.present) ||
            !evidence_applies(kind.ingredient, arm))
          continue;
        for (ConditionResult& result : evaluate(failure_, trials_, arm.name, kind.ingredient.evidence).conditions) {
          const std::string what = "evidence of the " + std::string(kind.name) + " in '" + arm.name + "': " + result.explanation;
          verdict_.evidence.push_back(result);
          if (verdict_.kind != VerdictKind::invalid || !verdict_.reason.empty()) continue;  // the first complaint is the verdict
          if (result.presence == Presence::absent) settle(VerdictKind::invalid, kind.reason, what);
          if (result.presence == Presence::not_measurable && !result.undecided && !result.condition.optional)
            settle(VerdictKind::invalid, "evidence_not_measurable", what);
          if (result.undecided) wait("evidence_undecided", what, arm.name);
        }
      }
    if (!verdict_.reason.empty()) return false;
    return pending_.empty() || defer();
  }

  void wait(const std::string& reason, const std::string& explanation, const std::string& arm) {
    wait_for(reason, explanation);
    waiting_arms_.push_back(arm);
  }

  bool trials_ended_well(std::string_view arm, VerdictKind kind, const std::string& reason) {
    for (const TrialRecord* trial : of_arm(trials_, arm))
      if (outcome_kind(*trial) != "ok") return settle(kind, reason, named(*trial) + " ended as " + outcome_text(*trial));
    return true;
  }

  // Signature known to be absent, trials well; else settles or waits.
  bool healthy(const SignatureResult& signature, const std::string& reason, const std::string& where) {
    if (!trials_ended_well(signature.arm, VerdictKind::invalid, reason)) return false;
    if (signature.presence == Presence::present) return settle(VerdictKind::invalid, reason, where + "the signature holds");
    if (signature.undecided) {
      wait(reason == "control_not_clean" ? "control_undecided" : "neutral_dose_undecided", where + undecided_text(signature),
           signature.arm);
      return defer();
    }
    if (signature.presence == Presence::not_measurable)
      return settle(VerdictKind::invalid, "not_measurable", where + signature.why(Presence::not_measurable));
    return true;
  }
  static std::string undecided_text(const SignatureResult& signature) {
    for (const ConditionResult& condition : signature.conditions)
      if (condition.undecided) return condition.explanation;
    return "undecided";
  }

  bool control_clean() { return healthy(*result_of(failure_.arm(Role::control).name), "control_not_clean", "in the control "); }

  bool signature_present() {
    const SignatureResult& faulty = *result_of(failure_.arm(Role::faulty).name);
    if (faulty.presence == Presence::absent)
      return settle(VerdictKind::not_reproduced, "signature_absent", faulty.why(Presence::absent));
    if (faulty.undecided) {
      wait("signature_undecided", undecided_text(faulty), faulty.arm);
    } else if (faulty.presence == Presence::not_measurable) {
      return settle(VerdictKind::invalid, "not_measurable", required_unmeasured(faulty));
    }
    if (faulty.partial) verdict_.partial = "(partial: " + faulty.why(Presence::not_measurable) + ")";
    return true;
  }
  static std::string required_unmeasured(const SignatureResult& signature) {
    for (const ConditionResult& result : signature.conditions)
      if (result.presence == Presence::not_measurable && !result.undecided && !result.condition.optional)
        return result.explanation;
    return signature.why(Presence::not_measurable);
  }

  // In each remedied arm every symptom is gone and the harm is recovered. A symptom is a condition that the control does not
  // fulfil: one that health fulfils too ("nothing fails") is there to tell look-alikes apart, and stays.
  bool cured() {
    const SignatureResult& control = *result_of(failure_.arm(Role::control).name);
    for (const Arm& arm : failure_.arms) {
      if (arm.role != Role::remedied) continue;
      const SignatureResult& remedied = *result_of(arm.name);
      if (!trials_ended_well(arm.name, VerdictKind::not_reproduced, "remedy_ineffective")) return false;
      for (std::size_t i = 0; i < remedied.conditions.size(); ++i) {
        const ConditionResult& symptom = remedied.conditions[i];
        const ConditionResult& in_control = control.conditions[i];
        if (in_control.presence == Presence::present) continue;
        const std::string what = "in '" + arm.name + "' " + symptom.explanation;
        if (in_control.presence ==
            Presence::not_measurable) {  // a symptom or not: unknown, unless the remedied arm is without it
          const std::string both = what + "; in the control " + in_control.explanation;
          if (symptom.presence != Presence::present || symptom.condition.optional) continue;
          if (!in_control.undecided) return settle(VerdictKind::invalid, "not_measurable", both);
          wait("control_undecided", both, control.arm);
          continue;
        }
        if (symptom.presence == Presence::present) return settle(VerdictKind::not_reproduced, "remedy_ineffective", what);
        if (symptom.undecided) {
          wait("remedy_undecided", what, arm.name);
        } else if (symptom.presence == Presence::not_measurable) {
          return settle(VerdictKind::invalid, "not_measurable", what);
        }
      }
      if (!recovered(arm)) return false;
    }
    return true;
  }

  // Share of the distance between control and faulty that the remedied arm covers, inside each block.
  bool recovered(const Arm& remedied) {
    const std::string& name = failure_.recovery_metric;
    const auto own = of_arm(trials_, remedied.name), controls = of_arm(trials_, failure_.arm(Role::control).name),
               faulty = of_arm(trials_, failure_.arm(Role::faulty).name);
    std::vector<double> before, after;  // distance of faulty and of remedied from the control
    bool is_text = false;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Metric* metrics[] = {controls[i]->metric(name), faulty[i]->metric(name), own[i]->metric(name)};
      const TrialRecord* records[] = {controls[i], faulty[i], own[i]};
      for (std::size_t k = 0; k < 3; ++k)
        if (metrics[k] == nullptr)
          return settle(VerdictKind::invalid, "not_measurable",
                        "recovery: " + name + " in " + named(*records[k]) + ": " + records[k]->why_missing(name));
      is_text = metrics[0]->is_text();
      for (const Metric* metric : metrics)
        if (metric->is_text() != is_text)
          return settle(VerdictKind::invalid, "not_measurable", "recovery: " + name + " is text in one arm, a number in another");
      before.push_back(is_text ? (metrics[1]->text() == metrics[0]->text() ? 0 : 1)
                               : metrics[1]->number() - metrics[0]->number());
      after.push_back(is_text ? (metrics[2]->text() == metrics[0]->text() ? 0 : 1) : metrics[2]->number() - metrics[0]->number());
    }
    const Rule rule = rule_for(failure_, own.size());
    const Range harms = range_of(before, rule);
    const double harm = harms.estimate;
    if (harm == 0) {
      const std::string what = name + " is the same in the faulty arm as in the control";
      if (harms.decisive && harms.low == 0 && harms.high == 0) return settle(VerdictKind::not_reproduced, "no_harm", what);
      wait("recovery_undecided", what + " in most blocks, but not in all", remedied.name);
      return true;
    }
    std::vector<double> shares;
    for (std::size_t i = 0; i < before.size(); ++i)  // a block in which the faulty arm did no harm proves no cure
      shares.push_back(before[i] * harm > 0 ? 1 - after[i] / before[i] : -infinite);
    const Range share = range_of(shares, rule);
    if (!verdict_.recovery_known || share.estimate < verdict_.recovery) {  // of several remedies the weakest
      verdict_.recovery = share.estimate;
      verdict_.recovery_low = share.low;
      verdict_.recovery_known = true;
    }
    const double wanted = failure_.recovery_fraction;
    const std::string what = "'" + remedied.name + "' recovers " + percent(share.estimate) + " of " + name +
                             (share.low < share.high ? " (from " + percent(share.low) + " to " + percent(share.high) + ")" : "") +
                             ", wanted at least " + percent(wanted);
    if (share.decisive && share.high < wanted) return settle(VerdictKind::not_reproduced, "remedy_ineffective", what);
    if (!share.decisive || share.low < wanted) wait("recovery_undecided", what, remedied.name);
    return true;
  }
  static std::string percent(double share) {
    if (std::isinf(share)) return "none";
    return value_text(std::round(share * 1000) / 10, Unit::none) + "%";
  }

  bool others_as_expected() {
    for (const Arm& arm : failure_.arms) {
      if (arm.role != Role::popular_advice && arm.role != Role::lookalike) continue;
      const SignatureResult* result = result_of(arm.name);
      if (result == nullptr) continue;
      const Presence wanted = arm.expect_present ? Presence::present : Presence::absent,
                     contrary = arm.expect_present ? Presence::absent : Presence::present;
      const std::string where = "in '" + arm.name + "' the signature ";
      if (result->presence == contrary)
        return settle(VerdictKind::not_reproduced, "arm_against_expectation:" + arm.name,
                      where + "is " + std::string(presence_name(contrary)) + ", expected " + std::string(presence_name(wanted)) +
                          (arm.expect_present ? ": " + result->why(Presence::absent) : ""));
      if (result->undecided) {
        wait("arm_undecided:" + arm.name, where + "is undecided: " + undecided_text(*result), arm.name);
      } else if (result->presence == Presence::not_measurable) {
        return settle(VerdictKind::invalid, "arm_not_measurable:" + arm.name,
                      where + "cannot be judged: " + required_unmeasured(*result));
      }
    }
    return true;
  }

  std::string praise() const {
    std::string text = "the fault was active, the signature is present in '" + failure_.arm(Role::faulty).name +
                       "', absent in the control, and the remedy ";
    if (!verdict_.recovery_known || verdict_.recovery >= 1) return text + "cures it";
    return text + "recovers " + percent(verdict_.recovery);
  }

  void judge_doses() {
    if (!failure_.dose) {
      settle(VerdictKind::invalid, "no_dose", "the failure has no dose");
      return;
    }
    const Dose& dose = *failure_.dose;
    const Arm& faulty = failure_.arm(Role::faulty);
    std::vector<std::vector<TrialRecord>> by_dose;
    std::vector<const Json*> doses;
    std::size_t expected_onset = SIZE_MAX, onset = SIZE_MAX, neutral = SIZE_MAX;
    for (const Json& value : dose.values) {
      std::vector<TrialRecord> own;
      bool any = false;
      for (const TrialRecord& trial : trials_) {
        const bool same = !trial.dose.empty() && same_dose(read_dose(failure_, trial.dose), value);
        if (same || (trial.role == Role::control && trial.dose.empty())) own.push_back(trial);
        any = any || (same && trial.arm == faulty.name);
      }
      if (!any) continue;
      if (same_dose(value, dose.neutral)) neutral = doses.size();
      if (dose.onset && same_dose(value, *dose.onset)) expected_onset = doses.size();
      doses.push_back(&value);
      by_dose.push_back(std::move(own));
      verdict_.arms.push_back(evaluate(failure_, by_dose.back(), faulty.name, failure_.signature));
      verdict_.arms.back().dose = dose_text(value);
    }
    if (neutral == SIZE_MAX || doses.size() < 2) {
      settle(VerdictKind::invalid, "dose_missing",
             "a sweep needs the neutral dose " + dose_text(dose.neutral) + " and at least one other");
      return;
    }
    for (std::size_t i = 0; i < doses.size(); ++i) {
      const SignatureResult& result = verdict_.arms[i];
      const std::string where = "at dose " + result.dose + " ";
      if (i == neutral) {
        for (const TrialRecord& trial : by_dose[i])
          if (outcome_kind(trial) != "ok") {
            settle(VerdictKind::invalid, "neutral_dose_not_healthy", named(trial) + " ended as " + outcome_text(trial));
            return;
          }
        if (result.presence == Presence::present) {
          settle(VerdictKind::invalid, "neutral_dose_not_healthy", where + "the signature holds");
          return;
        }
      }
      if (result.undecided) wait("dose_undecided", where + undecided_text(result), faulty.name);
      if (!result.undecided && result.presence == Presence::not_measurable) {
        settle(VerdictKind::invalid, "not_measurable", where + required_unmeasured(result));
        return;
      }
      if (result.presence == Presence::present && onset == SIZE_MAX) onset = i;
      if (result.presence == Presence::absent && onset != SIZE_MAX) {
        settle(VerdictKind::not_reproduced, "not_monotone",
               "the signature is present at dose " + verdict_.arms[onset].dose + " and absent at " + result.dose);
        return;
      }
    }
    if (!pending_.empty()) {
      defer();
      return;
    }
    if (onset == SIZE_MAX) {
      settle(VerdictKind::not_reproduced, "signature_absent",
             "at no dose the signature is present: " + verdict_.arms.back().why(Presence::absent));
      return;
    }
    if (expected_onset != SIZE_MAX && onset != expected_onset) {
      settle(VerdictKind::not_reproduced, "onset_differs",
             "the signature sets in at dose " + verdict_.arms[onset].dose + ", expected at " +
                 verdict_.arms[expected_onset].dose + " (" + dose.formula + ")");
      return;
    }
    std::string effect;
    if (!dose.metric.empty() && !metric_follows(by_dose, neutral, effect)) return;
    settle(VerdictKind::reproduced, "dose_response_as_stated",
           "healthy at dose " + verdict_.arms[neutral].dose + ", the signature sets in at " + verdict_.arms[onset].dose + effect);
  }

  bool metric_follows(const std::vector<std::vector<TrialRecord>>& by_dose, std::size_t neutral, std::string& effect) {
    const Dose& dose = *failure_.dose;
    const double sign = dose.increasing ? 1 : -1;
    std::vector<Range> ranges;
    double smallest = infinite, largest = -infinite;
    Unit unit = Unit::none;
    for (std::size_t i = 0; i < by_dose.size(); ++i) {
      std::vector<double> values;
      for (const TrialRecord* trial : of_arm(by_dose[i], failure_.arm(Role::faulty).name)) {
        const Metric* metric = trial->metric(dose.metric);
        if (metric == nullptr || metric->is_text())
          return settle(VerdictKind::invalid, "not_measurable",
                        dose.metric + " in " + named(*trial) + ": " + trial->why_missing(dose.metric));
        values.push_back(sign * metric->number());
        unit = metric->unit;
      }
      ranges.push_back(range_of(values, rule_for(failure_, values.size())));
      smallest = std::min(smallest, ranges.back().estimate);
      largest = std::max(largest, ranges.back().estimate);
    }
    const double tie = tie_share * (largest - smallest);
    const auto text = [&](std::size_t i) { return value_text(sign * ranges[i].estimate, unit) + " at " + verdict_.arms[i].dose; };
    for (std::size_t i = 0; i < ranges.size(); ++i)
      for (std::size_t j = i + 1; j < ranges.size(); ++j)
        if (ranges[j].high + tie < ranges[i].low)
          return settle(VerdictKind::not_reproduced, "not_monotone",
                        dose.metric + " goes the other way: " + text(i) + ", " + text(j));
    if (!(ranges.back().low > ranges[neutral].high))
      return settle(VerdictKind::not_reproduced, "dose_without_effect",
                    dose.metric + " does not follow the dose: " + text(neutral) + ", " + text(ranges.size() - 1));
    effect = ", and " + dose.metric + " follows: " + text(neutral) + ", " + text(ranges.size() - 1);
    return true;
  }

  struct Pending {
    std::string reason, explanation;
    bool empty() const { return reason.empty(); }
  };

  const Failure& failure_;
  const std::span<const TrialRecord> trials_;
  Verdict verdict_;
  Pending pending_;
  std::vector<std::string> waiting_arms_;
};

Json number_or_word(double value) { return std::isinf(value) ? Json(value > 0 ? "infinite" : "-infinite") : Json(value); }

Json to_json(const ConditionResult& result) {
  Json json = Json::object({{"condition", result.condition.describe()}, {"presence", presence_name(result.presence)}});
  if (result.undecided) json.set("undecided", true);
  if (result.condition.optional) json.set("optional", true);
  if (!result.values.empty()) {
    Json values = Json::array();
    for (double value : result.values) values.push_back(number_or_word(value));
    json.set("values", values);
    json.set("estimate", number_or_word(result.estimate));
    json.set("low", number_or_word(result.low));
    json.set("high", number_or_word(result.high));
  }
  if (!result.text.empty()) json.set("text", result.text);
  if (result.coverage > 0) json.set("coverage", result.coverage);
  json.set("explanation", result.explanation);
  return json;
}

}  // namespace

std::string_view presence_name(Presence presence) noexcept {
  switch (presence) {
    case Presence::present:
      return "present";
    case Presence::absent:
      return "absent";
    case Presence::not_measurable:
      return "not_measurable";
  }
  return "not_measurable";
}

std::string_view verdict_name(VerdictKind kind) noexcept {
  switch (kind) {
    case VerdictKind::reproduced:
      return "reproduced";
    case VerdictKind::not_reproduced:
      return "not_reproduced";
    case VerdictKind::inconclusive:
      return "inconclusive";
    case VerdictKind::invalid:
      return "invalid";
    case VerdictKind::leak:
      return "leak";
    case VerdictKind::skipped:
      return "skipped";
    case VerdictKind::error:
      return "error";
  }
  return "error";
}

Exit exit_for(VerdictKind kind) noexcept {
  switch (kind) {
    case VerdictKind::reproduced:
      return Exit::success;
    case VerdictKind::not_reproduced:
      return Exit::failure;
    case VerdictKind::inconclusive:
      return Exit::inconclusive;
    case VerdictKind::invalid:
      return Exit::invalid;
    case VerdictKind::leak:
      return Exit::leak;
    case VerdictKind::skipped:
      return Exit::skipped;
    case VerdictKind::error:
      return Exit::internal;
  }
  return Exit::internal;
}

Exit exit_for(std::span<const VerdictKind> kinds) noexcept {
  if (kinds.empty()) return Exit::invalid;
  constexpr VerdictKind order[] = {VerdictKind::error, VerdictKind::leak, VerdictKind::invalid, VerdictKind::not_reproduced,
                                   VerdictKind::inconclusive};
  for (VerdictKind kind : order)
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return exit_for(kind);
  const bool all_skipped = std::all_of(kinds.begin(), kinds.end(), [](VerdictKind kind) { return kind == VerdictKind::skipped; });
  return all_skipped ? Exit::skipped : Exit::success;
}

std::string ConditionResult::value_text() const {
  if (!text.empty()) return "'" + text + "'";
  if (values.empty()) return "?";
  std::string shown = beside_bound(condition, estimate);
  if (low < high) shown += " [" + beside_bound(condition, low) + ", " + beside_bound(condition, high) + "]";
  return shown;
}

std::string SignatureResult::why(Presence wanted) const {
  for (const ConditionResult& result : conditions)
    if (result.presence == wanted && !result.undecided) return result.explanation;
  return "";
}

Json Verdict::to_json() const {
  Json json = Json::object({{"verdict", verdict_name(kind)}, {"reason", reason}, {"explanation", explanation}});
  if (!partial.empty()) json.set("partial", partial);
  if (recovery_known) {
    json.set("recovery", number_or_word(recovery));
    json.set("recovery_low", number_or_word(recovery_low));
  }
  if (needs_more_blocks) json.set("needs_more_blocks", true);
  Json list = Json::array();
  for (const SignatureResult& result : arms) {
    Json arm = Json::object({{"arm", result.arm},
                             {"role", role_name(result.role)},
                             {"presence", presence_name(result.presence)},
                             {"trials", result.trials}});
    if (!result.dose.empty()) arm.set("dose", result.dose);
    if (result.undecided) arm.set("undecided", true);
    if (result.partial) arm.set("partial", true);
    Json conditions = Json::array();
    for (const ConditionResult& condition : result.conditions) conditions.push_back(misfire::to_json(condition));
    arm.set("conditions", conditions);
    list.push_back(arm);
  }
  json.set("arms", list);
  Json proofs = Json::array();
  for (const ConditionResult& result : evidence) {
    Json proof = misfire::to_json(result);
    proof.set("arm", result.arm);
    proofs.push_back(proof);
  }
  json.set("evidence", proofs);
  return json;
}

std::vector<int> looks(const Failure& failure) {
  if (failure.invariant) return {1};
  return {failure.blocks, failure.blocks + 3, failure.blocks + 6};
}

SignatureResult evaluate(const Failure& failure, std::span<const TrialRecord> trials, std::string_view arm,
                         const std::vector<Condition>& conditions) {
  SignatureResult result = evaluate_with(rule_for(failure, count_blocks(trials, arm)), trials, arm, conditions);
  for (const Arm& known : failure.arms)
    if (known.name == arm) result.role = known.role;
  return result;
}

Verdict judge(const Failure& failure, std::span<const TrialRecord> trials) {
  std::set<std::string> doses;
  for (const TrialRecord& trial : trials)
    if (trial.role == Role::faulty && !trial.dose.empty()) doses.insert(trial.dose);
  if (failure.dose && doses.size() > 1) return judge_sweep(failure, trials);
  if (failure.dose && doses.size() == 1 && same_dose(read_dose(failure, *doses.begin()), failure.dose->neutral))
    return judge_neutral(failure, trials);
  return Judgement(failure, trials).whole();
}

Verdict judge_neutral(const Failure& failure, std::span<const TrialRecord> trials) {
  return Judgement(failure, trials).neutral();
}

Verdict judge_sweep(const Failure& failure, std::span<const TrialRecord> trials) { return Judgement(failure, trials).sweep(); }

Failure with_broken_signature(const Failure& failure, const Vocabulary& vocabulary) {
  const auto& signature = failure.signature;
  const auto first = static_cast<std::size_t>(
      std::find_if(signature.begin(), signature.end(), [](const Condition& condition) { return !condition.optional; }) -
      signature.begin());
  const Condition& condition = signature.at(first);
  const Json& bound = condition.bounds[0];
  const auto past = [&](double towards) { return Json(std::nextafter(condition.bounds.back().as_double(), towards)); };
  Json contrary = Json::object({{"metric", condition.metric}});
  switch (condition.test) {
    case Test::equals:
      contrary.set("not_equals", bound);
      break;
    case Test::not_equals:
      contrary.set("equals", bound);
      break;
    case Test::at_least:
      contrary.set("at_most", past(-infinite));
      break;
    case Test::at_most:
    case Test::between:
      contrary.set("at_least", past(infinite));
      break;
    case Test::ratio_at_least:
      contrary.set("ratio_to_control", Json::object({{"at_most", past(-infinite)}}));
      break;
    case Test::ratio_at_most:
      contrary.set("ratio_to_control", Json::object({{"at_least", past(infinite)}}));
      break;
  }
  contrary.set("why", "the contrary of the first: nothing fulfils both");
  Json source = failure.source;
  Json list = Json::array({failure.source.at("signature").as_array().at(first), contrary});
  source.set("signature", list);
  Failure broken = parse_failure(source, vocabulary);
  broken.path = failure.path;
  return broken;
}

Matrix confusion_matrix(std::span<const Failure> failures, std::span<const RunRecord> runs) {
  Matrix matrix;
  for (const Failure& failure : failures) matrix.names.push_back(failure.name);
  for (const Failure& row : failures) {
    const auto run = std::find_if(runs.begin(), runs.end(),
                                  [&](const RunRecord& candidate) { return text_member(candidate.failure, "name") == row.name; });
    std::vector<TrialRecord> trials;
    std::string skipped;
    if (run != runs.end())
      for (const TrialRecord& trial : run->trials) {
        if (!trial.skipped.empty()) skipped = trial.skipped;
        if (trial.complete && trial.dose.empty() && trial.sabotage == Sabotage::none) trials.push_back(trial);
      }
    const std::string& faulty = row.arm(Role::faulty).name;
    if (trials.empty() && !skipped.empty()) matrix.skipped.push_back({row.name, "", skipped});
    auto& cells = matrix.cells.emplace_back();
    for (const Failure& column : failures) {
      Rule rule = rule_for(column, count_blocks(trials, faulty));
      rule.unanimous = true;
      SignatureResult cell = evaluate_with(rule, trials, faulty, column.signature);
      const bool same = &row == &column;
      const bool implied = std::any_of(row.implies.begin(), row.implies.end(),
                                       [&](const Implication& other) { return other.failure == column.name; });
      const auto problem = [&](const std::string& why) {
        if (skipped.empty() || !trials.empty()) matrix.problems.push_back({row.name, column.name, why});
      };
      if (run == runs.end()) {
        problem("there is no run of '" + row.name + "'");
      } else if (same && cell.presence != Presence::present) {
        problem("its own signature is " + std::string(cell.undecided ? "undecided" : presence_name(cell.presence)) + ": " +
                (cell.presence == Presence::absent ? cell.why(Presence::absent) : cell.why(Presence::not_measurable)));
      } else if (!same && !implied && cell.presence == Presence::present) {
        problem("its trials carry the signature of '" + column.name +
                "'; a stricter condition there, or 'implies' with a reason here");
      } else if (!same && !implied && cell.presence == Presence::not_measurable) {
        problem("whether its trials carry the signature of '" + column.name + "' is " +
                (cell.undecided ? "undecided" : "not measurable") + ": " +
                (cell.undecided ? "the trials differ" : cell.why(Presence::not_measurable)));
      }
      cells.push_back(std::move(cell));
    }
  }
  return matrix;
}

}  // namespace misfire
