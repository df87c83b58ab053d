#include "harness/recorder.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/check.hpp"

namespace misfire {
namespace {

constexpr Site site_a{7, "a"};
constexpr Site site_last{(1 << 14) - 1, "last"};

/// Shared memory as the witness has it: zeroed, inherited by forked children.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes)
      : bytes_(bytes), memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { munmap(memory_, bytes_); }
  std::span<std::byte> span() const { return {static_cast<std::byte*>(memory_), bytes_}; }

 private:
  std::size_t bytes_;
  void* memory_;
};

std::vector<RawEvent> drain(Recorder& recorder, std::uint32_t lane) {
  std::vector<RawEvent> events;
  recorder.drain(lane, [&](std::span<const RawEvent> some) { events.insert(events.end(), some.begin(), some.end()); });
  return events;
}

TEST("an event holds its site kind tag and word") {
  const SharedMemory memory(Recorder::mapping_bytes({2, 8}));
  Recorder recorder = Recorder::create(memory.span(), {2, 8});
  Lane lane = recorder.claim_lane();
  const std::uint64_t before = raw_ticks();
  lane.mark(site_a, 1);
  lane.begin(site_a, 2);
  lane.end(site_a, 3);
  lane.sample(site_last, -2.5, 0xffffffffU);
  const std::uint64_t after = raw_ticks();
  const auto events = drain(recorder, 0);
  CHECK_EQ(events.size(), 4U);
  if (events.size() != 4) return;
  for (unsigned i = 0; i < 3; ++i) {
    CHECK_EQ(events[i].site_kind, 7U << 2 | i);
    CHECK_EQ(events[i].tag, i + 1);
    CHECK(events[i].word >= before && events[i].word <= after);
    if (i > 0) CHECK(events[i].word >= events[i - 1].word);
  }
  CHECK_EQ(events[3].site_kind >> 2, site_last.id);
  CHECK_EQ(events[3].site_kind & 3, 3);
  CHECK_EQ(std::bit_cast<double>(events[3].word), -2.5);
  CHECK_EQ(events[3].tag, 0xffffffffU);
  CHECK_EQ(recorder.lane(0).pid, getpid());
  CHECK_EQ(recorder.lane(1).pid, 0);
  CHECK(drain(recorder, 0).empty());
}

TEST("a full ring counts what it drops and keeps what it has") {
  const SharedMemory memory(Recorder::mapping_bytes({1, 16}));
  Recorder recorder = Recorder::create(memory.span(), {1, 16});
  Lane lane = recorder.claim_lane();
  for (std::uint32_t i = 0; i < 16; ++i) lane.mark(site_a, i);
  CHECK_EQ(recorder.lane(0).dropped, 0U);
  for (std::uint32_t i = 16; i < 21; ++i) lane.mark(site_a, i);
  CHECK_EQ(recorder.lane(0).dropped, 5U);
  CHECK_EQ(recorder.lane(0).written, 16U);
  const auto events = drain(recorder, 0);
  CHECK_EQ(events.size(), 16U);
  for (std::uint32_t i = 0; i < events.size(); ++i) CHECK_EQ(events[i].tag, i);
  lane.mark(site_a, 99);  // there is room again
  const auto more = drain(recorder, 0);
  CHECK_EQ(more.size(), 1U);
  CHECK_EQ(more.front().tag, 99U);
  CHECK_EQ(recorder.lane(0).dropped, 5U);
}

TEST("events come in order over the end of the ring") {
  const SharedMemory memory(Recorder::mapping_bytes({1, 8}));
  Recorder recorder = Recorder::create(memory.span(), {1, 8});
  Lane lane = recorder.claim_lane();
  std::uint32_t written = 0, read = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 1 + round % 8; ++i) lane.sample(site_a, written, written), ++written;
    int spans = 0;
    recorder.drain(0, [&](std::span<const RawEvent> some) {
      ++spans;
      for (const RawEvent& event : some) CHECK_EQ(event.tag, read++);
    });
    CHECK(spans <= 2);
  }
  CHECK_EQ(read, written);
  CHECK_EQ(recorder.lane(0).dropped, 0U);
}

TEST("what was recorded survives the recorder") {
  const SharedMemory memory(Recorder::mapping_bytes({4, 1024}));
  Recorder recorder = Recorder::create(memory.span(), {4, 1024});
  const pid_t child = fork();
  if (child == 0) {
    Lane lane = recorder.claim_lane();
    for (std::uint32_t i = 0; i < 777; ++i) lane.mark(site_a, i);
    kill(getpid(), SIGKILL);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  CHECK_EQ(recorder.lane(0).pid, child);
  CHECK_EQ(recorder.lane(0).written, 777U);
  const auto events = drain(recorder, 0);
  CHECK_EQ(events.size(), 777U);
  for (std::uint32_t i = 0; i < events.size(); ++i) CHECK_EQ(events[i].tag, i);
}

TEST("wrong memory is refused") {
  const std::size_t bytes = Recorder::mapping_bytes({2, 8});
  const SharedMemory memory(bytes);
  CHECK_THROWS(Recorder::attach(memory.span()), "no recorder of this version");
  CHECK_THROWS(Recorder::attach(memory.span().first(16)), "no recorder of this version");
  CHECK_THROWS(Recorder::create(memory.span().first(bytes - 1), {2, 8}), "are needed");
  CHECK_THROWS(Recorder::create(memory.span(), {2, 7}), "a power of two");
  CHECK_THROWS(Recorder::create(memory.span(), {2, 0}), "a power of two");
  CHECK_THROWS(Recorder::create(memory.span(), {0, 8}), "at least one lane");
  Recorder::create(memory.span(), {2, 8});
  CHECK_EQ(Recorder::attach(memory.span()).lanes(), 2U);
  CHECK_THROWS(Recorder::attach(memory.span().first(bytes - 1)), "shorter than its header says");
  memory.span()[0] ^= std::byte{1};  // another version's mark
  CHECK_THROWS(Recorder::attach(memory.span()), "no recorder of this version");
}

TEST("without a free lane events are swallowed and the refusal is counted") {
  const SharedMemory memory(Recorder::mapping_bytes({2, 8}));
  Recorder recorder = Recorder::create(memory.span(), {2, 8});
  Lane first = recorder.claim_lane(), second = recorder.claim_lane();
  CHECK(first && second);
  CHECK_EQ(recorder.lanes_refused(), 0U);
  Lane third = recorder.claim_lane();
  CHECK(!third);
  third.mark(site_a);
  third.sample(site_a, 1);
  CHECK_EQ(recorder.lanes_refused(), 1U);
  CHECK(!recorder.claim_lane());
  CHECK_EQ(recorder.lanes_refused(), 2U);
  CHECK_EQ(recorder.lane(0).written + recorder.lane(1).written, 0U);
  Recorder none;
  CHECK(!none.claim_lane());
  CHECK_EQ(none.lanes(), 0U);
}

TEST("a moved lane leaves its place empty") {
  const SharedMemory memory(Recorder::mapping_bytes({1, 8}));
  Recorder recorder = Recorder::create(memory.span(), {1, 8});
  Lane lane = recorder.claim_lane();
  lane.mark(site_a, 1);
  Lane moved = std::move(lane);
  moved.mark(site_a, 2);
  CHECK_EQ(recorder.lane(0).written, 2U);
}

TEST("a drain beside the producer loses nothing uncounted") {
  const SharedMemory memory(Recorder::mapping_bytes({1, 256}));
  Recorder recorder = Recorder::create(memory.span(), {1, 256});
  constexpr std::uint32_t total = 200'000;
  std::atomic<bool> done{false};
  std::thread producer([&] {
    Lane lane = recorder.claim_lane();
    for (std::uint32_t i = 0; i < total; ++i) lane.sample(site_a, i, i);
    done.store(true);
  });
  std::uint64_t read = 0;
  std::int64_t last = -1;
  bool ordered = true;
  for (bool stop = false;;) {
    recorder.drain(0, [&](std::span<const RawEvent> some) {
      for (const RawEvent& event : some) {
        ordered = ordered && event.tag > last && std::bit_cast<double>(event.word) == event.tag;
        last = event.tag;
        ++read;
      }
    });
    if (stop) break;
    stop = done.load();
  }
  producer.join();
  CHECK(ordered);
  CHECK_EQ(read + recorder.lane(0).dropped, total);
  CHECK_EQ(read, recorder.lane(0).written);
}

}  // namespace
}  // namespace misfire
