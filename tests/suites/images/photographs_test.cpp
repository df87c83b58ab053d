// Goal: the image set is made once, whole or not at all, says where it came from, and never replaces what is not its own.
// Method: small sets in a temporary directory; two processes at once; leftovers of an interrupted one; a foreign directory.
#include "suites/dataloader/photographs.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/files.hpp"
#include "suites/dataloader/jpeg.hpp"
#include "tests/check.hpp"

using namespace misfire;
using namespace misfire::dataloader;
namespace fs = std::filesystem;

namespace {

const PhotographSpec tiny{.small = 3, .medium = 2, .large = 1, .origin = "synthetic"};

JpegHeader header_of(const std::string& path) {
  const std::string content = read_whole_file(path);
  JpegDecoder decoder;
  JpegHeader header;
  CHECK(decoder.read_header({reinterpret_cast<const std::uint8_t*>(content.data()), content.size()}, header));
  return header;
}

TEST("a set has its images, their sizes, and a manifest that names its origin") {
  const TemporaryDirectory place;
  double last = 0;
  int calls = 0;
  const DataSet set = prepare_photographs(place.path() + "/a/set", tiny, Seed(1), [&](std::string_view, double share) {
    CHECK(share > last && share <= 1);
    last = share;
    ++calls;
  });
  CHECK_EQ(calls, 6);
  CHECK_EQ(last, 1.0);
  CHECK_EQ(set.origin, "synthetic");
  CHECK(!set.reused);
  CHECK_EQ(set.small.size(), 3u);
  CHECK_EQ(set.medium.size(), 2u);
  CHECK_EQ(set.large.size(), 1u);
  for (const auto& path : set.small) CHECK_EQ(header_of(path).width * 1000 + header_of(path).height, 500375);
  CHECK_EQ(header_of(set.medium[1]).width, 1024);
  CHECK_EQ(header_of(set.large[0]).height, 2000);
  CHECK_EQ(set.manifest.at("images").as_array().size(), 6u);
  std::uint64_t bytes = 0;
  for (const auto* paths : {&set.small, &set.medium, &set.large}) {
    for (const auto& path : *paths) bytes += fs::file_size(path);
  }
  CHECK_EQ(bytes, set.bytes);
  CHECK(!fs::exists(set.directory + ".partial"));
}

TEST("a set that fits is used again; another seed or count makes another; the same seed makes the same") {
  const TemporaryDirectory place;
  const std::string path = place.path() + "/set";
  const DataSet first = prepare_photographs(path, tiny, Seed(1));
  const DataSet second = prepare_photographs(path, tiny, Seed(1));
  CHECK(second.reused);
  CHECK(second.small == first.small);
  CHECK(second.manifest == first.manifest);
  PhotographSpec more = tiny;
  more.small = 4;
  CHECK(!prepare_photographs(path, more, Seed(1)).reused);
  CHECK(!fs::exists(path + ".old"));
  const DataSet other = prepare_photographs(path, tiny, Seed(2));
  CHECK(!other.reused);
  CHECK(!(other.manifest == first.manifest));
  const DataSet again = prepare_photographs(path, tiny, Seed(1));
  CHECK(!again.reused);
  CHECK(again.manifest == first.manifest);
}

TEST("a damaged set is made anew") {
  const TemporaryDirectory place;
  const std::string path = place.path() + "/set";
  const DataSet first = prepare_photographs(path, tiny, Seed(1));
  fs::resize_file(first.small[1], 10);
  CHECK(!prepare_photographs(path, tiny, Seed(1)).reused);
  fs::remove(first.large[0]);
  CHECK(!prepare_photographs(path, tiny, Seed(1)).reused);
  std::ofstream(path + "/manifest.json") << "{";
  CHECK(!prepare_photographs(path, tiny, Seed(1)).reused);
  CHECK(prepare_photographs(path, tiny, Seed(1)).reused);
}

TEST("processes that ask at once get one set") {
  const TemporaryDirectory place;
  const std::string path = place.path() + "/set";
  int made = 0;
  pid_t children[4];
  for (pid_t& child : children) {
    child = ::fork();
    if (child == 0) {
      try {
        const DataSet set = prepare_photographs(path, tiny, Seed(1));
        ::_exit(set.small.size() != 3 ? 9 : set.reused ? 1 : 0);
      } catch (...) {
        ::_exit(8);
      }
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    made += WEXITSTATUS(status) == 0;
  }
  CHECK_EQ(made, 1);
}

TEST("what an ended process left is cleared away; what is not ours is left alone") {
  const TemporaryDirectory place;
  const std::string path = place.path() + "/set";
  fs::create_directories(path + ".partial/small");
  std::ofstream(path + ".partial/small/x.jpg") << "x";
  CHECK(!prepare_photographs(path, tiny, Seed(1)).reused);
  CHECK(!fs::exists(path + ".partial"));
  const std::string foreign = place.path() + "/thesis";
  fs::create_directories(foreign);
  std::ofstream(foreign + "/chapter1.tex") << "x";
  CHECK_THROWS(prepare_photographs(foreign, tiny, Seed(1)), "holds something else");
  CHECK(fs::exists(foreign + "/chapter1.tex"));
}

TEST("without photographs, auto makes synthetic images and photographs refuses") {
  const TemporaryDirectory place;
  PhotographSpec spec = tiny;
  spec.photographs = place.path() + "/none";
  spec.origin = "auto";
  CHECK_EQ(prepare_photographs(place.path() + "/set", spec, Seed(1)).origin, "synthetic");
  spec.origin = "photographs";
  CHECK_THROWS(prepare_photographs(place.path() + "/set", spec, Seed(1)), "install lomiri-wallpapers");
  spec.origin = "cats";
  CHECK_THROWS(prepare_photographs(place.path() + "/set", spec, Seed(1)), "none of auto");
  CHECK_THROWS(prepare_photographs(place.path() + "/set", {.small = 0, .medium = 0, .large = 0}, Seed(1)), "at least one");
}

TEST("photographs are cut from what the packages ship") {
  if (!fs::exists("/usr/share/backgrounds/mate/nature")) SKIP("mate-backgrounds is not installed");
  const TemporaryDirectory place;
  const DataSet set = prepare_photographs(place.path() + "/set", {.small = 6, .medium = 2, .large = 1}, Seed(1));
  CHECK_EQ(set.origin, "photographs");
  CHECK(set.manifest.at("sources").as_array().size() >= 5);
  CHECK(set.manifest.at("images").as_array()[0].at("source").as_string().starts_with("/usr/share/backgrounds/"));
  for (const auto& path : set.small) CHECK_EQ(header_of(path).width, 500);
}

TEST("synthetic images are as large as photographs, within ten per cent") {
  if (!fs::exists("/usr/share/backgrounds/mate/nature")) SKIP("mate-backgrounds is not installed");
  const TemporaryDirectory place;
  PhotographSpec spec{.small = 60, .medium = 40, .large = 4};
  const auto mean = [](const std::vector<std::string>& paths) {
    double sum = 0;
    for (const auto& path : paths) sum += static_cast<double>(fs::file_size(path));
    return sum / static_cast<double>(paths.size());
  };
  const DataSet real = prepare_photographs(place.path() + "/real", spec, Seed(1));
  spec.origin = "synthetic";
  const DataSet made = prepare_photographs(place.path() + "/made", spec, Seed(1));
  CHECK_NEAR(mean(made.small) / mean(real.small), 1.0, 0.1);
  CHECK_NEAR(mean(made.medium) / mean(real.medium), 1.0, 0.1);
  CHECK_NEAR(mean(made.large) / mean(real.large), 1.0, 0.1);
}

}  // namespace
