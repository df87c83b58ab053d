#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/error.hpp"
#include "harness/failure.hpp"
#include "results/record_reader.hpp"

namespace misfire {

/// A detector's three answers.
enum class Presence { present, absent, not_measurable };
std::string_view presence_name(Presence presence) noexcept;

/// One condition evaluated over the trials of one arm (and the controls of the same blocks for ratios).
struct ConditionResult {
  Condition condition;
  std::string arm;
  Presence presence = Presence::not_measurable;
  bool undecided = false;      ///< measured, but the interval straddles the bound or the trials differ: more blocks may decide
  std::vector<double> values;  ///< one a block; for ratio tests the in-block ratio; infinite over a control of 0
  double estimate = 0, low = 0, high = 0;
  double coverage = 0;      ///< of [low, high]; 1 for an invariant
  std::string text;         ///< value of a text metric
  std::string explanation;  ///< "shm_used_fraction = 0.998, wanted >= 0.95"; for not_measurable: why
  /// The value as a table shows it: "0.998", "'ok'", "1.42 [1.38, 1.51]", "?".
  std::string value_text() const;
};

/// A signature evaluated on one arm: present if every condition is present, absent if any is known to be, else not measurable.
struct SignatureResult {
  std::string arm;
  Role role = Role::control;
  std::string dose;  ///< of a sweep
  Presence presence = Presence::not_measurable;
  bool undecided = false;
  bool partial = false;  ///< an optional condition was not measurable
  int trials = 0;
  std::vector<ConditionResult> conditions;
  /// The explanation of the first condition with that presence, else "".
  std::string why(Presence wanted) const;
};

enum class VerdictKind { reproduced, not_reproduced, inconclusive, invalid, leak, skipped, error };
std::string_view verdict_name(VerdictKind kind) noexcept;
inline constexpr std::array all_verdicts = {VerdictKind::reproduced, VerdictKind::not_reproduced, VerdictKind::inconclusive,
                                            VerdictKind::invalid,    VerdictKind::leak,           VerdictKind::skipped,
                                            VerdictKind::error};
Exit exit_for(VerdictKind kind) noexcept;
/// Of several failures the first of 70, 4, 3, 1, 2 decides; 77 only if all were skipped; 0 for the rest. None at all is invalid.
Exit exit_for(std::span<const VerdictKind> kinds) noexcept;

struct Verdict {
  VerdictKind kind = VerdictKind::invalid;
  std::string reason;       ///< stable word: "signature_present_and_cured", "remedy_ineffective", "fault_not_observed", ...
  std::string explanation;  ///< one line for people
  std::string partial;      ///< not empty: "(partial: ...)", what could not be measured here
  std::vector<SignatureResult> arms;
  std::vector<ConditionResult> evidence;  ///< of condition and misuse, with the arm
  double recovery = 0, recovery_low = 0;  ///< share of the control-faulty distance recovered by the remedy (median, low end)
  bool recovery_known = false;
  bool needs_more_blocks = false;  ///< some interval straddles its bound and the plan allows more blocks
  Json to_json() const;
};

/// Number of blocks at which the judge looks: {1} for invariants, else {n, n+3, n+6} from the file's `blocks`. Looking three
/// times costs error: the intervals' coverage is chosen for it (see judge.cpp).
std::vector<int> looks(const Failure& failure);

/// Evaluates conditions on the trials of one arm.
SignatureResult evaluate(const Failure& failure, std::span<const TrialRecord> trials, std::string_view arm,
                         const std::vector<Condition>& conditions);

/// Verdict over the trials of a run. Arms of roles popular_advice and lookalike count when trials of them are present. Trials of
/// several doses are judged as a sweep, those of the neutral dose alone by judge_neutral. Deterministic: one record, one verdict.
Verdict judge(const Failure& failure, std::span<const TrialRecord> trials);

/// Verdict of a run of the faulty arm at the neutral dose, with its control: `not_reproduced`, reason neutral_dose_healthy, is as
/// it should be; `invalid` if the signature holds or the trial fails.
Verdict judge_neutral(const Failure& failure, std::span<const TrialRecord> trials);

/// Verdict of a sweep over doses: `reproduced` if the neutral dose is healthy, the signature sets in where the file says (or
/// once, and stays) and the file's metric follows the dose; ties are allowed.
Verdict judge_sweep(const Failure& failure, std::span<const TrialRecord> trials);

/// The failure with a signature that cannot hold (its first required condition and the contrary): a run of it must not be
/// reproduced. @throws Error as parse_failure
Failure with_broken_signature(const Failure& failure, const Vocabulary& vocabulary);

/// The confusion matrix of one scenario: cell (i, j) is signature j on the faulty trials of failure i (ratios to i's control).
/// With fewer trials than signature j's blocks all of them must agree; the cells then say what coverage that has.
struct Matrix {
  std::vector<std::string> names;
  std::vector<std::vector<SignatureResult>> cells;  ///< [faulty of][signature of]
  struct Problem {
    std::string failure, signature, why;
  };
  std::vector<Problem> problems;  ///< diagonal not present; off-diagonal not measured absent and not implied
  std::vector<Problem> skipped;   ///< rows without trials because a capability is missing; no problem, and no proof
  bool diagonal() const { return problems.empty(); }
};
Matrix confusion_matrix(std::span<const Failure> failures, std::span<const RunRecord> runs);

}  // namespace misfire
