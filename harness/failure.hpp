#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/fault.hpp"
#include "harness/json.hpp"
#include "harness/metric.hpp"

namespace misfire {

/// What an arm is for. It decides what is present in it and what is expected of it.
enum class Role {
  control,         ///< healthy: neither condition nor misuse; every mechanism disarmed. Signature absent.
  faulty,          ///< condition and misuse. Signature present.
  remedied,        ///< condition stays, the remedy replaces the misuse. Signature absent, harm recovered.
  popular_advice,  ///< condition and misuse, with the advice people give applied. Expectation stated in the file.
  lookalike,       ///< another trouble with a similar symptom: neither condition nor misuse of this failure. Signature absent.
};
std::string_view role_name(Role role) noexcept;
inline constexpr std::array all_roles = {Role::control, Role::faulty, Role::remedied, Role::popular_advice, Role::lookalike};

struct InjectionSpec {
  std::string fault;
  Json options;  ///< object, without the "fault" key
};

/// One comparison over one metric.
struct Condition {
  enum class Test { equals, not_equals, at_least, at_most, between, ratio_at_least, ratio_at_most };
  std::string metric;
  Test test = Test::equals;
  std::vector<Json> bounds;  ///< one value, two for `between`; numbers in base units (suffixes already read), or text for equals
  bool optional = false;     ///< when not measurable here the verdict is partial instead of not measurable
  std::string why;           ///< one sentence: what it distinguishes
  int line = 0;
  Unit unit = Unit::none;  ///< of the metric
  bool ratio() const noexcept { return test == Test::ratio_at_least || test == Test::ratio_at_most; }
  /// "shm_used_fraction >= 0.95", "step_seconds / control >= 1.5"
  std::string describe() const;
  /// What is wanted of the value, without the metric: ">= 0.95", "= 'ok'", "in [1, 2]".
  std::string bound_text() const;
};

/// A number as reports show it: bytes and seconds with a suffix, the rest in four digits; a whole number whole.
std::string value_text(double value, Unit unit);

/// Something present in an arm, and the conditions over independently observed metrics that prove it was.
struct Ingredient {
  std::vector<InjectionSpec> inject;
  Json workload = Json::object();   ///< options
  std::vector<Condition> evidence;  ///< must hold wherever the ingredient is present
  bool empty() const { return inject.empty() && workload.as_object().empty(); }
};

struct Arm {
  std::string name;
  Role role = Role::control;
  bool expect_present = false;        ///< whether the signature must hold
  std::vector<InjectionSpec> inject;  ///< added to, or replacing by fault name, those of the ingredients
  Json workload = Json::object();     ///< wins over the ingredients' options
  std::string summary;
  int line = 0;
};

struct Dose {
  std::string key;            ///< a workload option ("prefetch_factor") or "<fault>.<option>" ("mem.shm_size.size")
  std::vector<Json> values;   ///< in increasing harm
  Json neutral;               ///< the value that must read healthy
  std::string metric;         ///< metric that follows the dose; empty: none
  bool increasing = true;     ///< direction of that metric
  std::optional<Json> onset;  ///< first value in `values` at which the signature is expected, where a formula is known
  std::string formula;        ///< where the onset comes from
};

struct Implication {
  std::string failure;
  std::string reason;
};

/// A named, observable bad outcome: one JSON file. Format: results/schema/failure.schema.json and CONTRIBUTING.md.
struct Failure {
  std::string path;  ///< where it was read
  Json source;       ///< the whole file, as read; embedded in records
  std::string name, scenario, summary, cause, remedy, owner, action;
  std::string said;  ///< what the popular story gets wrong
  std::vector<std::string> search_for, sources, needs, lookalikes, claims;
  std::string workload_name;
  Json workload = Json::object();  ///< options common to all arms
  Ingredient condition, misuse;
  std::vector<Arm> arms;  ///< at least one control, faulty and remedied
  std::optional<Dose> dose;
  std::vector<Condition> signature;
  std::string recovery_metric;  ///< harm that the remedy brings back to the control, at least `recovery_fraction` of the way
  double recovery_fraction = 0.8;
  bool invariant = false;  ///< one trial an arm decides
  int blocks = 5;          ///< interleaved blocks otherwise
  Duration deadline{};     ///< of one trial
  std::vector<Implication> implies;

  const Arm& arm(std::string_view name) const;  ///< @throws Error{not_found} with the nearest name
  const Arm& arm(Role role) const;              ///< the first of that role
};

/// What the reader must know to check a file: names that exist. Built from the catalogues by the caller.
struct Vocabulary {
  struct Scenario {
    std::string_view name;
    std::vector<std::string_view> workloads;
    std::span<const MetricInfo> metrics;
    /// Checks workload options. @throws Error{invalid_input}
    std::function<void(std::string_view workload, const Json& options)> check_workload;
  };
  std::vector<Scenario> scenarios;
  std::vector<FaultEntry> faults;
  std::vector<std::string_view> capabilities;
};

/// Reads and checks one file.
/// @throws Error{invalid_input} "path:line: what; what is allowed (did you mean 'x'?)"; Error{not_found}
Failure read_failure(const std::string& path, const Vocabulary& vocabulary);
/// The same from a value already parsed (an embedded copy in a record).
Failure parse_failure(const Json& source, const Vocabulary& vocabulary);

/// Paths of the failure files that ship with Misfire, sorted by name; `scenario` empty means all.
std::vector<std::string> shipped_failures(std::string_view scenario = {});
/// A failure by shipped name or by path (anything with a '/' or ending in .json). @throws Error{not_found} with the nearest name
Failure find_failure(const std::string& name_or_path, const Vocabulary& vocabulary);

/// What one trial of one arm runs with.
struct TrialPlan {
  struct PlannedInjection {
    InjectionSpec spec;
    bool armed;
  };
  Json workload;  ///< its "name", and the merged options
  std::vector<PlannedInjection> injections;
  bool has_condition = false;  ///< condition present: its evidence must hold
  bool has_misuse = false;
};

/// What is deliberately taken away to check Misfire itself: the verdict must then be `invalid` (condition, misuse).
enum class Sabotage { none, condition, misuse };
std::string_view sabotage_name(Sabotage sabotage) noexcept;
inline constexpr std::array all_sabotages = {Sabotage::none, Sabotage::condition, Sabotage::misuse};

/// The dose that a command line or a record names: the file's own spelling of it where it is one of its values, in any spelling
/// of the same amount ("1" and "1.0", "64MiB" and "67108864"); else the value that the text stands for.
Json read_dose(const Failure& failure, std::string_view text);
/// How a dose is named on a command line and in a record.
std::string dose_text(const Json& dose);
/// Whether two spellings are one dose.
bool same_dose(const Json& a, const Json& b);

/// Merges the file's common options, ingredients by the arm's role, the dose (applied wherever the ingredient that holds its key
/// is present; everywhere when none holds it), and the arm's own. Every fault of the ingredients is in every plan, disarmed where
/// its ingredient is absent. Sabotage takes the ingredient out of the faulty arm alone, and leaves has_condition and has_misuse
/// as they were: the evidence must then fail.
TrialPlan compose(const Failure& failure, const Arm& arm, const std::optional<Json>& dose, Sabotage sabotage);

}  // namespace misfire
