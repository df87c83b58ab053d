#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace misfire {

/// One block of Philox4x32-10: a bijection of the counter for each key.
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept;

/// Counter-based random numbers: the n-th number of a stream is a pure function of (seed, name, n), so adding a stream,
/// a thread or a draw elsewhere shifts nothing. Philox4x32-10.
/// @source Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC'11)
class Stream {
 public:
  using result_type = std::uint64_t;

  std::uint64_t at(std::uint64_t counter) const noexcept;
  std::uint64_t operator()() noexcept { return at(counter_++); }
  /// Uniform in [0, n), without bias; n at least 1.
  std::uint64_t below(std::uint64_t n) noexcept;
  /// Uniform in [0, 1), 53 bits.
  double uniform() noexcept { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }
  /// An independent stream named below this one.
  Stream substream(std::string_view name) const noexcept;
  Stream substream(std::uint64_t index) const noexcept;

  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return std::numeric_limits<std::uint64_t>::max(); }

 private:
  friend class Seed;
  explicit Stream(std::uint64_t key) : key_(key) {}
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

/// The one 64-bit seed of a run. Each part draws from a stream derived by name.
class Seed {
 public:
  constexpr explicit Seed(std::uint64_t value) : value_(value) {}
  std::uint64_t value() const noexcept { return value_; }
  Stream stream(std::string_view name) const noexcept;
  /// A fresh one from the operating system.
  static Seed random();

 private:
  std::uint64_t value_;
};

}  // namespace misfire
