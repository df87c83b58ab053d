#include "harness/record.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sstream>
#include <string>
#include <vector>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "tests/check.hpp"

namespace misfire {
namespace {

std::vector<Json> lines_of(const std::string& path) {
  std::vector<Json> lines;
  std::istringstream text(read_whole_file(path));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line, path));
  return lines;
}

TEST("lines begin with their type and keep their members") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/r.jsonl";
  {
    RecordWriter record = RecordWriter::create(path);
    record.write("trial", Json::object({{"seed", Json(18446744073709551615ULL)}, {"text", "line\nbreak \"quoted\" \xff"}}));
    record.write("metric", Json::object({{"value", 0.1}}));
    record.sync();
  }
  const std::string text = read_whole_file(path);
  CHECK(text.starts_with("{\"type\":\"trial\",\"seed\":18446744073709551615,"));
  CHECK(text.ends_with("\n"));
  const auto lines = lines_of(path);
  CHECK_EQ(lines.size(), 2U);
  CHECK(lines.at(0).at("text").as_string().starts_with("line\nbreak \"quoted\" "));
  CHECK_EQ(lines.at(1).at("value").as_double(), 0.1);
}

TEST("create truncates and append does not") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/r.jsonl";
  RecordWriter::create(path).write("a", Json::object());
  RecordWriter::append(path).write("b", Json::object());
  CHECK_EQ(lines_of(path).size(), 2U);
  RecordWriter::create(path).write("c", Json::object());
  const auto lines = lines_of(path);
  CHECK_EQ(lines.size(), 1U);
  CHECK_EQ(lines.at(0).at("type").as_string(), "c");
}

TEST("what cannot be written is one clear line") {
  CHECK_THROWS(RecordWriter::create("/nowhere/at/all/r.jsonl"), "/nowhere/at/all/r.jsonl");
  CHECK_THROWS(RecordWriter::create("/"), "write the record");
  RecordWriter full = RecordWriter::append("/dev/full");
  CHECK_THROWS(full.write("a", Json::object()), "No space left");
}

TEST("a line that fits only in part is an error") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/r.jsonl";
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      RecordWriter::create(path).write("a", Json::object({{"text", std::string(500, 'x')}}));
    } catch (const Error& error) {
      _exit(error.code() == ErrorCode::no_space ? 10 : 11);
    }
    _exit(12);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK_EQ(WEXITSTATUS(status), 10);
}

TEST("several processes write whole lines") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/r.jsonl";
  RecordWriter record = RecordWriter::create(path);
  std::vector<pid_t> children;
  for (int writer = 0; writer < 4; ++writer) {
    children.push_back(fork());
    if (children.back() == 0) {
      for (int i = 0; i < 200; ++i)
        record.write("line", Json::object({{"writer", writer}, {"text", std::string(static_cast<std::size_t>(i * 7), 'x')}}));
      _exit(0);
    }
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  CHECK_EQ(lines_of(path).size(), 800U);
}

}  // namespace
}  // namespace misfire
