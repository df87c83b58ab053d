#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace misfire {

using Duration = std::chrono::nanoseconds;

/// The unit of an option, a metric or a sample. In records and JSON a number is always in the unit's base form.
enum class Unit {
  none,      ///< a pure number
  text,      ///< not a number
  count,     ///< things
  bytes,     ///< bytes
  seconds,   ///< seconds
  fraction,  ///< 0 to 1
  ratio,     ///< one quantity over another of the same unit
  bytes_per_second,
  images_per_second,
};

/// Name in records and schemas ("bytes", "seconds", "images_per_second", ...).
std::string_view unit_name(Unit unit) noexcept;

/// "16MiB", "4M", "1GiB", "512k", "4096" to bytes. As in fio and Kubernetes: KiB, MiB, ... are 1024-based; a bare K, M, G, T
/// is 1024-based too (dd, fio, nccl-tests); kB, MB, GB, TB are 1000-based. Case of the first letter is ignored.
/// @throws Error{invalid_input} for anything else, negative, or beyond 64 bits
std::uint64_t parse_size(std::string_view text);

/// "200ms", "1.5s", "2m", "3h", "10us", "5ns", "2" (seconds, as in timeout(1)).
/// @throws Error{invalid_input} for anything else, negative, NaN, or beyond 292 years
Duration parse_duration(std::string_view text);

std::string format_size(std::uint64_t bytes);    ///< "16 MiB", "1.5 GiB", "512 B"
std::string format_duration(Duration duration);  ///< "1.25 s", "340 us"
/// A number with three significant digits and its unit, for people.
std::string format_quantity(double value, Unit unit);

inline double to_seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }
/// @throws Error{invalid_input} if not finite, negative or too large for Duration
Duration from_seconds(double seconds);

}  // namespace misfire
