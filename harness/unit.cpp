#include "harness/unit.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "harness/error.hpp"

namespace misfire {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

[[noreturn]] void refuse(std::string_view text, std::string_view what, std::string_view accepted) {
  throw Error(ErrorCode::invalid_input, "'" + std::string(text) + "' is not " + std::string(what) + ": " + std::string(accepted));
}

// The number that text begins with, as a double, and the suffix behind it.
struct Amount {
  double value;
  std::string_view digits, suffix;
};

// Only digits, a point and an exponent: no sign, no "inf", no "nan". False when text does not begin so.
bool read_amount(std::string_view text, Amount& amount) {
  if (text.empty() || !(digit(text[0]) || (text[0] == '.' && text.size() > 1 && digit(text[1])))) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount.value);
  if (error != std::errc() && error != std::errc::result_out_of_range) return false;
  if (error == std::errc::result_out_of_range) amount.value = std::numeric_limits<double>::infinity();
  amount.digits = text.substr(0, static_cast<std::size_t>(end - text.data()));
  amount.suffix = text.substr(amount.digits.size());
  if (!amount.suffix.empty() && amount.suffix[0] == ' ') amount.suffix.remove_prefix(1);
  return true;
}

constexpr std::string_view size_accepted =
    "write a number with K, M, G, T or KiB, MiB, GiB (1024) or kB, MB, GB (1000), as in 16MiB";
constexpr std::string_view duration_accepted = "write a number with ns, us, ms, s, m, h or d, as in 200ms (without one: seconds)";

// Multiplier of a size suffix, 0 when it is none.
std::uint64_t size_factor(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 1;
  const std::size_t power = std::string_view("kmgtpe").find(static_cast<char>(suffix[0] | 0x20));
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = suffix.substr(1);
  const bool binary = rest.empty() || rest == "i" || rest == "iB";
  if (!binary && rest != "B") return 0;
  std::uint64_t factor = 1;
  for (std::size_t i = 0; i <= power; ++i) factor *= binary ? 1024 : 1000;
  return factor;
}

// Nanoseconds of a duration suffix, 0 when it is none.
double duration_factor(std::string_view suffix) {
  constexpr std::pair<std::string_view, double> factors[] = {{"", 1e9},     {"s", 1e9},    {"ms", 1e6}, {"us", 1e3},
                                                             {"µs", 1e3},   {"ns", 1},     {"m", 60e9}, {"min", 60e9},
                                                             {"h", 3600e9}, {"d", 86400e9}};
  for (const auto& [name, factor] : factors)
    if (suffix == name) return factor;
  return 0;
}

// Three significant digits, without an exponent from 0.0001 to 1e15, all digits before the point kept.
std::string significant(double value) {
  std::array<char, 64> text{};
  const double magnitude = std::fabs(value);
  std::snprintf(text.data(), text.size(), magnitude >= 999.5 && magnitude < 1e15 ? "%.0f" : "%.3g", value);
  return text.data();
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return significant(seconds);
  const double magnitude = std::fabs(seconds);
  if (magnitude == 0) return "0 s";
  if (magnitude < 999.5e-9) return significant(seconds * 1e9) + " ns";
  if (magnitude < 999.5e-6) return significant(seconds * 1e6) + " us";
  if (magnitude < 999.5e-3) return significant(seconds * 1e3) + " ms";
  if (magnitude < 119.5 || magnitude > 1e12) return significant(seconds) + " s";
  const std::int64_t whole = std::llround(magnitude);
  const std::string sign = seconds < 0 ? "-" : "";
  const auto pair = [&](std::int64_t major, const char* major_unit, std::int64_t minor, const char* minor_unit) {
    std::string text = sign + std::to_string(major) + " " + major_unit;
    if (minor > 0) text += " " + std::to_string(minor) + " " + minor_unit;
    return text;
  };
  if (whole < 3600) return pair(whole / 60, "min", whole % 60, "s");
  if (whole < 86400) return pair(whole / 3600, "h", whole % 3600 / 60, "min");
  return pair(whole / 86400, "d", whole % 86400 / 3600, "h");
}

std::string format_bytes(double bytes) {
  if (!std::isfinite(bytes)) return significant(bytes);
  int power = 0;
  double value = bytes;
  while (std::fabs(value) >= 1023.5 && power < 6) {
    value /= 1024;
    ++power;
  }
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return significant(value) + " " + units[power];
}

}  // namespace

std::string_view unit_name(Unit unit) noexcept {
  switch (unit) {
    case Unit::none:
      return "none";
    case Unit::text:
      return "text";
    case Unit::count:
      return "count";
    case Unit::bytes:
      return "bytes";
    case Unit::seconds:
      return "seconds";
    case Unit::fraction:
      return "fraction";
    case Unit::ratio:
      return "ratio";
    case Unit::bytes_per_second:
      return "bytes_per_second";
    case Unit::images_per_second:
      return "images_per_second";
  }
  return "none";
}

std::uint64_t parse_size(std::string_view text) {
  Amount amount{};
  if (!read_amount(text, amount)) refuse(text, "a size", size_accepted);
  const std::uint64_t factor = size_factor(amount.suffix);
  if (factor == 0) refuse(text, "a size", size_accepted);
  std::uint64_t bytes = 0;
  if (std::all_of(amount.digits.begin(), amount.digits.end(), digit)) {  // exact beyond 2^53
    std::uint64_t whole = 0;
    const auto error = std::from_chars(amount.digits.data(), amount.digits.data() + amount.digits.size(), whole).ec;
    if (error != std::errc() || __builtin_mul_overflow(whole, factor, &bytes)) refuse(text, "a size", "it is beyond 64 bits");
    return bytes;
  }
  const double value = amount.value * static_cast<double>(factor);
  if (!(value < 0x1p64)) refuse(text, "a size", "it is beyond 64 bits");
  if (value != std::floor(value)) refuse(text, "a size", "it is not a whole number of bytes");
  return static_cast<std::uint64_t>(value);
}

Duration parse_duration(std::string_view text) {
  Amount amount{};
  if (!read_amount(text, amount)) refuse(text, "a duration", duration_accepted);
  const double factor = duration_factor(amount.suffix);
  if (factor == 0) refuse(text, "a duration", duration_accepted);
  const double nanoseconds = std::round(amount.value * factor);
  if (!(nanoseconds < 0x1p63)) refuse(text, "a duration", "it is beyond 292 years");
  return Duration(static_cast<std::int64_t>(nanoseconds));
}

std::string format_size(std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

std::string format_duration(Duration duration) { return format_seconds(to_seconds(duration)); }

std::string format_quantity(double value, Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return format_bytes(value);
    case Unit::seconds:
      return format_seconds(value);
    case Unit::fraction:
      return significant(value * 100) + "%";
    case Unit::bytes_per_second:
      return format_bytes(value) + "/s";
    case Unit::images_per_second:
      return significant(value) + " images/s";
    default:
      return significant(value);
  }
}

Duration from_seconds(double seconds) {
  const double nanoseconds = std::round(seconds * 1e9);
  if (!(seconds >= 0) || !(nanoseconds < 0x1p63))
    throw Error(ErrorCode::invalid_input, significant(seconds) + " seconds is not a duration: it must be from 0 to 292 years");
  return Duration(static_cast<std::int64_t>(nanoseconds));
}

}  // namespace misfire
