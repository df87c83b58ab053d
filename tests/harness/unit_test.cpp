// Goal: sizes and durations are read as people type them, exactly, and refused when they mean nothing.
#include "harness/unit.hpp"

#include "harness/error.hpp"
#include "tests/check.hpp"

using namespace misfire;
using namespace std::chrono_literals;

TEST("sizes take the suffixes of dd, fio, Kubernetes and disk makers") {
  CHECK_EQ(parse_size("4096"), 4096u);
  CHECK_EQ(parse_size("16MiB"), 16u << 20);
  CHECK_EQ(parse_size("4M"), 4u << 20);
  CHECK_EQ(parse_size("4m"), 4u << 20);
  CHECK_EQ(parse_size("64Mi"), 64u << 20);
  CHECK_EQ(parse_size("512k"), 512u << 10);
  CHECK_EQ(parse_size("1 GiB"), 1u << 30);
  CHECK_EQ(parse_size("1.5GiB"), 3u << 29);
  CHECK_EQ(parse_size("4kB"), 4000u);
  CHECK_EQ(parse_size("4MB"), 4000000u);
  CHECK_EQ(parse_size("0"), 0u);
  CHECK_EQ(parse_size("12B"), 12u);
  CHECK_EQ(parse_size("1E"), 1ULL << 60);
  CHECK_EQ(parse_size("18446744073709551615"), UINT64_MAX);
  CHECK_EQ(parse_size("9007199254740993"), 9007199254740993u);  // 2^53 + 1, which no double holds
}

TEST("what is no size is refused in one line that says what is accepted") {
  for (const char* text : {"", "MiB", "-1", "+1", "1x", "4mb", "1 2", "nan", "inf", "0x10", "16MiBs", "16 MiB ", "1,5M"})
    CHECK_THROWS(parse_size(text), "write a number with K, M, G, T");
  CHECK_THROWS(parse_size("18446744073709551616"), "beyond 64 bits");
  CHECK_THROWS(parse_size("16E"), "beyond 64 bits");
  CHECK_THROWS(parse_size("1e300"), "beyond 64 bits");
  CHECK_THROWS(parse_size("0.3"), "whole number of bytes");
}

TEST("durations take the suffixes of timeout, sleep and Go") {
  CHECK(parse_duration("200ms") == 200ms);
  CHECK(parse_duration("1.5s") == 1500ms);
  CHECK(parse_duration("2m") == 2min);
  CHECK(parse_duration("2min") == 2min);
  CHECK(parse_duration("3h") == 3h);
  CHECK(parse_duration("1d") == 24h);
  CHECK(parse_duration("10us") == 10us);
  CHECK(parse_duration("5ns") == 5ns);
  CHECK(parse_duration("2") == 2s);
  CHECK(parse_duration("0.25") == 250ms);
  CHECK(parse_duration("1e-3s") == 1ms);
  CHECK(parse_duration("0") == 0s);
}

TEST("what is no duration is refused") {
  for (const char* text : {"", "s", "-1s", "1x", "1 m s", "nan", "inf", "1S", "infs"})
    CHECK_THROWS(parse_duration(text), "write a number with ns, us, ms");
  CHECK_THROWS(parse_duration("400000d"), "beyond 292 years");
  CHECK_THROWS(parse_duration("1e400"), "beyond 292 years");
  CHECK_THROWS(from_seconds(-1), "not a duration");
  CHECK_THROWS(from_seconds(1e300), "not a duration");
  CHECK_THROWS(from_seconds(0.0 / 0.0), "not a duration");
  CHECK(from_seconds(0.25) == 250ms);
  CHECK_EQ(to_seconds(1500ms), 1.5);
}

TEST("quantities are written for people") {
  CHECK_EQ(format_size(512), "512 B");
  CHECK_EQ(format_size(16 << 20), "16 MiB");
  CHECK_EQ(format_size(3ULL << 29), "1.5 GiB");
  CHECK_EQ(format_size(1023), "1023 B");
  CHECK_EQ(format_size((1 << 20) - 1), "1 MiB");
  CHECK_EQ(format_size(UINT64_MAX), "16 EiB");
  CHECK_EQ(format_duration(1250ms), "1.25 s");
  CHECK_EQ(format_duration(340us), "340 us");
  CHECK_EQ(format_duration(0s), "0 s");
  CHECK_EQ(format_duration(999999ns), "1 ms");
  CHECK_EQ(format_duration(125s), "2 min 5 s");
  CHECK_EQ(format_duration(2h), "2 h");
  CHECK_EQ(format_duration(-2ms), "-2 ms");
  CHECK_EQ(format_quantity(0.8123, Unit::ratio), "0.812");
  CHECK_EQ(format_quantity(0.8123, Unit::fraction), "81.2%");
  CHECK_EQ(format_quantity(1234567, Unit::count), "1234567");
  CHECK_EQ(format_quantity(999.7, Unit::none), "1000");
  CHECK_EQ(format_quantity(1 << 20, Unit::bytes_per_second), "1 MiB/s");
  CHECK_EQ(format_quantity(812.34, Unit::images_per_second), "812 images/s");
  CHECK_EQ(format_quantity(0, Unit::none), "0");
  CHECK_EQ(unit_name(Unit::images_per_second), "images_per_second");
}
