#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "harness/seed.hpp"

namespace misfire {

/// An estimate with an interval. `coverage` is what the interval really has, which for order statistics is at least what was
/// asked unless the sample is too small (then it is the widest one and says less).
struct Interval {
  double estimate = 0, low = 0, high = 0, coverage = 0;
};

double median(std::span<const double> values);                     ///< @throws Error{invalid_input} when empty or not finite
double median_absolute_deviation(std::span<const double> values);  ///< times 1.4826: the normal's standard deviation
double trimmed_mean(std::span<const double> values, double fraction);
/// Quantile by linear interpolation of order statistics. @source Hyndman and Fan (1996), type 7
double quantile(std::span<const double> values, double q);
/// Distribution-free interval of a quantile from order statistics (binomial). @source David and Nagaraja, Order Statistics, 7.1
Interval quantile_interval(std::span<const double> values, double q, double coverage);
Interval median_interval(std::span<const double> values, double coverage);
/// Which order statistics (1 is the smallest) make that interval of `count` values.
struct QuantileRanks {
  std::size_t low = 1, high = 1;
  double coverage = 0;
};
QuantileRanks quantile_ranks(std::size_t count, double q, double coverage);
/// Percentile bootstrap, bias-corrected and accelerated. @source Efron (1987) @throws Error{invalid_input} fewer than 3 values
Interval bootstrap_interval(std::span<const double> values, const std::function<double(std::span<const double>)>& statistic,
                            double coverage, std::size_t resamples, Stream stream);
/// Pairs needed to detect a relative change with two-sided alpha and power, for a standard deviation of log ratios.
/// @source (z_{1-alpha/2} + z_power)^2 s^2 / effect^2
std::size_t pairs_needed(double log_ratio_sd, double relative_change, double alpha, double power);
/// Slope of y over x by Theil and Sen with its interval (Kendall). @source Sen (1968)
Interval slope_interval(std::span<const double> x, std::span<const double> y, double coverage);
/// Exact Clopper-Pearson interval of a proportion. @source Clopper and Pearson (1934)
Interval proportion_interval(std::size_t successes, std::size_t trials, double coverage);

/// Student's t: the value below which it lies with probability p, and the probability to lie below t.
double student_t_quantile(double p, double degrees_of_freedom);
double student_t_below(double t, double degrees_of_freedom);

}  // namespace misfire
