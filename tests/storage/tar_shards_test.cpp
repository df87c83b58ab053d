// Goal: archives of every common form are indexed rightly; damaged and hostile ones are refused with path and offset.
// Method: archives built byte by byte, cut at every length, with bytes changed; archives of the system's tar and Python's.
#include <filesystem>
#include <fstream>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/process.hpp"
#include "harness/seed.hpp"
#include "storage/sample_source.hpp"
#include "tests/check.hpp"
#include "tests/storage/tar.hpp"

using namespace misfire;
using misfire::test::Tar;

namespace {

struct Place {
  TemporaryDirectory directory;
  std::string tar = directory.path() + "/a.tar";
  std::unique_ptr<SampleSource> open(const std::string& bytes) {
    std::ofstream(tar, std::ios::binary | std::ios::trunc) << bytes;
    return open_samples("tar_shards", tar);
  }
};

std::string text(const SampleSource& source, std::size_t i) {
  std::vector<std::uint8_t> buffer;
  const auto bytes = source.read(i, buffer);
  return std::string(bytes.begin(), bytes.end());
}

std::string pax(const std::string& key, const std::string& value) {
  std::size_t length = key.size() + value.size() + 3;
  std::size_t all = length + std::to_string(length).size();
  all = length + std::to_string(all).size();
  return std::to_string(all) + " " + key + "=" + value + "\n";
}

TEST("members are found where they lie; others than images are passed over") {
  Place place;
  Tar tar;
  tar.header("d/", 0, '5')
      .file("d/a.jpg", "first")
      .file("notes.txt", std::string(700, 'n'))
      .header("l.jpg", 0, '2')
      .file("d/b.JPEG", std::string(1000, 'b'));
  const auto source = place.open(tar.end().bytes);
  CHECK_EQ(source->size(), 2u);
  CHECK_EQ(source->name(0), place.tar + "/d/a.jpg");
  CHECK_EQ(text(*source, 0), "first");
  CHECK_EQ(text(*source, 1), std::string(1000, 'b'));
  CHECK_EQ(source->locality(0).offset, 1024u);
}

TEST("prefixes, long names, pax paths and sizes, and base-256 sizes are understood") {
  Place place;
  Tar tar;
  tar.header("p.jpg", 1, '0', [](std::string& block) { std::memcpy(block.data() + 345, "some/prefix", 11); }).data("1");
  const std::string deep = std::string(150, 'x') + "/long.jpg";
  tar.header("././@LongLink", deep.size() + 1, 'L').data(deep + '\0').header(deep.substr(0, 100), 1).data("2");
  const std::string records = pax("mtime", "1.5") + pax("path", "pax/\xc3\xa9.jpg") + pax("size", "3");
  tar.header("PaxHeader", records.size(), 'x').data(records).header("short", 0).data("333");
  tar.header("big.jpg", 0, '0',
             [](std::string& block) {
               std::memset(block.data() + 124, 0, 12);
               block[124] = static_cast<char>(0x80);
               block[135] = 4;
             })
      .data("4444");
  tar.header("g", 4, 'g').data("junk").file("last.jpg", "5");
  const auto source = place.open(tar.end().bytes);
  CHECK_EQ(source->size(), 5u);
  CHECK_EQ(source->name(0), place.tar + "/some/prefix/p.jpg");
  CHECK_EQ(source->name(1), place.tar + "/" + deep);
  CHECK_EQ(source->name(2), place.tar + "/pax/\xc3\xa9.jpg");
  CHECK_EQ(text(*source, 2), "333");
  CHECK_EQ(text(*source, 3), "4444");
  CHECK_EQ(source->name(4), place.tar + "/last.jpg");
}

TEST("an archive without its end, or without the last padding, is read as tar reads it") {
  Place place;
  Tar tar;
  tar.file("a.jpg", "x");
  CHECK_EQ(place.open(tar.bytes)->size(), 1u);
  CHECK_EQ(text(*place.open(tar.bytes.substr(0, 513)), 0), "x");
}

TEST("an archive cut inside a header or a member is refused with path and offset") {
  Place place;
  Tar tar;
  tar.file("a.jpg", std::string(600, 'a')).file("b.jpg", std::string(100, 'b'));
  CHECK_THROWS(place.open(tar.bytes.substr(0, 300)), place.tar + "' at offset 0: the file ends inside a header");
  CHECK_THROWS(place.open(tar.bytes.substr(0, 900)), "at offset 0: a member of 600 bytes, but the file ends after 388");
  CHECK_THROWS(place.open(tar.bytes.substr(0, 1536 + 200)), "at offset 1536: the file ends inside a header");
  CHECK_THROWS(place.open(tar.bytes.substr(0, 1536 + 512 + 99)), "at offset 1536: a member of 100 bytes");
  CHECK_THROWS(place.open(""), "no *.jpg");
}

TEST("hostile headers are refused") {
  Place place;
  const auto with = [&](auto change) { return Tar().header("a.jpg", 1, '0', change).data("x").end().bytes; };
  std::string spoiled = with([](std::string&) {});
  spoiled[0] = 'z';
  CHECK_THROWS(place.open(spoiled), "wrong check sum");
  CHECK_THROWS(place.open(std::string(2048, 'j')), "not a tar header");
  CHECK_THROWS(place.open(with([](std::string& b) { b.replace(124, 12, "77777777777\0", 12); })), "but the file ends after");
  CHECK_THROWS(place.open(with([](std::string& b) { b.replace(124, 12, 12, '\xff'); })), "negative or too large");
  CHECK_THROWS(place.open(with([](std::string& b) { b.replace(124, 12, std::string("\x80") + std::string(11, '\x7f')); })),
               "too large");
  CHECK_THROWS(place.open(with([](std::string& b) { b.replace(124, 12, "12x45678901\0", 12); })), "not an octal number");
  CHECK_THROWS(place.open(Tar().header("x", 2UL << 20, 'x').data(std::string(2UL << 20, ' ')).bytes),
               "extended header of 2097152 bytes");
  for (const char* records : {"9999 path=a.jpg\n", "x", "3 a", "0 path=a\n", "12 path a.jp\n", "99999999999999999999999 path=a\n",
                              "15 size=1twelve\n", "5 ab\n"}) {
    CHECK_THROWS(place.open(Tar().header("x", std::string(records).size(), 'x').data(records).file("a.jpg", "x").end().bytes),
                 "pax");
  }
  const std::string sparse = pax("GNU.sparse.major", "1");
  CHECK_THROWS(place.open(Tar().header("x", sparse.size(), 'x').data(sparse).file("a.jpg", "x").end().bytes), "sparse");
  const std::string huge = pax("size", "18446744073709551615");
  CHECK_THROWS(place.open(Tar().header("x", huge.size(), 'x').data(huge).file("a.jpg", "x").end().bytes),
               "but the file ends after");
  CHECK_THROWS(place.open(Tar().header("x", 9, 'L').data("name.jpg").bytes), "after an extended header");
  CHECK_THROWS(place.open(Tar().file("a.jpg", "x").data(std::string(512, '\0')).file("b.jpg", "x").bytes),
               "after an empty block");
}

TEST("whatever is changed, an archive is refused or its members lie inside it") {
  Place place;
  const std::string records = pax("path", "c.jpg");
  const std::string sound = Tar()
                                .file("a.jpg", std::string(600, 'a'))
                                .header("x", records.size(), 'x')
                                .data(records)
                                .file("b", "bb")
                                .header("y", 6, 'L')
                                .data("d.jpg")
                                .file("e", "eee")
                                .end()
                                .bytes;
  CHECK_EQ(place.open(sound)->size(), 3u);
  Stream stream = Seed(4).stream("damage");
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string damaged = sound;
    for (std::uint64_t k = 0, count = 1 + stream.below(3); k < count; ++k)
      damaged[stream.below(damaged.size())] = static_cast<char>(stream());
    if (stream.below(3) == 0) damaged.resize(stream.below(damaged.size()));
    try {
      const auto source = place.open(damaged);
      for (std::size_t s = 0; s < source->size(); ++s) {
        const Locality at = source->locality(s);
        CHECK(at.offset + at.size <= damaged.size());
        CHECK_EQ(text(*source, s).size(), at.size);
      }
    } catch (const Error& error) {
      ++refused;
      CHECK(std::string(error.what()).find(place.tar) != std::string::npos);
    }
  }
  CHECK(refused > 500);
}

TEST("an archive cut short after it was opened is an error that names the member") {
  Place place;
  const auto source = place.open(Tar().file("a.jpg", std::string(600, 'a')).end().bytes);
  std::filesystem::resize_file(place.tar, 700);
  std::vector<std::uint8_t> buffer;
  CHECK_THROWS(source->read(0, buffer), "a.tar/a.jpg' at offset 512: the archive was cut short");
}

TEST("archives of the system's tar are read, in each of its formats") {
  const TemporaryDirectory place;
  const std::string deep = place.path() + "/in/" + std::string(120, 'd') + "/" + std::string(120, 'e');
  std::filesystem::create_directories(deep);
  std::ofstream(deep + "/a.jpg") << "deep";
  std::ofstream(place.path() + "/in/b.jpg") << "flat";
  for (const std::string format : {"gnu", "pax", "oldgnu", "ustar"}) {
    const std::string path = place.path() + "/" + format + ".tar";
    ProcessResult made;
    try {
      made = run_process({.argv = {"tar", "--format=" + format, "-cf", path, "-C", place.path() + "/in", "."}});
    } catch (const Error&) {
      SKIP("no tar here");
    }
    if (made.exit_code != 0) continue;  // ustar cannot hold every long name
    const auto source = open_samples("tar_shards", path);
    CHECK_EQ(source->size(), 2u);
    CHECK_EQ(text(*source, 0).size() + text(*source, 1).size(), 8u);
  }
}

}  // namespace
