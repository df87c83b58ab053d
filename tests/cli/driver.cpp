#include "tests/cli/driver.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <regex>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "misfire_config.hpp"
#include "tests/check.hpp"

namespace misfire::test {

ProcessResult misfire(std::vector<std::string> arguments, std::vector<std::string> environment) {
  arguments.insert(arguments.begin(), DRIVER);
  return run_process({.argv = std::move(arguments), .environment = std::move(environment), .timeout = std::chrono::seconds(60)});
}

std::string canned(const std::string& name) { return std::string(MISFIRE_SOURCE_DIR) + "/tests/cli/failures/" + name + ".json"; }

Json json_of(const ProcessResult& result) { return Json::parse(result.out, "standard output"); }

std::string scratch() {
  static const TemporaryDirectory directory("misfire-cli-");
  static int count = 0;
  const std::string path = directory.path() + "/" + std::to_string(++count);
  make_directories(path);
  return path;
}

void golden(const std::string& name, std::string text) {
  const auto replace = [&](const char* pattern, const char* by) { text = std::regex_replace(text, std::regex(pattern), by); };
  const auto literal = [&](const std::string& what, const std::string& by) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
      text.replace(at, what.size(), by);
  };
  literal(DRIVER, "misfire");
  literal(MISFIRE_SOURCE_DIR, "<source>");
  literal(std::string("misfire ") + MISFIRE_VERSION, "misfire <version>");
  replace("/[^ \n]*/misfire-cli-[A-Za-z0-9]+/[0-9]+", "<scratch>");
  replace("[0-9.]+ (ms|us|s)\\b", "<time>");
  const std::string path = std::string(MISFIRE_SOURCE_DIR) + "/tests/golden/cli/" + name;
  if (std::getenv("MISFIRE_UPDATE_GOLDEN") != nullptr) {
    make_directories(std::filesystem::path(path).parent_path().string());
    write_file_atomically(path, text);
  }
  CHECK_EQ(text, read_whole_file(path));
}

}  // namespace misfire::test
