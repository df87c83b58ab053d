#include "suites/dataloader/segment.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "harness/containment.hpp"
#include "harness/error.hpp"
#include "tests/check.hpp"

namespace misfire::dataloader {
namespace {

bool exists(const std::string& path) { return std::filesystem::exists(path); }

TEST("a descriptor's memory is shared and has no name") {
  Segment ours = Segment::create(8192, Segment::Sharing::descriptor, false);
  CHECK(ours.name().empty());
  ours.bytes()[5] = 42;
  Segment theirs = Segment::map(dup(ours.descriptor()), 8192);
  CHECK_EQ(theirs.bytes()[5], 42);
  theirs.bytes()[8191] = 7;
  CHECK_EQ(ours.bytes()[8191], 7);
  ours.close_descriptor();
  CHECK_EQ(ours.descriptor(), -1);
  CHECK_EQ(ours.bytes()[8191], 7);
}

TEST("a named file is opened by its name and stays until it is unlinked") {
  std::string name;
  {
    Segment ours = Segment::create(4096, Segment::Sharing::name, false);
    name = ours.name();
    CHECK(exists(name));
    ours.bytes()[0] = 9;
  }
  CHECK(exists(name));
  Segment theirs = Segment::open(name, 4096);
  CHECK_EQ(theirs.bytes()[0], 9);
  theirs.unlink();
  CHECK(!exists(name));
  CHECK_EQ(theirs.bytes()[0], 9);
  CHECK_THROWS(Segment::open(name, 4096), name);
}

TEST("a moved segment is mapped once") {
  Segment first = Segment::create(4096, Segment::Sharing::descriptor, false);
  first.bytes()[0] = 1;
  Segment second = std::move(first);
  CHECK_EQ(second.bytes()[0], 1);
  Segment third;
  third = std::move(second);
  CHECK_EQ(third.bytes()[0], 1);
}

TEST("reserving takes the pages and says when there are none; giving a length takes nothing") {
  const int code = run_contained([](const Contained& contained) {
    if (!contained.private_shm || mount("small", "/dev/shm", "tmpfs", 0, "size=1M") != 0) return 77;
    try {
      const Segment lazy = Segment::create(4 << 20, Segment::Sharing::descriptor, false);
      if (shared_memory_used() > 0.01) return 1;
      const Segment half = Segment::create(512 << 10, Segment::Sharing::name, true);
      if (shared_memory_used() < 0.49 || shared_memory_used() > 0.51) return 2;
      try {
        Segment::create(768 << 10, Segment::Sharing::name, true);
        return 3;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::no_space || std::string(error.what()).find("768") == std::string::npos) return 4;
      }
      // The refused one left no file and no pages.
      if (shared_memory_used() > 0.51) return 5;
      const auto files = std::distance(std::filesystem::directory_iterator("/dev/shm"), std::filesystem::directory_iterator());
      return files == 1 ? 0 : 6;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 7;
    }
  });
  if (code == 77) SKIP("no mount namespaces here");
  CHECK_EQ(code, 0);
}

}  // namespace
}  // namespace misfire::dataloader
