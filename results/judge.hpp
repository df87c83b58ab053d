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
  Presence presence = Presence::not_measurable;
  std::vector<double> values;  ///< one a block; for ratio tests the in-block ratio
  double estimate = 0, low = 0, high = 0;
  double coverage = 0;         ///< of [low, high]; 1 for an invariant
  std::string text;            ///< value of a text metric
  std::string explanation;     ///< "shm_used_fraction = 0.998, wanted >= 0.95"; for not_measurable: why
};

/// A signature evaluated on one arm: present if every condition is present, absent if any is absent (and known), else not measurable.
struct SignatureResult {
  std::string arm;
  Role role = Role::control;
  Presence presence = Presence::not_measurable;
  bool partial = false;  ///< an optional condition was not measurable
  std::vector<ConditionResult> conditions;
};

enum class VerdictKind { reproduced, not_reproduced, inconclusive, invalid, leak, skipped, error };
std::string_view verdict_name(VerdictKind kind) noexcept;
Exit exit_for(VerdictKind kind) noexcept;

struct Verdict {
  VerdictKind kind = VerdictKind::invalid;
  std::string reason;       ///< stable word: "signature_present_and_cured", "remedy_ineffective", "fault_not_observed", ...
  std::string explanation;  ///< one line for people
  std::string partial;      ///< not empty: "(partial: ...)", what could not be measured here
  std::vector<SignatureResult> arms;
  std::vector<ConditionResult> evidence;  ///< of condition and misuse, with the arm in the explanation
  double recovery = 0, recovery_low = 0;  ///< share of the control-faulty distance recovered by the remedy (median, low end)
  bool recovery_known = false;
  bool needs_more_blocks = false;         ///< some interval straddles its bound and the plan allows more blocks
  Json to_json() const;
};

/// Number of blocks at which the judge looks: {1} for invariants, else {n, n+3, n+6} from the file's `blocks`. Looking three times
/// costs error: the intervals' coverage is chosen for it (see judge.cpp).
std::vector<int> looks(const Failure& failure);

/// Evaluates a signature on the trials of one arm.
SignatureResult evaluate(const Failure& failure, std::span<const TrialRecord> trials, std::string_view arm,
                         const std::vector<Condition>& conditions);

/// Verdict over the trials of a run. Arms of roles popular_advice and lookalike count when trials of them are present.
Verdict judge(const Failure& failure, std::span<const TrialRecord> trials);

/// Verdict of a run of the faulty arm at the neutral dose (must read healthy) or of a dose sweep (monotone, onset).
Verdict judge_neutral(const Failure& failure, std::span<const TrialRecord> trials);
Verdict judge_sweep(const Failure& failure, std::span<const TrialRecord> trials);

/// The confusion matrix of one scenario: cell (i, j) is signature j on the faulty trials of failure i (ratios against i's control).
struct Matrix {
  std::vector<std::string> names;
  std::vector<std::vector<SignatureResult>> cells;  ///< [faulty of][signature of]
  struct Problem {
    std::string failure, signature, why;
  };
  std::vector<Problem> problems;  ///< diagonal not present; off-diagonal not measured absent and not implied
  bool diagonal() const { return problems.empty(); }
};
Matrix confusion_matrix(std::span<const Failure> failures, std::span<const RunRecord> runs);

}  // namespace misfire
