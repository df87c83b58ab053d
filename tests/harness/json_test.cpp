// Goal: values know their line, wrong text is refused in one line that names the place, what is written reads back the same.
#include "harness/json.hpp"

#include <bit>
#include <limits>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/seed.hpp"
#include "tests/check.hpp"

using namespace misfire;

TEST("each value has the line where it ends") {
  const Json value =
      Json::parse("{\n \"a\": 1,\n \"b\": [true,\n  \"x\"\n ],\n\n \"c\": {\"d\": null}, \"e\": 2.5\n}\n", "f.json");
  CHECK_EQ(value.line(), 1);
  CHECK_EQ(value.at("a").line(), 2);
  CHECK_EQ(value.at("b").line(), 3);
  CHECK_EQ(value.at("b").as_array()[0].line(), 3);
  CHECK_EQ(value.at("b").as_array()[1].line(), 4);
  CHECK_EQ(value.at("c").line(), 7);
  CHECK_EQ(value.at("c").at("d").line(), 7);
  CHECK_EQ(value.at("e").line(), 7);
  CHECK_EQ(value.where(), "f.json:1: ");
  // A number is only over when the next character is seen: that one must not count.
  const Json numbers = Json::parse("[1\n,2\r\n,3\n\n]", "n");
  CHECK_EQ(numbers.as_array()[0].line(), 1);
  CHECK_EQ(numbers.as_array()[1].line(), 2);
  CHECK_EQ(numbers.as_array()[2].line(), 3);
  CHECK_EQ(Json(3).line(), 0);
  CHECK_EQ(Json(3).where(), "");
  CHECK_EQ(Json(3).source(), "");
}

TEST("malformed text is refused with source, line and no parser's internals") {
  const auto message = [](std::string_view text) -> std::string {
    try {
      Json::parse(text, "f.json");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_input);
      return error.what();
    }
    return "accepted";
  };
  for (const char* text :
       {"",        "{",  "[1,]", "{\"a\":1,}", "{\"a\" 1}", "nul",     "1 2",         "\"abc",    "{'a':1}", "[1]x",
        "// c\n1", "01", "+1",   ".5",         "1.",        "\"\\x\"", "\"\\ud800\"", "\"a\nb\"", "NaN",     "-"}) {
    const std::string what = message(text);
    CHECK(what.starts_with("f.json:"));
    CHECK(what.find("[json") == std::string::npos);
    CHECK(what.find('\n') == std::string::npos);
  }
  CHECK(message("{\n\"a\": 1\n\"b\": 2}").starts_with("f.json:3: "));
  CHECK(message("{\"a\":\n1,\n\"b\":2,\n\"a\":3}") == "f.json:4: the key 'a' appears twice in one object");
  CHECK(message("\"\xff\"").find("UTF-8") != std::string::npos);
  CHECK(message("\"\xc3(\"").find("f.json:1: ") == 0);
  CHECK(message("1e999").find("1e999") != std::string::npos);
  CHECK(message("[18446744073709551616]").find("does not fit in 64 bits") != std::string::npos);
  CHECK(message("-9223372036854775809").find("does not fit in 64 bits") != std::string::npos);
  CHECK(message("\"" + std::string(1 << 20, 'a')).size() < 300);
}

TEST("64 levels are read, 65 are not, a million are refused as fast") {
  CHECK(Json::parse(std::string(64, '[') + std::string(64, ']'), "deep").is_array());
  CHECK_THROWS(Json::parse(std::string(65, '[') + std::string(65, ']'), "deep"), "deep:1: nesting is deeper than 64 levels");
  CHECK_THROWS(Json::parse(std::string(1000000, '['), "deep"), "nesting is deeper than 64 levels");
}

TEST("keys keep their order, and a repeated one is noticed in large objects too") {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i) text += "\"k" + std::to_string(999 - i) + "\":" + std::to_string(i) + ",";
  const Json large = Json::parse(text + "\"last\":0}", "large");
  CHECK_EQ(large.as_object().size(), 1001u);
  CHECK_EQ(large.as_object()[0].first, "k999");
  CHECK_EQ(large.at("k0").as_int(), 999);
  CHECK_THROWS(Json::parse(text + "\"k998\":0}", "large"), "'k998' appears twice");
  CHECK_THROWS(Json::parse(text + "\"k5\":0}", "large"), "'k5' appears twice");
  CHECK(Json::parse(R"([{"a":1},{"a":2}])", "two").is_array());  // in two objects it is no repetition
}

TEST("accessors give the type asked for or say what they found, and where") {
  const Json value =
      Json::parse(R"({"i": -5, "u": 18446744073709551615, "f": 2.5, "w": 3.0, "s": "x", "b": true, "a": [1], "n": null})", "v");
  CHECK_EQ(value.at("i").as_int(), -5);
  CHECK_EQ(value.at("u").as_uint(), UINT64_MAX);
  CHECK_EQ(value.at("w").as_int(), 3);
  CHECK_EQ(value.at("w").as_uint(), 3u);
  CHECK_EQ(value.at("f").as_double(), 2.5);
  CHECK_EQ(value.at("i").as_double(), -5.0);
  CHECK(value.at("b").as_bool());
  CHECK_THROWS(value.at("i").as_uint(), "v:1: expected an integer of 0 or more, found an integer (-5)");
  CHECK_THROWS(value.at("u").as_int(), "below 2^63");
  CHECK_THROWS(value.at("f").as_int(), "expected an integer, found a number (2.5)");
  CHECK_THROWS(value.at("s").as_double(), "expected a number, found a string (\"x\")");
  CHECK_THROWS(value.at("b").as_int(), "found a boolean (true)");
  CHECK_THROWS(value.at("n").as_string(), "expected a string, found null");
  CHECK_THROWS(value.at("a").as_object(), "expected an object, found an array");
  CHECK_THROWS(value.at("zz"), "v:1: 'zz' is missing");
  CHECK_THROWS(value.at("a").at("zz"), "expected an object");
  CHECK(value.find("zz") == nullptr);
  CHECK(value.at("s").find("zz") == nullptr);
  CHECK(!Json(true).is_number());
  CHECK(!Json(1.0).is_integer());
  CHECK(Json(1u).is_integer());
}

TEST("values are built in place") {
  Json value;
  value.set("a", 1).as_int();
  value.set("b", Json()).push_back(2);
  value.set("a", "new");
  CHECK_EQ(value.dump(), R"({"a":"new","b":[2]})");
  CHECK_EQ(value.dump(2), "{\n  \"a\": \"new\",\n  \"b\": [\n    2\n  ]\n}");
  CHECK_THROWS(value.push_back(1), "expected an array");
  CHECK_THROWS(Json(1).set("a", 1), "expected an object");
}

TEST("what is written reads back, doubles bit for bit") {
  Stream stream = Seed(7).stream("json");
  for (int i = 0; i < 2000; ++i) {
    const double number = std::bit_cast<double>(stream());
    if (number - number != 0) continue;
    CHECK_EQ(std::bit_cast<std::uint64_t>(Json::parse(Json(number).dump(), "d").as_double()),
             std::bit_cast<std::uint64_t>(number));
  }
  for (const Json& value : {Json(INT64_MIN), Json(UINT64_MAX), Json(INT64_MAX), Json(0.1), Json(1.0), Json("\n\"\\\x01\u00e4"),
                            Json(nullptr), Json::array(), Json::object()})
    CHECK(Json::parse(value.dump(), "r") == value);
  CHECK_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
  CHECK_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
  CHECK_EQ(Json("a\xff").dump(), "\"a\xef\xbf\xbd\"");
  CHECK(Json::parse(Json("a\xff").dump(), "r").is_string());
}

TEST("equality looks at values, not at how they are written") {
  CHECK(Json(1) == Json(1.0));
  CHECK(Json(1u) == Json(1));
  CHECK(!(Json(-1) == Json(UINT64_MAX)));
  CHECK(!(Json(9007199254740993) == Json(9007199254740992.0)));  // equal as doubles only
  CHECK(!(Json(UINT64_MAX) == Json(18446744073709551616.0)));
  CHECK(!(Json(true) == Json(1)));
  CHECK(!(Json("1") == Json(1)));
  CHECK(Json::parse(R"({"a":1,"b":[2]})", "x") == Json::parse("{\"b\":[2.0],\n\"a\":1}", "y"));
  CHECK(!(Json::parse(R"({"a":1})", "x") == Json::parse(R"({"a":1,"b":2})", "x")));
  CHECK(!(Json::parse(R"({"a":1,"c":2})", "x") == Json::parse(R"({"a":1,"b":2})", "x")));
}

TEST("a file is read, one that is not there is named") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/x.json";
  write_file_atomically(path, "{\n\"a\": tru\n}");
  CHECK_THROWS(Json::read_file(path), path + ":2: ");
  CHECK_THROWS(Json::read_file(directory.path() + "/none.json"), "none.json': No such file");
  write_file_atomically(path, "\xef\xbb\xbf[1]\r\n");  // with the byte order mark of some editors
  CHECK_EQ(Json::read_file(path).as_array().size(), 1u);
}
