// Layout of the shared mapping: one header, then per lane its control block, then per lane its ring.

#include "harness/recorder.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <string>

#include "harness/error.hpp"

namespace misfire {
namespace {

constexpr std::uint64_t magic = 0x31'63'65'72'66'73'69'6dULL;  // "misfrec1"
constexpr std::size_t page = 4096;

struct MappingHeader {
  std::atomic<std::uint64_t> magic;
  std::uint32_t lanes;
  std::uint32_t events_per_lane;
  std::atomic<std::uint32_t> claimed;
  std::atomic<std::uint64_t> refused;
};

constexpr std::size_t align_page(std::size_t bytes) { return (bytes + page - 1) / page * page; }
constexpr std::size_t headers_bytes(std::uint32_t lanes) { return align_page(page + lanes * sizeof(LaneHeader)); }

MappingHeader& mapping_header(std::byte* base) { return *reinterpret_cast<MappingHeader*>(base); }

}  // namespace

std::size_t Recorder::mapping_bytes(Shape shape) noexcept {
  return headers_bytes(shape.lanes) +
         static_cast<std::size_t>(shape.lanes) * align_page(shape.events_per_lane * sizeof(RawEvent));
}

Recorder Recorder::create(std::span<std::byte> memory, Shape shape) {
  if (shape.lanes == 0 || !std::has_single_bit(shape.events_per_lane))
    throw Error(ErrorCode::invalid_input, "recorder: needs at least one lane, and a power of two of events in each, not " +
                                              std::to_string(shape.events_per_lane));
  if (memory.size() < mapping_bytes(shape))
    throw Error(ErrorCode::invalid_input, "recorder: " + std::to_string(memory.size()) + " bytes of memory, " +
                                              std::to_string(mapping_bytes(shape)) + " are needed");
  auto* header = new (memory.data()) MappingHeader{};
  header->lanes = shape.lanes;
  header->events_per_lane = shape.events_per_lane;
  for (std::uint32_t i = 0; i < shape.lanes; ++i) new (memory.data() + page + i * sizeof(LaneHeader)) LaneHeader{};
  header->magic.store(magic, std::memory_order_release);
  return attach(memory);
}

Recorder Recorder::attach(std::span<std::byte> memory) {
  if (memory.size() < page || mapping_header(memory.data()).magic.load(std::memory_order_acquire) != magic)
    throw Error(ErrorCode::invalid_input, "recorder: this memory holds no recorder of this version");
  const MappingHeader& header = mapping_header(memory.data());
  if (memory.size() < mapping_bytes({header.lanes, header.events_per_lane}))
    throw Error(ErrorCode::invalid_input, "recorder: the mapping is shorter than its header says");
  Recorder recorder;
  recorder.base_ = memory.data();
  return recorder;
}

LaneHeader* Recorder::header(std::uint32_t index) const noexcept {
  return reinterpret_cast<LaneHeader*>(base_ + page + index * sizeof(LaneHeader));
}

RawEvent* Recorder::ring(std::uint32_t index) const noexcept {
  const MappingHeader& mapping = mapping_header(base_);
  return reinterpret_cast<RawEvent*>(base_ + headers_bytes(mapping.lanes) +
                                     static_cast<std::size_t>(index) * align_page(mapping.events_per_lane * sizeof(RawEvent)));
}

Lane Recorder::claim_lane() noexcept {
  if (!base_) return {};
  MappingHeader& mapping = mapping_header(base_);
  const std::uint32_t index = mapping.claimed.fetch_add(1, std::memory_order_relaxed);
  if (index >= mapping.lanes) {
    mapping.claimed.store(mapping.lanes, std::memory_order_relaxed);
    mapping.refused.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  LaneHeader* lane = header(index);
  RawEvent* events = ring(index);
  std::memset(static_cast<void*>(events), 0, mapping.events_per_lane * sizeof(RawEvent));  // no page fault while recording
  lane->tid.store(static_cast<std::int32_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
  lane->pid.store(static_cast<std::int32_t>(getpid()), std::memory_order_release);
  return Lane(lane, events, mapping.events_per_lane - 1);
}

std::uint64_t Recorder::lanes_refused() const noexcept {
  return base_ ? mapping_header(base_).refused.load(std::memory_order_relaxed) : 0;
}

std::uint32_t Recorder::lanes() const noexcept { return base_ ? mapping_header(base_).lanes : 0; }

Recorder::LaneInfo Recorder::lane(std::uint32_t index) const noexcept {
  const LaneHeader* lane = header(index);
  return {lane->pid.load(std::memory_order_acquire), lane->tid.load(std::memory_order_relaxed),
          lane->head.load(std::memory_order_acquire), lane->dropped.load(std::memory_order_relaxed)};
}

std::uint64_t Recorder::peek(std::uint32_t index, std::span<const RawEvent>& first,
                             std::span<const RawEvent>& second) const noexcept {
  const MappingHeader& mapping = mapping_header(base_);
  LaneHeader* lane = header(index);
  const std::uint64_t size = mapping.events_per_lane;
  const std::uint64_t tail = lane->tail.load(std::memory_order_relaxed);
  const std::uint64_t count = lane->head.load(std::memory_order_acquire) - tail;
  if (count == 0 || count > size) return 0;
  const RawEvent* events = ring(index);
  const std::uint64_t begin = tail & (size - 1);
  const std::uint64_t to_end = std::min(count, size - begin);
  first = {events + begin, to_end};
  second = {events, count - to_end};
  return count;
}

void Recorder::release(std::uint32_t index, std::uint64_t count) noexcept {
  LaneHeader* lane = header(index);
  lane->tail.store(lane->tail.load(std::memory_order_relaxed) + count, std::memory_order_release);
}

}  // namespace misfire
