#include "tests/check.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <vector>

namespace misfire::check {
namespace {

struct Test {
  const char* name;
  const char* file;
  int line;
  void (*function)();
};
struct Skipped {
  std::string reason;
};

std::vector<Test>& tests() {
  static std::vector<Test> list;
  return list;
}
int failed_checks = 0;
int passed_checks = 0;

}  // namespace

void add_test(const char* name, const char* file, int line, void (*function)()) {
  tests().push_back({name, file, line, function});
}

void report(bool passed, const char* file, int line, const std::string& what) {
  if (passed) {
    ++passed_checks;
    return;
  }
  ++failed_checks;
  std::fprintf(stderr, "%s:%d: failed: %s\n", file, line, what.c_str());
}

void skip(const std::string& reason) { throw Skipped{reason}; }

void throws(const std::function<void()>& function, std::string_view needle, const char* text, const char* file, int line) {
  try {
    function();
  } catch (const std::exception& error) {
    const bool found = std::string_view(error.what()).find(needle) != std::string_view::npos;
    report(found, file, line, std::string(text) + " threw '" + error.what() + "', wanted '" + std::string(needle) + "' in it");
    return;
  }
  report(false, file, line, std::string(text) + " did not throw");
}

}  // namespace misfire::check

/// usage: test [--list] [--seed N] [part of a test's name]
int main(int argc, char** argv) {
  using namespace misfire::check;
  unsigned seed = static_cast<unsigned>(std::chrono::steady_clock::now().time_since_epoch().count());
  std::string_view filter;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--list") == 0) {
      for (const Test& test : tests()) std::printf("%s\n", test.name);
      return 0;
    }
    if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else {
      filter = argv[i];
    }
  }
  std::shuffle(tests().begin(), tests().end(), std::mt19937(seed));
  int run = 0, failed = 0, skipped = 0;
  for (const Test& test : tests()) {
    if (std::string_view(test.name).find(filter) == std::string_view::npos) continue;
    ++run;
    const int failed_before = failed_checks, passed_before = passed_checks;
    bool skip_this = false;
    try {
      test.function();
    } catch (const Skipped& reason) {
      skip_this = true;
      ++skipped;
      std::printf("skipped  %s: %s\n", test.name, reason.reason.c_str());
    } catch (const std::exception& error) {
      report(false, test.file, test.line, std::string("exception: ") + error.what());
    }
    if (!skip_this && failed_checks == failed_before && passed_checks == passed_before)
      report(false, test.file, test.line, "the test checked nothing");
    if (failed_checks != failed_before) {
      ++failed;
      std::printf("FAILED   %s\n", test.name);
    }
  }
  std::printf("%d tests, %d failed, %d skipped, %d checks (order seed %u)\n", run, failed, skipped, passed_checks + failed_checks,
              seed);
  if (run == 0) {
    std::fprintf(stderr, "no test matches '%s'\n", std::string(filter).c_str());
    return 1;
  }
  if (failed > 0) return 1;
  return skipped == run ? 77 : 0;
}
