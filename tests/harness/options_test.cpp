// Goal: one declaration serves the command line, JSON, the environment, help, schema and record, and every refusal says what to
// do.
#include "harness/options.hpp"

#include <cstdlib>

#include "harness/error.hpp"
#include "tests/check.hpp"

using namespace misfire;
using namespace std::chrono_literals;

namespace {

struct Values {
  bool pin = true;
  int workers = 4;
  std::int64_t offset = -3;
  std::uint64_t shm = 16 << 20;
  double rate = 0.5;
  Duration deadline = 10s;
  std::string sharing = "descriptor";
  std::vector<std::string> paths;
  OptionTable table() {
    return OptionTable(
        "MISFIRE_TEST",
        {
            {.name = "pin", .target = &pin, .help = "Pins memory."},
            {.name = "workers", .target = &workers, .help = "Worker processes.", .min = 0, .max = 512, .letter = 'w'},
            {.name = "offset", .target = &offset, .help = "Any integer."},
            {.name = "shm_size", .target = &shm, .help = "Size of /dev/shm.", .unit = Unit::bytes, .min = 4096},
            {.name = "rate", .target = &rate, .help = "A rate.", .min = 0, .max = 1},
            {.name = "deadline",
             .target = &deadline,
             .help = "Then it is ended.",
             .unit = Unit::seconds,
             .min = 0.1,
             .max = 3600},
            {.name = "sharing", .target = &sharing, .help = "How.", .choices = {"descriptor", "name"}},
            {.name = "path", .target = &paths, .help = "Where.", .value_name = "DIR", .letter = 'p'},
        });
  }
};

}  // namespace

TEST("every form of the command line is read") {
  Values v;
  const auto rest = v.table().parse(
      {"first", "--workers=8", "--shm-size", "1GiB", "--shm_size=2M", "--no-pin", "--rate",           "1",         "-p",   "a",
       "-pb",   "-p=c",        "--path",     "d",    "--offset",      "-5",       "--deadline=200ms", "--sharing", "name", "-",
       "--",    "--workers"});
  CHECK_EQ(v.workers, 8);
  CHECK_EQ(v.shm, 2u << 20);
  CHECK(!v.pin);
  CHECK_EQ(v.rate, 1.0);
  CHECK_EQ(v.offset, -5);
  CHECK(v.deadline == 200ms);
  CHECK_EQ(v.sharing, "name");
  CHECK((v.paths == std::vector<std::string>{"a", "b", "c", "d"}));
  CHECK((rest == std::vector<std::string>{"first", "-", "--workers"}));
  v.table().parse({"--pin", "-w2"});
  CHECK(v.pin);
  CHECK_EQ(v.workers, 2);
  v.table().parse({"--pin=off", "--no_pin", "-w", "3"});
  CHECK(!v.pin);
  CHECK_EQ(v.workers, 3);
}

TEST("a refused value names the option, the text and what is accepted, and changes nothing") {
  Values v;
  OptionTable table = v.table();
  CHECK_THROWS(table.parse({"--workers", "many"}), "option --workers: 'many' is not an integer; it takes an integer, 0 to 512");
  CHECK_THROWS(table.parse({"--workers=513"}), "'513' is out of range; it takes an integer, 0 to 512");
  CHECK_THROWS(table.parse({"--workers=99999999999999999999"}), "out of range");
  CHECK_THROWS(table.parse({"--workers=3000000000"}), "out of range");
  CHECK_THROWS(table.parse({"-w", "4x"}), "option -w: '4x' is not an integer");
  CHECK_THROWS(table.parse({"--workers"}), "option --workers needs a value: an integer, 0 to 512");
  CHECK_THROWS(table.parse({"--shm-size=1"}), "it takes a size such as 16MiB, 4KiB or more");
  CHECK_THROWS(table.parse({"--shm-size=4mb"}), "'4mb' is not a size");
  CHECK_THROWS(table.parse({"--rate=nan"}), "'nan' is not a number");
  CHECK_THROWS(table.parse({"--rate=1.5"}), "a number, 0 to 1");
  CHECK_THROWS(table.parse({"--deadline=5h"}), "a duration such as 200ms, 100ms to 3600s");
  CHECK_THROWS(table.parse({"--sharing=nmae"}),
               "'nmae' is none of the choices (did you mean 'name'?); it takes one of descriptor, name");
  CHECK_THROWS(table.parse({"--pin=maybe"}), "it takes true or false");
  CHECK_THROWS(table.parse({"--no-pin=1"}), "takes no value");
  CHECK_THROWS(table.parse({"--wrokers=1"}), "unknown option '--wrokers' (did you mean '--workers'?)");
  CHECK_THROWS(table.parse({"--no-workers"}), "unknown option '--no-workers'");
  CHECK_THROWS(table.parse({"-x"}), "unknown option '-x'");
  CHECK_THROWS(table.set("workrs", "1"), "unknown option 'workrs' (did you mean 'workers'?)");
  CHECK_THROWS(table.set("workers", ""), "is not an integer");
  CHECK(Values().table().values() == table.values());
  try {
    table.parse({"--workers=x"});
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
  }
}

TEST("unknown options are put aside when somebody else may know them") {
  Values v;
  std::vector<std::string> unknown;
  const auto rest = v.table().parse({"--benchmark_filter=x", "--workers=1", "--v", "-z"}, &unknown);
  CHECK((unknown == std::vector<std::string>{"--benchmark_filter=x", "--v", "-z"}));
  CHECK(rest.empty());
  CHECK_EQ(v.workers, 1);
  CHECK_THROWS(v.table().parse({"--workers=x"}, &unknown), "not an integer");
}

TEST("JSON sets options in base units or with suffixes, and complains with file, line and nearest key") {
  Values v;
  OptionTable table = v.table();
  table.set(Json::parse(
      R"({"workers": 2, "shm_size": "64MiB", "deadline": 0.25, "pin": false, "path": ["a", "b"], "rate": 1, "offset": -9})",
      "f"));
  CHECK_EQ(v.workers, 2);
  CHECK_EQ(v.shm, 64u << 20);
  CHECK(v.deadline == 250ms);
  CHECK_EQ(v.paths.size(), 2u);
  CHECK_EQ(v.offset, -9);
  table.set(Json::parse(R"({"shm_size": 8192, "deadline": "3s", "path": "c"})", "f"));
  CHECK_EQ(v.shm, 8192u);
  CHECK(v.deadline == 3s);
  CHECK((v.paths == std::vector<std::string>{"c"}));
  CHECK_THROWS(table.set(Json::parse("{\n\"worker\": 2}", "f")), "f:2: unknown option 'worker' (did you mean 'workers'?)");
  CHECK_THROWS(table.set(Json::parse("{\n\"shm-size\": 2}", "f")), "did you mean 'shm_size'?");  // one spelling in files
  CHECK_THROWS(table.set(Json::parse("{\"workers\": \"2\"}", "f")),
               "f:1: workers: expected an integer, found a string (\"2\"); it takes");
  CHECK_THROWS(table.set(Json::parse("{\"workers\": 2.5}", "f")), "expected an integer, found a number (2.5)");
  CHECK_THROWS(table.set(Json::parse("{\"workers\": -1}", "f")),
               "f:1: workers: -1 is out of range; it takes an integer, 0 to 512");
  CHECK_THROWS(table.set(Json::parse("{\"workers\": 4294967297}", "f")), "out of range");
  CHECK_THROWS(table.set(Json::parse("{\"shm_size\": -1}", "f")), "f:1: shm_size: expected an integer of 0 or more");
  CHECK_THROWS(table.set(Json::parse("{\"deadline\": -1}", "f")), "is not a duration");
  CHECK_THROWS(table.set(Json::parse("{\"sharing\": \"x\"}", "f")), "none of the choices");
  CHECK_THROWS(table.set(Json::parse("{\"path\": [1]}", "f")), "expected a string");
  CHECK_THROWS(table.set(Json::parse("[]", "f")), "f:1: expected an object");
}

TEST("the environment sets options, and a wrong variable is named") {
  Values v;
  ::setenv("MISFIRE_TEST_WORKERS", "7", 1);
  ::setenv("MISFIRE_TEST_SHM_SIZE", "1M", 1);
  ::setenv("MISFIRE_TEST_PATH", "x,y", 1);
  v.table().read_environment();
  CHECK_EQ(v.workers, 7);
  CHECK_EQ(v.shm, 1u << 20);
  CHECK((v.paths == std::vector<std::string>{"x", "y"}));
  ::setenv("MISFIRE_TEST_WORKERS", "x", 1);
  CHECK_THROWS(v.table().read_environment(), "environment variable MISFIRE_TEST_WORKERS: 'x' is not an integer");
  for (const char* name : {"MISFIRE_TEST_WORKERS", "MISFIRE_TEST_SHM_SIZE", "MISFIRE_TEST_PATH"}) ::unsetenv(name);
  Values untouched;
  untouched.table().read_environment();
  CHECK_EQ(untouched.workers, 4);
}

TEST("help gives each option its form, meaning, range and default") {
  Values v;
  OptionTable table = v.table();
  table.set("workers", "9");
  const std::string help = table.help(60);
  CHECK(help.find("  -w, --workers N\n      Worker processes. [0 to 512; default 4]\n") != std::string::npos);
  CHECK(help.find("  --shm-size SIZE\n      Size of /dev/shm. [4KiB or more; default 16MiB]\n") != std::string::npos);
  CHECK(help.find("  --deadline TIME\n      Then it is ended. [100ms to 3600s; default 10s]\n") != std::string::npos);
  CHECK(help.find("  --sharing WORD\n      How. [descriptor, name; default descriptor]\n") != std::string::npos);
  CHECK(help.find("  --pin\n      Pins memory. [default true]\n") != std::string::npos);
  CHECK(help.find("-p, --path DIR\n      Where.\n") != std::string::npos);
  for (const Option& option : table.options())
    if (option.name != "path") table.set(option.name, table.default_text(option));
  CHECK(table.values() == Values().table().values());
}

TEST("values are in base units, and set the same options again") {
  Values v;
  OptionTable table = v.table();
  table.parse({"--deadline=200ms", "--shm-size=1G", "--path=a"});
  const Json values = table.values();
  CHECK_EQ(values.at("deadline").as_double(), 0.2);
  CHECK_EQ(values.at("shm_size").as_uint(), 1u << 30);
  Values again;
  OptionTable other = again.table();
  other.set(values);
  CHECK(other.values() == values);
}

TEST("the schema says type, bounds, choices and default of every option") {
  Values v;
  const Json schema = v.table().schema();
  CHECK_EQ(schema.as_object().size(), 8u);
  CHECK_EQ(schema.at("workers").dump(),
           R"({"description":"Worker processes.","type":"integer","minimum":0.0,"maximum":512.0,"default":4})");
  CHECK_EQ(schema.at("shm_size").at("type").dump(), R"(["integer","string"])");
  CHECK_EQ(schema.at("deadline").at("type").dump(), R"(["number","string"])");
  CHECK_EQ(schema.at("sharing").at("enum").dump(), R"(["descriptor","name"])");
  CHECK_EQ(schema.at("path").at("type").as_string(), "array");
  CHECK_EQ(schema.at("rate").at("default").as_double(), 0.5);
}
