#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

namespace misfire::dataloader {

/// The records that a dataset keeps in memory beside its images (labels, boxes, captions), in one of two layouts.
///
/// `objects`: millions of small reference-counted objects, as a runtime such as CPython keeps them: holding one for the time of
/// reading it writes its counter. `flat`: one buffer with a fixed stride; reading writes nothing.
///
/// The table lies in a mapping of its own, so that a process's memory map shows what became of exactly these pages. It models the
/// counter's write and the object's size (64 bytes), not an interpreter's allocator or garbage collector.
class SampleTable {
 public:
  enum class Layout { flat, objects };
  static constexpr std::size_t record_bytes = 64;  ///< counter, pointer and content of one record

  /// @param bytes    size of the table; as many records of 64 bytes as fit
  /// @param samples  records are dealt out evenly, contiguous for each sample
  SampleTable(Layout layout, std::uint64_t bytes, std::size_t samples);
  SampleTable(const SampleTable&) = delete;
  SampleTable& operator=(const SampleTable&) = delete;
  ~SampleTable();

  /// Reads the first `fraction` of a sample's records and returns a checksum of them; the same for both layouts.
  std::uint64_t read(std::size_t sample, double fraction) const;
  std::span<const std::byte> memory() const noexcept { return {static_cast<const std::byte*>(base_), bytes_}; }
  std::size_t records() const noexcept { return records_; }

 private:
  struct Record;
  struct FlatRecord;
  Layout layout_;
  std::size_t records_, samples_;
  void* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> arena_;
  std::vector<std::shared_ptr<const Record>> objects_;  ///< layout objects
  const FlatRecord* flat_ = nullptr;                    ///< layout flat
};

}  // namespace misfire::dataloader
