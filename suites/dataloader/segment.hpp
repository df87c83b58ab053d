#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace misfire::dataloader {

/// Memory of one or several batches, shared between processes through a file in /dev/shm (a tmpfs, as PyTorch uses it), so that
/// the size of that file system is felt: giving the file its length reserves nothing, the first touch of a page takes it.
class Segment {
 public:
  enum class Sharing {
    descriptor,  ///< no name: the file goes with its last descriptor and mapping
    name,        ///< a named file, opened by the receiver: stays behind if nobody unlinks it
  };

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();  ///< unmaps and closes; a named file is unlinked by its `unlink`

  /// Makes a file of `bytes` and maps it. @param reserve take the pages now: a full file system is then an error here
  /// @throws Error{no_space} when reserving failed for lack of space, saying how full /dev/shm is; Error
  static Segment create(std::size_t bytes, Sharing sharing, bool reserve);
  /// Maps what a descriptor refers to; takes the descriptor over.
  static Segment map(int descriptor, std::size_t bytes);
  static Segment open(const std::string& name, std::size_t bytes);
  /// Memory without a file, for threads.
  static Segment anonymous(std::size_t bytes);

  std::span<std::uint8_t> bytes() const noexcept { return {static_cast<std::uint8_t*>(memory_), size_}; }
  int descriptor() const noexcept { return descriptor_; }
  const std::string& name() const noexcept { return name_; }
  void close_descriptor() noexcept;
  void unlink() noexcept;

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
  std::string name_;
};

/// A segment cut into places for batches, used again and again. Belongs to the loader and to every batch that lies in it, so that
/// a batch may outlive its loader. For one thread.
class Slots {
 public:
  Slots(Segment memory, std::size_t slot_bytes, int count);
  const Segment& memory() const noexcept { return memory_; }
  Segment& memory() noexcept { return memory_; }
  std::size_t slot_bytes() const noexcept { return slot_bytes_; }
  std::span<std::uint8_t> bytes(int slot) const noexcept {
    return memory_.bytes().subspan(static_cast<std::size_t>(slot) * slot_bytes_, slot_bytes_);
  }
  bool any_free() const noexcept { return !free_.empty(); }
  int take() {
    const int slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void release(int slot) { free_.push_back(slot); }

 private:
  Segment memory_;
  std::size_t slot_bytes_;
  std::vector<int> free_;
};

/// Unlinks the named files that a process made and nobody took: it ended before it told of them, or nobody asked any more.
void unlink_segments_of(int pid) noexcept;

/// Used part of /dev/shm now, 0 to 1; negative when it cannot be read.
double shared_memory_used() noexcept;

}  // namespace misfire::dataloader
