// Goal: every source of the catalogue gives the same samples for the same images, and reads from threads and forked processes.
// Method: one set of files as a directory and as shards; each source opened by name; contents compared.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "harness/files.hpp"
#include "storage/sample_source.hpp"
#include "tests/check.hpp"
#include "tests/storage/tar.hpp"

using namespace misfire;

namespace {

std::string content(int i) {
  return std::string(static_cast<std::size_t>(100 + i * 37 % 2000), static_cast<char>('a' + i % 26)) + std::to_string(i);
}

struct Place {
  TemporaryDirectory directory;
  std::string files = directory.path() + "/files", shards = directory.path() + "/shards";
  Place() {
    std::filesystem::create_directories(files + "/b");
    std::filesystem::create_directories(shards);
    test::Tar tars[3];
    for (int i = 0; i < 30; ++i) {
      const std::string name = (i % 2 ? "b/" : "") + std::to_string(100 + i) + ".jpg";
      std::ofstream(files + "/" + name) << content(i);
      tars[i % 3].file(name, content(i));
    }
    for (int s = 0; s < 3; ++s) std::ofstream(shards + "/" + std::to_string(s) + ".tar") << tars[s].end().bytes;
  }
};

std::map<std::string, std::string> read_all(const SampleSource& source) {
  std::map<std::string, std::string> found;
  std::vector<std::uint8_t> buffer;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const auto bytes = source.read(i, buffer);
    CHECK_EQ(bytes.size(), source.locality(i).size);
    CHECK(source.locality(i).shard < source.shards());
    found[std::filesystem::path(source.name(i)).filename().string()] = std::string(bytes.begin(), bytes.end());
  }
  return found;
}

TEST("every source of the catalogue gives the same samples") {
  const Place place;
  CHECK_EQ(sample_source_names().size(), 3u);
  for (const std::string_view name : sample_source_names()) {
    const auto source = open_samples(name, name == "tar_shards" ? place.shards : place.files);
    CHECK_EQ(source->size(), 30u);
    const auto found = read_all(*source);
    CHECK_EQ(found.size(), 30u);
    for (int i = 0; i < 30; ++i) CHECK_EQ(found.at(std::to_string(100 + i) + ".jpg"), content(i));
  }
}

TEST("the kind of a source is found from its path") {
  const Place place;
  CHECK_EQ(open_samples("", place.files)->shards(), 1u);
  CHECK_EQ(open_samples("", place.shards)->shards(), 3u);
  CHECK_EQ(open_samples("", place.shards + "/1.tar")->size(), 10u);
  CHECK_EQ(open_samples("memory", place.shards)->shards(), 3u);
}

TEST("threads and forked processes read at once") {
  const Place place;
  for (const std::string_view name : sample_source_names()) {
    const auto source = open_samples(name, name == "tar_shards" ? place.shards : place.files);
    const auto expected = read_all(*source);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(read_all(*source) == expected ? 0 : 1);
    bool same[2] = {};
    std::thread threads[2];
    for (int t = 0; t < 2; ++t) {
      threads[t] = std::thread([&, t] {
        std::vector<std::uint8_t> buffer;
        same[t] = true;
        for (std::size_t i = 0; i < 30; ++i) {
          const auto bytes = source->read(i, buffer);
          same[t] = same[t] && expected.at(std::filesystem::path(source->name(i)).filename().string()) ==
                                   std::string(bytes.begin(), bytes.end());
        }
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(same[0] && same[1]);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

TEST("unknown names and paths that are not there are named") {
  CHECK_THROWS(open_samples("directry", "/tmp"), "did you mean 'directory'");
  for (const std::string_view name : {"", "directory", "tar_shards", "memory"})
    CHECK_THROWS(open_samples(name, "/nonexistent/data"), "/nonexistent/data");
}

}  // namespace
