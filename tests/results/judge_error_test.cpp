// Goal: looking at a condition three times (5, 8 and 11 blocks) keeps the error that judge.cpp states: with the true median at
// the bound, present is said in at most 3/64 of the runs and absent in at most as many, whatever the noise; away from the bound
// the answer is right and soon. Method: seeded simulation of runs under symmetric, skewed and heavy-tailed noise.

#include <cmath>
#include <numbers>

#include "results/judge.hpp"
#include "tests/check.hpp"
#include "tests/results/trials.hpp"

using namespace misfire;
using namespace misfire::test;

namespace {

constexpr double bound = 1.5;
constexpr int runs = 3000;

double normal(Stream& stream) {
  const double u = 1 - stream.uniform(), v = stream.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

// Noise on a ratio, with median 1.
double symmetric(Stream& stream) { return std::exp(0.1 * normal(stream)); }
double skewed(Stream& stream) {  // exponential spikes upwards
  return 1 + 0.3 * (-std::log(1 - stream.uniform()) - std::numbers::ln2);
}
double heavy_tailed(Stream& stream) {
  const double cauchy = std::tan(std::numbers::pi * (stream.uniform() - 0.5));
  return std::exp(std::clamp(0.05 * cauchy, -20.0, 20.0));
}

struct Counts {
  int present = 0, absent = 0, undecided = 0, blocks = 0;
};

Counts simulate(const std::string& name, double (*noise)(Stream&), double median) {
  Failure failure = slow_step_failure();
  failure.signature.resize(1);
  Stream stream = Seed(2026).stream(name);
  const TrialRecord control = trial(failure, "control", 0, {{"step_seconds", 1.0}});
  const TrialRecord faulty = trial(failure, "faulty", 0, {{"step_seconds", 1.0}});
  Counts counts;
  for (int run = 0; run < runs; ++run) {
    std::vector<TrialRecord> trials;
    SignatureResult result;
    for (int look : looks(failure)) {
      for (int block = static_cast<int>(trials.size()) / 2; block < look; ++block) {
        trials.push_back(control);
        trials.back().block = block;
        trials.push_back(faulty);
        trials.back().block = block;
        trials.back().metrics[0].value = median * noise(stream);
      }
      result = evaluate(failure, trials, "faulty", failure.signature);
      if (!result.undecided) break;
    }
    counts.blocks += static_cast<int>(trials.size()) / 2;
    counts.present += result.presence == Presence::present;
    counts.absent += result.presence == Presence::absent;
    counts.undecided += result.undecided;
  }
  return counts;
}

double share(int count) { return static_cast<double>(count) / runs; }

}  // namespace

TEST("at the bound each wrong answer stays below 3/64, whatever the noise") {
  const double allowed = 3.0 / 64 + 3 * std::sqrt(3.0 / 64 / runs);  // three standard errors of the count
  for (const auto& [name, noise] :
       {std::pair{"symmetric", &symmetric}, std::pair{"skewed", &skewed}, std::pair{"heavy tails", &heavy_tailed}}) {
    const Counts counts = simulate(name, noise, bound);
    CHECK(share(counts.present) < allowed);
    CHECK(share(counts.absent) < allowed);
    CHECK(share(counts.undecided) > 0.85);
    CHECK_EQ(counts.present + counts.absent + counts.undecided, runs);
    CHECK(counts.present > 0 && counts.absent > 0);  // the simulation can err at all
  }
}

TEST("away from the bound the answer is right, after five blocks as a rule") {
  Counts counts = simulate("above", &symmetric, bound * 1.4);
  CHECK(share(counts.present) > 0.995);
  CHECK_EQ(counts.absent, 0);
  CHECK(share(counts.blocks) < 5.1);
  counts = simulate("below", &symmetric, bound / 1.4);
  CHECK(share(counts.absent) > 0.995);
  CHECK_EQ(counts.present, 0);
  counts = simulate("near", &symmetric, bound * 1.05);  // half a standard deviation: mostly undecided, hardly ever wrong
  CHECK(share(counts.absent) < 0.01);
}
