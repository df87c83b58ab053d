#include "harness/seed.hpp"

#include <random>

namespace misfire {
namespace {

// The third word of the counter says what a block is for, so that draws and keys of substreams never coincide.
enum class Purpose : std::uint32_t { draw, named_key, indexed_key };

std::array<std::uint32_t, 4> block(std::uint64_t key, std::uint64_t counter, Purpose purpose) {
  return philox4x32_10(
      {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), static_cast<std::uint32_t>(purpose), 0},
      {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
}

std::uint64_t half(const std::array<std::uint32_t, 4>& words, std::size_t which) {
  return words[2 * which] | static_cast<std::uint64_t>(words[2 * which + 1]) << 32;
}

// FNV-1a, 64 bits.
std::uint64_t hash(std::string_view name) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ULL * counter[0], b = 0xCD9E8D57ULL * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

std::uint64_t Stream::at(std::uint64_t counter) const noexcept {
  return half(block(key_, counter >> 1, Purpose::draw), counter & 1);
}

std::uint64_t Stream::below(std::uint64_t n) noexcept {
  // Lemire, Fast Random Integer Generation in an Interval (2019): the upper word of a product, rejecting the few draws that
  // would favour some values.
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>((*this)()) * n;
  if (static_cast<std::uint64_t>(product) < n) {
    const std::uint64_t threshold = (0 - n) % n;
    while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<Wide>((*this)()) * n;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

Stream Stream::substream(std::string_view name) const noexcept {
  return Stream(half(block(key_, hash(name), Purpose::named_key), 0));
}

Stream Stream::substream(std::uint64_t index) const noexcept { return Stream(half(block(key_, index, Purpose::indexed_key), 0)); }

Stream Seed::stream(std::string_view name) const noexcept { return Stream(value_).substream(name); }

Seed Seed::random() {
  std::random_device device;
  return Seed(static_cast<std::uint64_t>(device()) << 32 | device());
}

}  // namespace misfire
