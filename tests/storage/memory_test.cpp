// Goal: a set in memory holds what it was given, without further copies.
#include "storage/sample_source.hpp"

#include "tests/check.hpp"

using namespace misfire;

namespace {

TEST("samples are handed out where they lie") {
  const auto source = samples_in_memory({{"a", {1, 2, 3}}, {"b", {}}, {"c", {4}}});
  std::vector<std::uint8_t> buffer;
  CHECK_EQ(source->size(), 3u);
  CHECK_EQ(source->name(2), "c");
  CHECK_EQ(source->read(0, buffer).size(), 3u);
  CHECK_EQ(static_cast<int>(source->read(2, buffer)[0]), 4);
  CHECK(source->read(0, buffer).data() == source->read(0, buffer).data());
  CHECK(buffer.empty());
  CHECK_EQ(source->locality(2).offset, 3u);
}

TEST("an empty set is refused, an index past the end too") {
  CHECK_THROWS(samples_in_memory({}), "at least one sample");
  const auto source = samples_in_memory({{"a", {1}}});
  std::vector<std::uint8_t> buffer;
  CHECK_THROWS(source->read(1, buffer), "");
}

}  // namespace
