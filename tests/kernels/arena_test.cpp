// Goal: an arena never gives memory out twice, gets all of it back, and says what it lacks.
// Method: random allocations and returns, checked for overlap; the arena never touches the memory, so any address serves.
#include "kernels/arena.hpp"

#include <vector>

#include "harness/seed.hpp"
#include "tests/check.hpp"

using namespace misfire;

namespace {

std::byte* const somewhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);

TEST("parts do not overlap, are aligned, and come back whole") {
  const auto arena = Arena::make("device 'test'", somewhere, 1 << 20, [](std::byte*) {});
  Stream stream = Seed(1).stream("arena");
  std::vector<DeviceMemory> held;
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    if (stream.below(100) < 55) {
      try {
        held.push_back(arena->allocate(stream.below(40000)));
        const auto at = reinterpret_cast<std::uintptr_t>(held.back().data());
        CHECK_EQ(at % Arena::alignment, 0u);
        CHECK(held.back().data() >= somewhere && held.back().data() + held.back().size() <= somewhere + (1 << 20));
        for (std::size_t k = 0; k + 1 < held.size(); ++k) {
          CHECK(held[k].data() + held[k].size() <= held.back().data() ||
                held.back().data() + held.back().size() <= held[k].data());
        }
      } catch (const std::exception&) {
        ++refused;
      }
    } else if (!held.empty()) {
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(stream.below(held.size())));
    }
  }
  CHECK(refused > 0);
  held.clear();
  CHECK_EQ(arena->used(), 0u);
  CHECK_EQ(arena->allocate(1 << 20).size(), 1u << 20);  // the free parts were joined again
}

TEST("what does not fit is refused with what was asked, what is used and what is free") {
  const auto arena = Arena::make("device 'test'", somewhere, 1 << 20, [](std::byte*) {});
  const DeviceMemory a = arena->allocate(512 << 10);
  CHECK_THROWS(arena->allocate(768 << 10),
               "device 'test': out of memory: 768 KiB asked, 512 KiB of 1 MiB in use, largest free part 512 KiB");
  CHECK_THROWS(arena->allocate(~0ULL), "out of memory");
  CHECK_EQ(arena->used(), 512u << 10);
  const DeviceMemory b = arena->allocate(512 << 10);
  CHECK_THROWS(arena->allocate(0), "largest free part 0 B");
}

TEST("the memory outlives the arena's owner as long as a part is held") {
  bool released = false;
  DeviceMemory part;
  {
    const auto arena = Arena::make("device 'test'", somewhere, 1 << 20, [&](std::byte* at) { released = at == somewhere; });
    part = arena->allocate(10);
  }
  CHECK(!released);
  part = {};
  CHECK(released);
}

}  // namespace
