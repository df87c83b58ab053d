// Estimates and their intervals. Distributions are Boost.Math's, and seen by this file alone.

#include "results/statistics.hpp"

#include <algorithm>
#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "harness/error.hpp"

namespace misfire {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::invalid_input, "statistics: " + what); }

std::vector<double> sorted(std::span<const double> values, std::size_t least = 1) {
  if (values.size() < least) refuse(std::to_string(values.size()) + " values, " + std::to_string(least) + " needed");
  std::vector<double> copy(values.begin(), values.end());
  for (double value : copy)
    if (!std::isfinite(value)) refuse("a value is not finite");
  std::sort(copy.begin(), copy.end());
  return copy;
}

void check_share(double share, const char* what) {
  if (!(share > 0 && share < 1)) refuse(std::string(what) + " must lie between 0 and 1");
}

double quantile_of_sorted(const std::vector<double>& values, double q) {
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  if (below + 1 >= values.size()) return values.back();
  const double share = position - static_cast<double>(below);
  return values[below] + share * (values[below + 1] - values[below]);
}

double normal_quantile(double p) { return boost::math::quantile(boost::math::normal_distribution<>(), p); }
double normal_below(double x) { return boost::math::cdf(boost::math::normal_distribution<>(), x); }

}  // namespace

double median(std::span<const double> values) { return quantile_of_sorted(sorted(values), 0.5); }

double median_absolute_deviation(std::span<const double> values) {
  const double middle = median(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (double value : values) distances.push_back(std::fabs(value - middle));
  return 1.4826022185056018 * median(distances);
}

double trimmed_mean(std::span<const double> values, double fraction) {
  if (!(fraction >= 0 && fraction < 0.5)) refuse("the trimmed share of each end must be from 0 to below 0.5");
  const std::vector<double> ordered = sorted(values);
  const auto cut = static_cast<std::ptrdiff_t>(std::floor(fraction * static_cast<double>(ordered.size())));
  return std::accumulate(ordered.begin() + cut, ordered.end() - cut, 0.0) /
         static_cast<double>(ordered.end() - ordered.begin() - 2 * cut);
}

double quantile(std::span<const double> values, double q) {
  if (!(q >= 0 && q <= 1)) refuse("a quantile must lie from 0 to 1");
  return quantile_of_sorted(sorted(values), q);
}

QuantileRanks quantile_ranks(std::size_t count, double q, double coverage) {
  check_share(q, "a quantile");
  check_share(coverage, "a coverage");
  if (count == 0) refuse("no values");
  // B values of `count` lie below the quantile. [x_low, x_high] misses it when B < low or B >= high.
  const boost::math::binomial_distribution<> below(static_cast<double>(count), q);
  const auto at_most = [&](std::size_t k) { return boost::math::cdf(below, static_cast<double>(k)); };
  const double tail = (1 - coverage) / 2 * (1 + 1e-9);  // an exact tie (1/32) counts as reached
  QuantileRanks ranks{1, count, 0};
  while (ranks.low + 1 <= count && at_most(ranks.low) <= tail) ++ranks.low;
  while (ranks.high > 1 && 1 - at_most(ranks.high - 2) <= tail) --ranks.high;
  if (ranks.low > ranks.high) std::swap(ranks.low, ranks.high);
  ranks.coverage = at_most(ranks.high - 1) - at_most(ranks.low - 1);
  return ranks;
}

Interval quantile_interval(std::span<const double> values, double q, double coverage) {
  const std::vector<double> ordered = sorted(values);
  const QuantileRanks ranks = quantile_ranks(ordered.size(), q, coverage);
  return {quantile_of_sorted(ordered, q), ordered[ranks.low - 1], ordered[ranks.high - 1], ranks.coverage};
}

Interval median_interval(std::span<const double> values, double coverage) { return quantile_interval(values, 0.5, coverage); }

Interval bootstrap_interval(std::span<const double> values, const std::function<double(std::span<const double>)>& statistic,
                            double coverage, std::size_t resamples, Stream stream) {
  check_share(coverage, "a coverage");
  const std::vector<double> ordered = sorted(values, 3);
  if (resamples < 100) refuse("at least 100 resamples are needed");
  const std::size_t n = values.size();
  const double estimate = statistic(values);
  std::vector<double> drawn(n), estimates;
  estimates.reserve(resamples);
  for (std::size_t i = 0; i < resamples; ++i) {
    for (double& value : drawn) value = values[stream.below(n)];
    estimates.push_back(statistic(drawn));
  }
  std::sort(estimates.begin(), estimates.end());
  if (estimates.front() == estimates.back()) return {estimate, estimates.front(), estimates.back(), coverage};

  const auto lower = std::lower_bound(estimates.begin(), estimates.end(), estimate),
             upper = std::upper_bound(lower, estimates.end(), estimate);
  const double smaller =
      (static_cast<double>(lower - estimates.begin()) + static_cast<double>(upper - lower) / 2) / static_cast<double>(resamples);
  const double margin = 0.5 / static_cast<double>(resamples);
  const double bias = normal_quantile(std::clamp(smaller, margin, 1 - margin));

  std::vector<double> left_out(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> rest(values.begin(), values.end());
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    left_out[i] = statistic(rest);
  }
  const double mean = std::accumulate(left_out.begin(), left_out.end(), 0.0) / static_cast<double>(n);
  double cubes = 0, squares = 0;
  for (double value : left_out) {
    cubes += std::pow(mean - value, 3);
    squares += std::pow(mean - value, 2);
  }
  const double acceleration = squares > 0 ? cubes / (6 * std::pow(squares, 1.5)) : 0;
  const auto end = [&](double p) {
    const double z = bias + normal_quantile(p);
    return quantile_of_sorted(estimates, std::clamp(normal_below(bias + z / (1 - acceleration * z)), 0.0, 1.0));
  };
  return {estimate, end((1 - coverage) / 2), end((1 + coverage) / 2), coverage};
}

std::size_t pairs_needed(double log_ratio_sd, double relative_change, double alpha, double power) {
  check_share(alpha, "alpha");
  check_share(power, "a power");
  if (!(log_ratio_sd >= 0) || !std::isfinite(log_ratio_sd)) refuse("a standard deviation must be 0 or more");
  if (relative_change == 0 || !(relative_change > -1)) refuse("the change to detect must be above -1 and not 0");
  const double z = normal_quantile(1 - alpha / 2) + normal_quantile(power);
  const double pairs = std::pow(z * log_ratio_sd / std::log1p(relative_change), 2);
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(std::min(pairs, 1e15))));
}

Interval slope_interval(std::span<const double> x, std::span<const double> y, double coverage) {
  check_share(coverage, "a coverage");
  if (x.size() != y.size()) refuse("as many x as y are needed");
  const std::vector<double> ordered = sorted(x, 3);
  sorted(y);
  std::vector<double> slopes;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = i + 1; j < x.size(); ++j)
      if (x[i] != x[j]) slopes.push_back((y[j] - y[i]) / (x[j] - x[i]));
  if (slopes.empty()) refuse("all x are equal");
  std::sort(slopes.begin(), slopes.end());
  // Variance of Kendall's statistic, less what ties in x take away.
  const auto term = [](double k) { return k * (k - 1) * (2 * k + 5); };
  double variance = term(static_cast<double>(x.size()));
  for (std::size_t i = 0; i < ordered.size();) {
    std::size_t j = i;
    while (j < ordered.size() && ordered[j] == ordered[i]) ++j;
    variance -= term(static_cast<double>(j - i));
    i = j;
  }
  const double reach = normal_quantile((1 + coverage) / 2) * std::sqrt(variance / 18);
  const auto count = static_cast<double>(slopes.size());
  const auto at = [&](double rank) { return slopes[static_cast<std::size_t>(std::clamp(rank, 0.0, count - 1))]; };
  return {quantile_of_sorted(slopes, 0.5), at(std::floor((count - reach) / 2) - 1), at(std::ceil((count + reach) / 2)), coverage};
}

Interval proportion_interval(std::size_t successes, std::size_t trials, double coverage) {
  check_share(coverage, "a coverage");
  if (trials == 0 || successes > trials) refuse("a proportion needs trials, and no more successes than them");
  const double tail = (1 - coverage) / 2, k = static_cast<double>(successes), n = static_cast<double>(trials);
  Interval interval{k / n, 0, 1, coverage};
  if (successes > 0) interval.low = boost::math::quantile(boost::math::beta_distribution<>(k, n - k + 1), tail);
  if (successes < trials) interval.high = boost::math::quantile(boost::math::beta_distribution<>(k + 1, n - k), 1 - tail);
  return interval;
}

double student_t_quantile(double p, double degrees_of_freedom) {
  check_share(p, "a probability");
  if (!(degrees_of_freedom > 0)) refuse("degrees of freedom must be positive");
  return boost::math::quantile(boost::math::students_t_distribution<>(degrees_of_freedom), p);
}

double student_t_below(double t, double degrees_of_freedom) {
  if (!(degrees_of_freedom > 0)) refuse("degrees of freedom must be positive");
  if (std::isinf(t)) return t > 0 ? 1 : 0;
  return boost::math::cdf(boost::math::students_t_distribution<>(degrees_of_freedom), t);
}

}  // namespace misfire
