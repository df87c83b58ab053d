#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/error.hpp"
#include "harness/json.hpp"
#include "harness/metric.hpp"

// Stored figures of healthy cases on one class of hardware, and whether new ones are worse.
//
// A baseline keeps sessions (one sitting at the machine) of launches (one process each, one number a metric). Launches of one
// session resemble each other more than those of another day: the comparison predicts a new session's mean from the spread
// between sessions and within them. With fewer than eight sessions over three days that spread is not known, and only coarse
// floors are checked: a figure below its floor is a regression, any other inconclusive.
// @source GATE design, stored-baseline mode; Searle, Casella, McCulloch: Variance Components, balanced one-way random model
namespace misfire {

inline constexpr int baseline_schema_version = 1;

/// One launch of one healthy case.
struct BaselineLaunch {
  std::string case_name;
  std::uint64_t seed = 0;
  std::vector<Metric> metrics = {};  ///< numbers; one a metric
  std::vector<std::pair<std::string, std::string>> missing = {};
};

/// One sitting, with its provenance.
struct BaselineSession {
  std::string started;  ///< UTC, "2026-05-04T12:30:00Z": names the session
  std::string version;  ///< of Misfire
  std::string commit;   ///< of the source tree; may be empty
  Json environment = {};
  std::vector<BaselineLaunch> launches = {};
};

struct Baseline {
  std::string hardware_class, scenario;
  std::vector<BaselineSession> sessions;  ///< by start
};

/// results/baselines/<hardware class>/<scenario>.json below `directory`.
std::string baseline_path(const std::string& directory, const std::string& hardware_class, const std::string& scenario);
/// @throws Error{not_found, invalid_input} path:line for anything but a whole baseline of a known version
Baseline read_baseline(const std::string& path);
/// One line a launch, sessions by start: merges of two people's sessions are line merges.
void write_baseline(const std::string& path, const Baseline& baseline);
std::string baseline_text(const Baseline& baseline);
/// Adds a session, or replaces the one of the same start. @throws Error{invalid_input} for another scenario or hardware class
void add_session(Baseline& baseline, const std::string& hardware_class, const std::string& scenario, BaselineSession session);

/// What to compare, and how strictly.
struct BaselinePolicy {
  double tolerated = 0.01;     ///< worse by up to this is no regression
  double must_catch = 0.05;    ///< worse by this must not pass
  double alpha = 0.01;         ///< chance of a false regression over all figures compared (Holm)
  double power = 0.9;          ///< for the smallest change that would be caught
  double floor = 0.3;          ///< coarse floor: worse than the median by this share
  int sessions = 8, days = 3;  ///< needed for intervals
  int expires_days = 90;       ///< older sessions are left out
  std::vector<std::string> metrics = {"images_per_second"};
};

enum class Comparison { pass, regression, inconclusive, invalid };
std::string_view comparison_name(Comparison comparison) noexcept;
Exit exit_for(Comparison comparison) noexcept;

/// One figure: a metric of a case.
struct BaselineRow {
  std::string case_name, metric;
  Unit unit = Unit::none;
  Comparison result = Comparison::invalid;
  std::string mode;                     ///< "interval" or "floor"
  double before = 0, now = 0;           ///< medians
  double worse = 0, low = 0, high = 0;  ///< relative change for the worse, with its one-sided bounds (interval mode)
  double detectable = 0;                ///< smallest change for the worse that is caught with the policy's power; 0 in floor mode
  double session_sd = 0, launch_sd = 0;  ///< of logarithms: between sessions, within them
  std::size_t sessions = 0, launches = 0;
  std::string explanation;
};

struct BaselineReport {
  Comparison result = Comparison::invalid;
  std::string reason;  ///< stable word
  std::string explanation;
  std::vector<BaselineRow> rows;
  Json to_json() const;
};

/// Compares a new session with a baseline. Another hardware class, a case or a metric that is missing on either side, or no
/// launch at all is invalid: missing data never passes.
BaselineReport compare_with_baseline(const Baseline& baseline, const std::string& hardware_class, const BaselineSession& now,
                                     const BaselinePolicy& policy = {});
std::string baseline_report_text(const BaselineReport& report);

}  // namespace misfire
