#include "kernels/arena.hpp"

#include <algorithm>
#include <utility>

#include "harness/error.hpp"
#include "harness/unit.hpp"

namespace misfire {

Arena::Arena(std::string owner, std::byte* memory, std::uint64_t bytes, std::function<void(std::byte*)> release)
    : owner_(std::move(owner)), memory_(memory), bytes_(bytes), release_(std::move(release)) {
  if (bytes_ > 0) free_.emplace(0, bytes_);
}

std::shared_ptr<Arena> Arena::make(std::string owner, std::byte* memory, std::uint64_t bytes,
                                   std::function<void(std::byte*)> release) {
  return std::shared_ptr<Arena>(new Arena(std::move(owner), memory, bytes, std::move(release)));
}

Arena::~Arena() { release_(memory_); }

std::uint64_t Arena::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

DeviceMemory Arena::allocate(std::uint64_t bytes) {
  std::uint64_t offset = 0, size = 0;
  {
    const std::lock_guard lock(mutex_);
    const bool possible = bytes <= bytes_;
    size = possible ? std::max<std::uint64_t>((bytes + alignment - 1) / alignment * alignment, alignment) : 0;
    auto place = free_.end();
    if (possible) place = std::find_if(free_.begin(), free_.end(), [&](const auto& part) { return part.second >= size; });
    if (place == free_.end()) {
      std::uint64_t largest = 0;
      for (const auto& part : free_) largest = std::max(largest, part.second);
      throw Error(ErrorCode::no_space, owner_ + ": out of memory: " + format_size(bytes) + " asked, " + format_size(used_) +
                                           " of " + format_size(bytes_) + " in use, largest free part " + format_size(largest) +
                                           "; use smaller batches or a larger arena (memory_bytes)");
    }
    offset = place->first;
    const std::uint64_t rest = place->second - size;
    free_.erase(place);
    if (rest > 0) free_.emplace(offset + size, rest);
    used_ += size;
  }
  auto self = shared_from_this();
  return DeviceMemory(
      std::shared_ptr<std::byte>(memory_ + offset, [self, offset, size](std::byte*) { self->give_back(offset, size); }), bytes);
}

void Arena::give_back(std::uint64_t offset, std::uint64_t size) noexcept {
  const std::lock_guard lock(mutex_);
  used_ -= size;
  auto place = free_.emplace(offset, size).first;
  if (const auto next = std::next(place); next != free_.end() && place->first + place->second == next->first) {
    place->second += next->second;
    free_.erase(next);
  }
  if (place != free_.begin()) {
    const auto before = std::prev(place);
    if (before->first + before->second == place->first) {
      before->second += place->second;
      free_.erase(place);
    }
  }
}

}  // namespace misfire
