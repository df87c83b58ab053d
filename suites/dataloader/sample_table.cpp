// Copy-on-write by reading: two layouts of the same records.

#include "suites/dataloader/sample_table.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <new>

#include "harness/error.hpp"

namespace misfire::dataloader {
namespace {
constexpr std::size_t guard_bytes = 65536;  // a page, whatever its size on this machine
}

/// std::allocate_shared puts a type pointer, two counters and the allocator before the record: 64 bytes in all with libstdc++.
struct SampleTable::Record {
  std::uint64_t content[5];
};
/// The same place without a counter.
struct SampleTable::FlatRecord {
  Record record;
  std::uint64_t unused[3];
};

SampleTable::SampleTable(Layout layout, std::uint64_t bytes, std::size_t samples)
    : layout_(layout), records_(bytes / record_bytes), samples_(std::max<std::size_t>(samples, 1)) {
  bytes_ = (bytes + guard_bytes - 1) / guard_bytes * guard_bytes;
  // Inaccessible pages on both sides keep the kernel from merging the table with a neighbour into one entry of the memory map.
  void* outer = mmap(nullptr, bytes_ + 2 * guard_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (outer == MAP_FAILED) throw system_error("reserve memory for the sample table", "", errno);
  base_ = static_cast<std::byte*>(outer) + guard_bytes;
  if (mprotect(base_, bytes_, PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    munmap(outer, bytes_ + 2 * guard_bytes);
    throw system_error("open memory for the sample table", "", error);
  }
  const auto content = [](std::size_t index) {
    Record record;
    for (std::size_t i = 0; i < 5; ++i) record.content[i] = index * 5 + i;
    return record;
  };
  if (layout == Layout::flat) {
    static_assert(sizeof(FlatRecord) == record_bytes);
    auto* records = static_cast<FlatRecord*>(base_);
    for (std::size_t i = 0; i < records_; ++i) new (records + i) FlatRecord{content(i), {}};
    flat_ = records;
    return;
  }
  // Objects that outgrow the mapping would not be watched: refuse instead of falling back to the heap.
  arena_ = std::make_unique<std::pmr::monotonic_buffer_resource>(base_, bytes_, std::pmr::null_memory_resource());
  objects_.reserve(records_);
  const std::pmr::polymorphic_allocator<Record> allocator(arena_.get());
  for (std::size_t i = 0; i < records_; ++i) objects_.push_back(std::allocate_shared<Record>(allocator, content(i)));
}

SampleTable::~SampleTable() {
  objects_.clear();
  arena_.reset();
  munmap(static_cast<std::byte*>(base_) - guard_bytes, bytes_ + 2 * guard_bytes);
}

std::uint64_t SampleTable::read(std::size_t sample, double fraction) const {
  const std::size_t per_sample = records_ / samples_;
  const std::size_t first = sample % samples_ * per_sample;
  const auto count = static_cast<std::size_t>(std::llround(fraction * static_cast<double>(per_sample)));
  std::uint64_t sum = 0;
  for (std::size_t i = first; i < first + count; ++i) {
    if (layout_ == Layout::objects) {
      const std::shared_ptr<const Record> held = objects_[i];
      for (const std::uint64_t word : held->content) sum = sum * 31 + word;
    } else {
      for (const std::uint64_t word : flat_[i].record.content) sum = sum * 31 + word;
    }
  }
  return sum;
}

}  // namespace misfire::dataloader
