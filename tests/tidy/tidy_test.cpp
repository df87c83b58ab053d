// Goal: the source tree follows its own rules, and each rule is seen to fire.
// Method: the rules run over this repository and over small trees that break one rule each.

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>

#include "tests/check.hpp"
#include "tests/tidy/rules.hpp"

namespace {

namespace fs = std::filesystem;
using misfire::Json;
using misfire::tidy::check_labels;
using misfire::tidy::check_tree;
using misfire::tidy::Violation;

using Content = std::pair<std::string, std::string>;  // path and text

std::string describe(const Violation& violation) {
  return violation.file + ":" + std::to_string(violation.line) + ": " + violation.message;
}

/// A tree in a temporary folder: a well-behaved one with `changes` laid over it.
class Tree {
 public:
  explicit Tree(std::initializer_list<Content> changes) {
    std::string pattern = (fs::temp_directory_path() / "misfire-tidy-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    root_ = pattern;
    write({"harness/CMakeLists.txt", "misfire_library(harness SOURCES base.cpp HEADERS base.hpp)\n"});
    write({"harness/base.hpp", "#pragma once\n\nint base();\n"});
    write({"harness/base.cpp", "#include \"harness/base.hpp\"\n\nint base() { return 1; }\n"});
    write({"faults/CMakeLists.txt", "misfire_library(faults HEADERS fault.hpp)\n"});
    write({"faults/fault.hpp", "#pragma once\n\n#include \"harness/base.hpp\"\n"});
    write({"results/CMakeLists.txt", "misfire_library(results HEADERS judge.hpp)\n"});
    write({"results/judge.hpp", "#pragma once\n"});
    for (const Content& change : changes) write(change);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() { fs::remove_all(root_); }
  std::vector<Violation> check() const { return check_tree(root_); }

 private:
  void write(const Content& content) {
    const fs::path path = root_ / content.first;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << content.second;
  }
  fs::path root_;
};

/// Passes when `violations` is one violation, at that place, whose message has all of `needles`.
void check_one(const std::vector<Violation>& violations, const std::string& file, int line,
               std::initializer_list<std::string> needles) {
  CHECK_EQ(violations.size(), 1U);
  for (const Violation& violation : violations) {
    CHECK_EQ(violation.file, file);
    CHECK_EQ(violation.line, line);
    for (const std::string& needle : needles)
      misfire::check::report(violation.message.find(needle) != std::string::npos, __FILE__, __LINE__,
                             "'" + needle + "' in '" + violation.message + "'");
  }
}

std::string run(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::array<char, 4096> buffer;
  for (std::size_t size; (size = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) text.append(buffer.data(), size);
  const int status = pclose(pipe);
  if (status != 0) throw std::runtime_error(command + " ended with " + std::to_string(status));
  return text;
}

}  // namespace

TEST("this repository follows its rules") {
  const auto violations = check_tree(TIDY_SOURCE_DIR);
  for (const Violation& violation : violations) std::fprintf(stderr, "%s\n", describe(violation).c_str());
  CHECK_EQ(violations.size(), 0U);
}

TEST("the labels of this build's tests follow their rules") {
  const std::string text = run("'" TIDY_CTEST "' --test-dir '" TIDY_BINARY_DIR "' --show-only=json-v1");
  const Json tests = Json::parse(text, "ctest --show-only=json-v1");
  CHECK(tests.at("tests").as_array().size() > 1);
  const auto violations = check_labels(tests);
  for (const Violation& violation : violations) std::fprintf(stderr, "%s\n", describe(violation).c_str());
  CHECK_EQ(violations.size(), 0U);
}

TEST("a tree that follows the rules is left alone") { CHECK_EQ(Tree({}).check().size(), 0U); }

TEST("an include to the left names file, line and both rooms") {
  const Tree tree({{"harness/base.cpp", "#include \"harness/base.hpp\"\n#include \"faults/fault.hpp\"\n"}});
  check_one(tree.check(), "harness/base.cpp", 2, {"harness includes faults"});
}

TEST("middle rooms do not include each other") {
  const Tree tree({{"faults/fault.hpp", "#pragma once\n#include \"results/judge.hpp\"\n"}});
  check_one(tree.check(), "faults/fault.hpp", 2, {"faults includes results"});
}

TEST("suites and tests may include everything to their right") {
  const Tree tree(
      {{"suites/CMakeLists.txt", "add_library(x all.cpp)\n"},
       {"suites/all.cpp", "#include \"harness/base.hpp\"\n#include \"faults/fault.hpp\"\n#include \"results/judge.hpp\"\n"},
       {"tests/CMakeLists.txt", "add_library(y t.cpp)\n"},
       {"tests/t.cpp", "#include \"harness/base.hpp\"\n#include \"misfire_config.hpp\"\n"}});
  CHECK_EQ(tree.check().size(), 0U);
}

TEST("quotes are for paths from the root") {
  const Tree tree({{"harness/base.cpp", "#include \"base.hpp\"\n"}});
  check_one(tree.check(), "harness/base.cpp", 1, {"\"base.hpp\"", "root"});
}

TEST("third-party types stay in sources") {
  for (const std::string header : {"boost/process.hpp", "nlohmann/json.hpp", "jpeglib.h", "mpi.h", "cuda_runtime.h", "nccl.h",
                                   "hwloc.h", "benchmark/benchmark.h"}) {
    const Tree in_header({{"harness/base.hpp", "#pragma once\n#include <" + header + ">\n"}});
    check_one(in_header.check(), "harness/base.hpp", 2, {header, "third-party"});
    const Tree in_source({{"harness/base.cpp", "#include <" + header + ">\n"}});
    CHECK_EQ(in_source.check().size(), 0U);
  }
}

TEST("Boost.Process is in one source, nlohmann in three") {
  const Tree tree({{"harness/base.cpp", "#include <boost/process.hpp>\n#include <nlohmann/json.hpp>\n"},
                   {"faults/CMakeLists.txt", "misfire_library(faults SOURCES a.cpp b.cpp HEADERS fault.hpp)\n"},
                   {"faults/a.cpp", "#include <nlohmann/json.hpp>\n"},
                   {"faults/b.cpp", "#include <nlohmann/json.hpp>\n"}});
  CHECK_EQ(tree.check().size(), 0U);
  const Tree process({{"harness/base.cpp", "#include <boost/process.hpp>\n"},
                      {"faults/CMakeLists.txt", "misfire_library(faults SOURCES a.cpp HEADERS fault.hpp)\n"},
                      {"faults/a.cpp", "#include <boost/process/child.hpp>\n"}});
  check_one(process.check(), "harness/base.cpp", 1, {"boost/process"});
  const Tree nlohmann({{"faults/CMakeLists.txt", "misfire_library(faults SOURCES a.cpp b.cpp c.cpp d.cpp HEADERS fault.hpp)\n"},
                       {"faults/a.cpp", "#include <nlohmann/json.hpp>\n"},
                       {"faults/b.cpp", "#include <nlohmann/json.hpp>\n"},
                       {"faults/c.cpp", "#include <nlohmann/json.hpp>\n"},
                       {"faults/d.cpp", "#include <nlohmann/json.hpp>\n"}});
  check_one(nlohmann.check(), "faults/d.cpp", 1, {"nlohmann"});
}

TEST("a source that CMake does not name is found, one named by a catalogue is not") {
  const Tree tree({{"faults/mem_limit.cpp", "\n"}});
  check_one(tree.check(), "faults/mem_limit.cpp", 0, {"not built"});
  const Tree listed({{"faults/catalog.inc", "// other\nMISFIRE_FAULT(mem.limit)\n"},
                     {"faults/mem_limit.cpp", "\n"},
                     {"tests/faults/mem_limit_test.cpp", "\n"}});
  CHECK_EQ(listed.check().size(), 0U);
  const Tree looped({{"tests/faults/CMakeLists.txt", "foreach(name IN ITEMS limit)\n"}, {"tests/faults/limit_test.cpp", "\n"}});
  CHECK_EQ(looped.check().size(), 0U);
  const Tree not_looped(
      {{"tests/faults/CMakeLists.txt", "foreach(name IN ITEMS limits)\n"}, {"tests/faults/limit_test.cpp", "\n"}});
  check_one(not_looped.check(), "tests/faults/limit_test.cpp", 0, {"not built"});
  const Tree in_comment({{"faults/catalog.inc", "// other\n"}, {"faults/other.cpp", "\n"}});
  check_one(in_comment.check(), "faults/other.cpp", 0, {"not built"});
  const Tree commented({{"faults/CMakeLists.txt", "# mem_limit.cpp\nmisfire_library(faults HEADERS fault.hpp)\n"},
                        {"faults/mem_limit.cpp", "\n"}});
  check_one(commented.check(), "faults/mem_limit.cpp", 0, {"not built"});
}

TEST("a header that CMake does not name is found, but for those of tests") {
  const std::string header = "#pragma once\n";
  check_one(Tree({{"faults/more.hpp", header}}).check(), "faults/more.hpp", 0, {"not built"});
  CHECK_EQ(Tree({{"tests/faults/more.hpp", header}}).check().size(), 0U);
}

TEST("a header needs #pragma once") {
  const Tree tree({{"harness/base.hpp", "int base();\n"}});
  check_one(tree.check(), "harness/base.hpp", 1, {"#pragma once"});
}

TEST("long lines, tabs, spaces at the end and leftover markers are found, where they are") {
  const std::string wide(130, 'x'), umlauts = "// " + std::string("\xC3\xA4") + std::string(126, 'x');
  CHECK_EQ(Tree({{"harness/base.cpp", wide + "\n" + umlauts + "\n"}}).check().size(), 0U);
  check_one(Tree({{"harness/base.cpp", "\n" + wide + "x\n"}}).check(), "harness/base.cpp", 2, {"131 columns"});
  check_one(Tree({{"scripts/run", "\techo\n"}}).check(), "scripts/run", 1, {"tab"});
  check_one(Tree({{"harness/base.cpp", "int x; \n"}}).check(), "harness/base.cpp", 1, {"space at the end"});
  const std::string marker = std::string("TO") + "DO";
  check_one(Tree({{"README.md", "a\n\n" + marker + ": write\n"}}).check(), "README.md", 3, {marker});
  check_one(Tree({{"scripts/run", std::string("<<<<") + "<<< HEAD\n"}}).check(), "scripts/run", 1, {"leftover"});
}

TEST("broken labels are found") {
  const auto with = [](const std::string& labels) {
    return Json::parse(R"({"tests": [{"name": "good", "properties": [{"name": "LABELS", "value": ["cpu", "unit"]}]},)"
                       R"({"name": "tried", "properties": [{"name": "LABELS", "value": [)" +
                           labels + "]}]}]}",
                       "tests.json");
  };
  CHECK_EQ(check_labels(with(R"("gpu", "unit")")).size(), 0U);
  check_one(check_labels(with(R"("unit", "slow")")), "tried", 0, {"0 of the labels cpu and gpu"});
  check_one(check_labels(with(R"("cpu", "gpu", "unit")")), "tried", 0, {"2 of the labels cpu and gpu"});
  check_one(check_labels(with(R"("cpu")")), "tried", 0, {"kind"});
  check_one(check_labels(with(R"("cpu", "cpu_heavy")")), "cpu", 0, {"part of the label 'cpu_heavy'"});
  const Json required =
      Json::parse(R"({"tests": [{"name": "require.gpu", "properties": [{"name": "LABELS", "value": ["cpu", "gpu", "unit"]}]}]})",
                  "tests.json");
  CHECK_EQ(check_labels(required).size(), 0U);
}
