// Goal: texts for people are cut, joined, quoted and corrected as promised.
// Method: examples on both sides of each rule; shell_quote is read back by a real shell in process_test.cpp.
#include "harness/text.hpp"

#include "tests/check.hpp"

using namespace misfire;

namespace {
constexpr std::string_view names[] = {"workers", "prefetch_factor", "persistent_workers"};
}

TEST("a misspelt name finds its neighbour, another word finds none") {
  CHECK_EQ(nearest("wrokers", names), "workers");  // swapped neighbours are one slip
  CHECK_EQ(nearest("PREFETCH-FACTOR", names), "prefetch_factor");
  CHECK_EQ(nearest("prefech_facto", names), "prefetch_factor");
  CHECK_EQ(nearest("deadline", names), "");
  CHECK_EQ(nearest("", names), "");
  CHECK_EQ(nearest(std::string(100000, 'w'), names), "");
  CHECK_EQ(did_you_mean("worker", names), " (did you mean 'workers'?)");
  CHECK_EQ(did_you_mean("xyz", names), "");
}

TEST("splitting keeps empty parts, and joining undoes it") {
  CHECK_EQ(split("", ',').size(), 0u);
  CHECK_EQ(split("a", ',').size(), 1u);
  CHECK_EQ(split("a,,b,", ',').size(), 4u);
  CHECK_EQ(join(split("a,,b,", ','), ","), "a,,b,");
  CHECK_EQ(to_lower("ABC xyz-9"), "abc xyz-9");
}

TEST("wrapped lines fit, words longer than a line stay whole, paragraphs stay apart") {
  CHECK_EQ(wrap("one two three", 9, 2), "  one two\n  three");
  CHECK_EQ(wrap("one two three", 8, 2), "  one\n  two\n  three");
  CHECK_EQ(wrap("incomprehensible a", 5, 0), "incomprehensible\na");
  CHECK_EQ(wrap("a  b\nc", 80, 1), " a b\n c");
  CHECK_EQ(wrap("a\n\nb", 80, 2), "  a\n\n  b");
  CHECK_EQ(wrap("\u00e4\u00e4 \u00e4\u00e4", 5, 0), "\u00e4\u00e4 \u00e4\u00e4");  // columns, not bytes
  CHECK_EQ(wrap("", 80, 2), "");
}

TEST("only words that a shell would change are quoted") {
  CHECK_EQ(shell_quote(std::string_view("--size=16MiB")), "--size=16MiB");
  CHECK_EQ(shell_quote(std::string_view("")), "''");
  CHECK_EQ(shell_quote(std::string_view("it's")), "'it'\\''s'");
  CHECK_EQ(shell_quote(std::string_view("~")), "'~'");
  const std::vector<std::string> words = {"misfire", "list", "Bus error"};
  CHECK_EQ(shell_quote(words), "misfire list 'Bus error'");
}
