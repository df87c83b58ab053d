#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "harness/clock.hpp"
#include "harness/unit.hpp"

namespace misfire {

/// A place in the code that records events: a static id, so that no string is written on the hot path. Each scenario declares
/// its sites once as constants and lists them in its description; ids are unique in one scenario and below 1 << 14.
struct Site {
  std::uint16_t id;
  std::string_view name;
  Unit unit = Unit::none;
  std::string_view help = {};
};

/// What an event says.
enum class EventKind : std::uint8_t {
  mark = 0,    ///< something happened now (stamped)
  begin = 1,   ///< a span starts now (stamped)
  end = 2,     ///< a span ends now (stamped)
  sample = 3,  ///< a value, not stamped: it belongs to the stamped events around it in its lane
};

/// One event as it lies in the ring, 16 bytes.
struct RawEvent {
  std::uint64_t word;       ///< raw_ticks() if stamped, else the bits of a double
  std::uint16_t site_kind;  ///< site id << 2 | kind
  std::uint16_t reserved;
  std::uint32_t tag;  ///< what it is about (batch or sample number); free for the site to define
};
static_assert(sizeof(RawEvent) == 16);

/// Control block of one lane in the shared mapping. Producer and consumer words lie on their own cache lines.
struct LaneHeader {
  alignas(64) std::atomic<std::uint64_t> head;  ///< events written, by the producer
  std::atomic<std::uint64_t> dropped;           ///< events refused because the ring was full
  alignas(64) std::atomic<std::uint64_t> tail;  ///< events consumed, by the drain
  alignas(64) std::atomic<std::int32_t> pid;    ///< process that claimed the lane, 0 while free
  std::atomic<std::int32_t> tid;
};

/// A thread's own ring: single producer, never blocks, counts what it drops. Obtain one with Recorder::claim_lane().
///
/// A default-constructed Lane swallows everything (recording off). After fork a child must claim its own lane. It cannot be
/// copied: two copies would write over each other.
class Lane {
 public:
  Lane() = default;
  Lane(Lane&& other) noexcept { *this = std::move(other); }
  Lane& operator=(Lane&& other) noexcept {
    header_ = std::exchange(other.header_, nullptr);
    ring_ = other.ring_;
    mask_ = other.mask_;
    head_ = other.head_;
    limit_ = other.limit_;
    return *this;
  }
  void mark(const Site& site, std::uint32_t tag = 0) noexcept { stamp(site, EventKind::mark, tag); }
  void begin(const Site& site, std::uint32_t tag = 0) noexcept { stamp(site, EventKind::begin, tag); }
  void end(const Site& site, std::uint32_t tag = 0) noexcept { stamp(site, EventKind::end, tag); }
  void sample(const Site& site, double value, std::uint32_t tag = 0) noexcept {
    push({std::bit_cast<std::uint64_t>(value), word(site, EventKind::sample), 0, tag});
  }
  explicit operator bool() const noexcept { return header_ != nullptr; }

 private:
  friend class Recorder;
  Lane(LaneHeader* header, RawEvent* ring, std::uint64_t mask) : header_(header), ring_(ring), mask_(mask), limit_(mask + 1) {}
  static std::uint16_t word(const Site& site, EventKind kind) noexcept {
    return static_cast<std::uint16_t>(site.id << 2 | static_cast<std::uint16_t>(kind));
  }
  void stamp(const Site& site, EventKind kind, std::uint32_t tag) noexcept {
    if (header_) push({raw_ticks(), word(site, kind), 0, tag});
  }
  void push(const RawEvent& event) noexcept {
    if (!header_) return;
    if (head_ == limit_ && !make_room()) return;
    ring_[head_ & mask_] = event;
    header_->head.store(++head_, std::memory_order_release);
  }
  /// Looks how far the drain has come. @return false, with the event counted as dropped, when the ring is full
  [[gnu::noinline, gnu::cold]] bool make_room() noexcept {
    limit_ = header_->tail.load(std::memory_order_acquire) + mask_ + 1;
    if (head_ != limit_) return true;
    header_->dropped.store(header_->dropped.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return false;
  }

  LaneHeader* header_ = nullptr;
  RawEvent* ring_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint64_t head_ = 0;
  std::uint64_t limit_ = 0;  ///< the head at which the ring was full when the tail was last read
};

/// The rings of one trial in one shared mapping. The mapping belongs to the witness process, so what was recorded
/// survives the death of every process that recorded it.
class Recorder {
 public:
  struct Shape {
    std::uint32_t lanes = 256;                 ///< pages of a lane are touched when it is claimed
    std::uint32_t events_per_lane = 1U << 14;  ///< a power of two
  };
  struct LaneInfo {
    std::int32_t pid = 0;
    std::int32_t tid = 0;
    std::uint64_t written = 0;
    std::uint64_t dropped = 0;
  };

  static std::size_t mapping_bytes(Shape shape) noexcept;
  /// Lays out a fresh recorder in zeroed shared memory (at least mapping_bytes(shape)), or attaches to one laid out already.
  /// @throws Error{invalid_input} if the memory holds another layout or version
  static Recorder create(std::span<std::byte> memory, Shape shape);
  static Recorder attach(std::span<std::byte> memory);
  Recorder() = default;

  /// Claims a free lane for the calling thread and touches its pages. When none is left the Lane swallows, and lanes_refused()
  /// counts it.
  Lane claim_lane() noexcept;
  std::uint64_t lanes_refused() const noexcept;
  std::uint32_t lanes() const noexcept;
  LaneInfo lane(std::uint32_t index) const noexcept;

  /// Consumer side (one drain at a time): hands over what is new in a lane, in order, as at most two spans, then frees it.
  /// @return events handed over
  template <class Consume>
  std::uint64_t drain(std::uint32_t index, Consume&& consume) {
    std::span<const RawEvent> first, second;
    const std::uint64_t count = peek(index, first, second);
    if (count == 0) return 0;
    consume(first);
    if (!second.empty()) consume(second);
    release(index, count);
    return count;
  }

 private:
  std::uint64_t peek(std::uint32_t index, std::span<const RawEvent>& first, std::span<const RawEvent>& second) const noexcept;
  void release(std::uint32_t index, std::uint64_t count) noexcept;
  LaneHeader* header(std::uint32_t index) const noexcept;
  RawEvent* ring(std::uint32_t index) const noexcept;

  std::byte* base_ = nullptr;
};

}  // namespace misfire
