// Goal: each estimate is the one that its source defines, and each interval covers what it says. Method: values known from the
// sources or worked out by hand; coverage counted over seeded simulations; what cannot be estimated is refused.

#include "results/statistics.hpp"

#include <cmath>
#include <numbers>
#include <vector>

#include "tests/check.hpp"

using namespace misfire;

namespace {

using Values = std::vector<double>;

double standard_normal(Stream& stream) {
  const double u = 1 - stream.uniform(), v = stream.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

Values one_to(int n) {
  Values values;
  for (int i = 1; i <= n; ++i) values.push_back(i);
  return values;
}

}  // namespace

TEST("centres that outliers do not move") {
  CHECK_EQ(median(Values{3, 1, 2}), 2.0);
  CHECK_EQ(median(Values{4, 1, 3, 2}), 2.5);
  CHECK_EQ(median(Values{1, 2, 1e300}), 2.0);
  CHECK_NEAR(median_absolute_deviation(Values{1, 1, 2, 2, 4, 6, 9}), 1.4826, 1e-4);  // distances 1 1 0 0 2 4 7, median 1
  CHECK_EQ(trimmed_mean(Values{100, 1, 2, 3, -100}, 0.2), 2.0);
  CHECK_EQ(trimmed_mean(Values{1, 2, 6}, 0), 3.0);
  CHECK_THROWS(trimmed_mean(Values{1, 2}, 0.5), "0.5");
}

TEST("what is no sample is refused") {
  CHECK_THROWS(median(Values{}), "0 values");
  CHECK_THROWS(median(Values{1, NAN}), "not finite");
  CHECK_THROWS(median(Values{1, INFINITY}), "not finite");
  CHECK_THROWS(quantile(Values{1}, 1.1), "quantile");
  CHECK_THROWS(quantile_interval(Values{1}, 0.0, 0.9), "between 0 and 1");
  CHECK_THROWS(quantile_ranks(0, 0.5, 0.9), "no values");
  CHECK_THROWS(bootstrap_interval(
                   Values{1, 2}, [](std::span<const double> v) { return v[0]; }, 0.9, 200, Seed(1).stream("b")),
               "3 needed");
  CHECK_THROWS(slope_interval(Values{1, 1, 1}, Values{1, 2, 3}, 0.9), "all x are equal");
  CHECK_THROWS(slope_interval(Values{1, 2, 3}, Values{1, 2}, 0.9), "as many x as y");
  CHECK_THROWS(proportion_interval(3, 2, 0.95), "no more successes");
  CHECK_THROWS(proportion_interval(0, 0, 0.95), "trials");
  CHECK_THROWS(pairs_needed(0.1, 0, 0.05, 0.8), "not 0");
  CHECK_THROWS(student_t_quantile(0.5, 0), "degrees of freedom");
}

TEST("quantiles interpolate as type 7 does") {
  // R: quantile(c(1, 2, 4, 8), c(0, .25, .5, .9, 1)) is 1 1.75 3 6.8 8
  const Values values{8, 1, 4, 2};
  CHECK_EQ(quantile(values, 0), 1.0);
  CHECK_NEAR(quantile(values, 0.25), 1.75, 1e-12);
  CHECK_NEAR(quantile(values, 0.5), 3.0, 1e-12);
  CHECK_NEAR(quantile(values, 0.9), 6.8, 1e-12);
  CHECK_EQ(quantile(values, 1), 8.0);
}

TEST("intervals of the median are the binomial's") {
  // All n values miss the median with probability 2^(1-n).
  QuantileRanks ranks = quantile_ranks(5, 0.5, 1 - 2.0 / 32);
  CHECK_EQ(ranks.low, 1u);
  CHECK_EQ(ranks.high, 5u);
  CHECK_NEAR(ranks.coverage, 1 - 2.0 / 32, 1e-12);
  // n = 11 without the outermost on each side: 1 - 2 (1 + 11) / 2^11.
  ranks = quantile_ranks(11, 0.5, 1 - 2.0 / 128);
  CHECK_EQ(ranks.low, 2u);
  CHECK_EQ(ranks.high, 10u);
  CHECK_NEAR(ranks.coverage, 1 - 24.0 / 2048, 1e-12);
  // n = 20 at 95 %: ranks 6 and 15, coverage 0.9586 (David and Nagaraja, 7.1).
  ranks = quantile_ranks(20, 0.5, 0.95);
  CHECK_EQ(ranks.low, 6u);
  CHECK_EQ(ranks.high, 15u);
  CHECK_NEAR(ranks.coverage, 0.9586, 1e-4);
}

TEST("a sample too small for its coverage says so") {
  const Interval interval = median_interval(Values{3, 1, 2}, 0.99);
  CHECK_EQ(interval.estimate, 2.0);
  CHECK_EQ(interval.low, 1.0);
  CHECK_EQ(interval.high, 3.0);
  CHECK_NEAR(interval.coverage, 0.75, 1e-12);
  CHECK_EQ(median_interval(Values{7}, 0.9).coverage, 0.0);
  CHECK(quantile_interval(one_to(100), 0.99, 0.95).coverage < 0.95);  // a hundred values do not bound their 99th percentile
  CHECK(quantile_interval(one_to(2000), 0.99, 0.95).coverage >= 0.95);
}

TEST("intervals cover as often as they say") {
  Stream stream = Seed(11).stream("coverage");
  constexpr int repeats = 1500;
  int median_hits = 0, quantile_hits = 0, bootstrap_hits = 0, slope_hits = 0;
  for (int i = 0; i < repeats; ++i) {
    Values values, y;
    for (int k = 0; k < 25; ++k) {
      values.push_back(std::exp(standard_normal(stream)));  // skewed; median 1
      y.push_back(2.0 * k + 3 * standard_normal(stream));
    }
    const auto covers = [](const Interval& interval, double truth) { return interval.low <= truth && truth <= interval.high; };
    median_hits += covers(median_interval(values, 0.9), 1);
    quantile_hits += covers(quantile_interval(values, 0.75, 0.9), std::exp(0.6744898));
    slope_hits += covers(slope_interval(one_to(25), y, 0.9), 2);
    if (i % 5 == 0)
      bootstrap_hits += covers(bootstrap_interval(
                                   values, [](std::span<const double> v) { return median(v); }, 0.9, 200,
                                   stream.substream(static_cast<std::uint64_t>(i))),
                               1);
  }
  const auto share = [](int hits, int of) { return static_cast<double>(hits) / of; };
  CHECK(share(median_hits, repeats) > 0.88);  // at least what was asked, less three standard errors
  CHECK(share(quantile_hits, repeats) > 0.88);
  CHECK(share(slope_hits, repeats) > 0.88);
  CHECK(share(slope_hits, repeats) < 0.96);
  CHECK(share(bootstrap_hits, repeats / 5) > 0.83);  // the bootstrap is approximate
  CHECK(share(bootstrap_hits, repeats / 5) < 0.98);
}

TEST("the bootstrap gives the same interval for the same seed, and none for a constant") {
  const auto centre = [](std::span<const double> v) { return median(v); };
  const Values values{1, 2, 3, 5, 8, 13, 21};
  const Interval a = bootstrap_interval(values, centre, 0.9, 500, Seed(3).stream("b"));
  const Interval b = bootstrap_interval(values, centre, 0.9, 500, Seed(3).stream("b"));
  CHECK_EQ(a.low, b.low);
  CHECK_EQ(a.high, b.high);
  CHECK(a.low < 5 && 5 < a.high && a.estimate == 5);
  const Interval constant = bootstrap_interval(Values{4, 4, 4}, centre, 0.9, 200, Seed(3).stream("b"));
  CHECK(constant.low == 4 && constant.high == 4);
  CHECK_THROWS(bootstrap_interval(values, centre, 0.9, 50, Seed(3).stream("b")), "100 resamples");
}

TEST("sample sizes are the textbook's") {
  // (1.959964 + 0.841621)^2 = 7.8489; sd 0.05 to see a change of ln(1.05) = 0.04879: 8.24 pairs
  CHECK_EQ(pairs_needed(0.05, 0.05, 0.05, 0.8), 9u);
  CHECK_EQ(pairs_needed(0, 0.05, 0.05, 0.8), 1u);
  CHECK(pairs_needed(0.1, 0.01, 0.01, 0.9) > pairs_needed(0.1, 0.05, 0.01, 0.9));
  CHECK(pairs_needed(0.1, -0.05, 0.05, 0.8) < pairs_needed(0.1, 0.05, 0.05, 0.8));  // |ln 0.95| > ln 1.05
}

TEST("slopes are Theil and Sen's") {
  const Interval exact = slope_interval(Values{0, 1, 2, 3}, Values{5, 7, 9, 11}, 0.9);
  CHECK_NEAR(exact.estimate, 2.0, 1e-12);
  CHECK(exact.low <= 2 && exact.high >= 2);
  // One wild value among ten moves the least-squares slope by more than 5, this one hardly.
  Values y = one_to(10);
  y.back() = 1000;
  CHECK_NEAR(slope_interval(one_to(10), y, 0.9).estimate, 1.0, 1e-9);
  const Interval flat = slope_interval(one_to(10), Values(10, 3.0), 0.95);
  CHECK(flat.low <= 0 && flat.high >= 0);
}

TEST("proportions are Clopper and Pearson's") {
  const Interval none = proportion_interval(0, 300, 0.95);
  CHECK_EQ(none.low, 0.0);
  CHECK_NEAR(none.high, 0.01222, 1e-5);  // 1 - 0.025^(1/300)
  const Interval some = proportion_interval(7, 20, 0.95);
  CHECK_NEAR(some.low, 0.15391, 1e-5);
  CHECK_NEAR(some.high, 0.59219, 1e-5);
  CHECK_EQ(proportion_interval(5, 5, 0.95).high, 1.0);
}

TEST("Student's t") {
  CHECK_NEAR(student_t_quantile(0.975, 7), 2.364624, 1e-6);
  CHECK_NEAR(student_t_below(2.364624, 7), 0.975, 1e-6);
  CHECK_EQ(student_t_below(INFINITY, 3), 1.0);
  CHECK_EQ(student_t_below(-INFINITY, 3), 0.0);
  CHECK_NEAR(student_t_below(0, 1), 0.5, 1e-12);
}
