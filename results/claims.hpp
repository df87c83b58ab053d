#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/judge.hpp"

// Published claims as data (results/claims/<scenario>.json), and what the records of runs say of them.
namespace misfire {

enum class ClaimVerdict { holds, holds_under_conditions, contradicted, not_measurable };
std::string_view claim_verdict_name(
    ClaimVerdict verdict) noexcept;  ///< "holds", "holds under conditions", "contradicted", "not measurable here"

/// A metric of one arm of a failure, alone or over the same metric of another arm in the same block, against a bound.
struct ClaimCheck {
  std::string failure, metric, arm;
  std::string over;  ///< empty: the value itself
  std::optional<double> at_least, at_most;
  std::string why;
  std::string describe() const;  ///< "no-workers-serial: step_seconds, faulty / control >= 1.2"
};

/// A number of the environment (dotted path; the length where it is a list) without which the claim is not measurable.
struct ClaimNeed {
  std::string fact, what;
  double at_least = 1;
};

struct Claim {
  struct Published {
    std::string configuration;
    std::vector<std::pair<std::string, double>> figures;
  };
  std::string id, statement, effect;
  std::vector<Published> published;
  std::vector<ClaimNeed> needs;
  std::vector<ClaimCheck> checks;
  std::string conditions;  ///< under which it holds; empty: none worth saying
};

/// @throws Error{not_found, invalid_input} path:line
std::vector<Claim> read_claims(const std::string& path);
/// Every claim that ships, of one scenario or all. @throws Error
std::vector<Claim> shipped_claims(std::string_view scenario = {});

/// What was measured for the checks of claims: values a block and the environment they come from. Small enough to be kept in the
/// repository (results/claims/measured/<scenario>.json).
struct ClaimMeasurement {
  struct Values {
    std::string check;           ///< ClaimCheck::describe
    std::vector<double> values;  ///< one a block; infinite over 0
    std::string missing;         ///< not empty: why there are none
  };
  std::string hardware_class, started, version;
  Json facts = Json::object();  ///< of the claims' needs, by dotted path
  std::vector<Values> values;
  Json to_json() const;
};
/// From the records of runs; what they do not have is missing with the reason.
ClaimMeasurement measure_claims(std::span<const Claim> claims, std::span<const RunRecord> runs);
ClaimMeasurement read_claim_measurement(const std::string& path);

struct ClaimResult {
  Claim claim;
  ClaimVerdict verdict = ClaimVerdict::not_measurable;
  struct Measured {
    ClaimCheck check;
    Presence presence = Presence::not_measurable;
    double estimate = 0, low = 0, high = 0;
    std::size_t blocks = 0;
    std::string explanation;
  };
  std::vector<Measured> measured;
  std::string explanation;
  Json to_json() const;
};
/// Blocks that a check needs: the smallest and largest of five values cover the median with 94 %.
inline constexpr int claim_blocks = 5;
/// A check is decided by the interval of the median over blocks; fewer than claim_blocks are shown and decide nothing. Holds:
/// every check; contradicted: one that is decided against it; under conditions: the claim's own, where it states any. Without a
/// needed fact it is not measurable, whatever the checks say.
ClaimResult assess(const Claim& claim, const ClaimMeasurement& measurement);

std::string claims_text(std::span<const ClaimResult> results, const ClaimMeasurement& measurement, int width = 100);

}  // namespace misfire
