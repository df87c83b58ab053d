#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/json.hpp"

namespace misfire::tidy {

/// One place where a rule of the source tree is broken.
struct Violation {
  std::string file;  ///< relative to the tree's root
  int line = 0;      ///< 1-based; 0 when the whole file is meant
  std::string message;
};

/// The rules that can be read off the files of a tree:
///   - includes run from the repository's root and only to the right: tests -> suites -> {results | kernels | storage | faults}
///     -> harness; the four middle rooms never include each other
///   - third-party types stay in sources: no Boost, nlohmann, JPEG, MPI, CUDA, NCCL, hwloc or Google Benchmark in a header;
///     Boost.Process in one source, nlohmann in at most three (each costs seconds to compile)
///   - every source, and every header outside tests, is named by the CMake files, or the catalogue, of its folder or one above it
///   - headers start with #pragma once; lines have at most 130 columns, no tab and no space at the end; no leftover markers
/// @param root the repository's root
std::vector<Violation> check_tree(const std::filesystem::path& root);

/// The rules of test labels: exactly one of cpu and gpu on each test (but for the tests named require.*, which belong to every
/// selection), a kind on each, and no label that is part of another.
/// @param tests what `ctest --show-only=json-v1` prints
std::vector<Violation> check_labels(const Json& tests);

}  // namespace misfire::tidy
