#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "harness/device.hpp"

namespace misfire {

/// A fixed piece of device memory, given out in parts: first fit, neighbours that are free are joined. Only addresses are
/// touched, never the memory itself, so it serves memory of any device.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  static constexpr std::uint64_t alignment = 256;

  /// @param owner    for errors: "device 'host'"
  /// @param release  gives the memory back when the arena and all handles are gone
  static std::shared_ptr<Arena> make(std::string owner, std::byte* memory, std::uint64_t bytes,
                                     std::function<void(std::byte*)> release);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// @throws Error{no_space} with what was asked, what is in use and the largest free part
  DeviceMemory allocate(std::uint64_t bytes);
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t used() const;

 private:
  Arena(std::string owner, std::byte* memory, std::uint64_t bytes, std::function<void(std::byte*)> release);
  void give_back(std::uint64_t offset, std::uint64_t size) noexcept;

  std::string owner_;
  std::byte* memory_;
  std::uint64_t bytes_;
  std::function<void(std::byte*)> release_;
  mutable std::mutex mutex_;
  std::uint64_t used_ = 0;
  std::map<std::uint64_t, std::uint64_t> free_;  // offset to size
};

}  // namespace misfire
