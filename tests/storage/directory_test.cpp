// Goal: a directory is listed whole and in a stable order, and what cannot be read is named when it is read.
// Method: files made in a temporary directory, then changed under the source.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "storage/sample_source.hpp"
#include "tests/check.hpp"

using namespace misfire;
namespace fs = std::filesystem;

namespace {

void write(const std::string& path, const std::string& content) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << content;
}

TEST("images are found at any depth, in any case, sorted by path; other files are not") {
  const TemporaryDirectory place;
  for (const char* name : {"b.JPG", "a.jpg", "c/d/e.JpEg", "c/a.jpeg", "readme.txt", "x.png", "jpg", "y.jpg.bak"})
    write(place.path() + "/" + name, name);
  const auto source = open_samples("directory", place.path());
  std::string names;
  for (std::size_t i = 0; i < source->size(); ++i) names += source->name(i).substr(place.path().size()) + " ";
  CHECK_EQ(names, "/a.jpg /b.JPG /c/a.jpeg /c/d/e.JpEg ");
  std::vector<std::uint8_t> buffer;
  const auto bytes = source->read(3, buffer);
  CHECK_EQ(std::string(bytes.begin(), bytes.end()), "c/d/e.JpEg");
}

TEST("an empty file is a sample of no bytes; after a longer one too") {
  const TemporaryDirectory place;
  write(place.path() + "/a.jpg", std::string(5000, 'x'));
  write(place.path() + "/b.jpg", "");
  const auto source = open_samples("directory", place.path());
  std::vector<std::uint8_t> buffer;
  CHECK_EQ(source->read(0, buffer).size(), 5000u);
  CHECK_EQ(source->read(1, buffer).size(), 0u);
}

TEST("a file that vanished, or a link to nowhere, is named when it is read") {
  const TemporaryDirectory place;
  write(place.path() + "/a.jpg", "x");
  fs::create_symlink("nowhere", place.path() + "/b.jpg");
  const auto source = open_samples("directory", place.path());
  CHECK_EQ(source->size(), 2u);
  fs::remove(place.path() + "/a.jpg");
  std::vector<std::uint8_t> buffer;
  CHECK_THROWS(source->read(0, buffer), place.path() + "/a.jpg");
  CHECK_THROWS(source->read(1, buffer), place.path() + "/b.jpg");
}

TEST("directories without images, and files, are refused by name") {
  const TemporaryDirectory place;
  CHECK_THROWS(open_samples("directory", place.path()), "no *.jpg or *.jpeg");
  write(place.path() + "/a.jpg", "x");
  CHECK_THROWS(open_samples("directory", place.path() + "/a.jpg"), "not a directory");
  fs::create_directories(place.path() + "/c.jpg");  // a directory called like an image
  CHECK_EQ(open_samples("directory", place.path())->size(), 1u);
}

TEST("a directory that may not be entered is named") {
  const TemporaryDirectory place;
  write(place.path() + "/a.jpg", "x");
  write(place.path() + "/closed/b.jpg", "x");
  fs::permissions(place.path() + "/closed", fs::perms::none);
  if (::access((place.path() + "/closed").c_str(), R_OK) == 0) {
    fs::permissions(place.path() + "/closed", fs::perms::owner_all);
    SKIP("root enters every directory");
  }
  CHECK_THROWS(open_samples("directory", place.path()), "closed");
  fs::permissions(place.path() + "/closed", fs::perms::owner_all);
}

}  // namespace
