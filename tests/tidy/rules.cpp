#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

namespace misfire::tidy {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t columns_max = 130;

/// Distance from the bottom; a room includes itself and rooms of lower rank.
const std::map<std::string, int, std::less<>> room_rank = {{"harness", 0}, {"faults", 1}, {"kernels", 1}, {"storage", 1},
                                                           {"results", 1}, {"suites", 2}, {"tests", 3}};
const std::array<std::string_view, 2> other_folders = {"scripts", ".ci"};
const std::set<std::string, std::less<>> generated_headers = {"misfire_config.hpp"};

const std::array<std::string_view, 12> third_party = {"boost/", "nlohmann/", "jpeglib.h", "jerror.h", "turbojpeg.h", "mpi.h",
                                                      "cuda",   "cub/",      "nccl.h",    "hwloc",    "benchmark/",  "thrust/"};
struct Limit {
  std::string_view prefix;
  std::size_t sources_max;
};
const std::array<Limit, 2> limits = {Limit{"boost/process", 1}, Limit{"nlohmann/", 3}};

struct File {
  fs::path path;     // relative to the root
  std::string room;  // first folder, "" at the top
  std::vector<std::string> lines;
};

bool has_extension(const fs::path& path, std::initializer_list<std::string_view> extensions) {
  const std::string extension = path.extension().string();
  return std::any_of(extensions.begin(), extensions.end(), [&](std::string_view e) { return extension == e; });
}
bool is_header(const fs::path& path) { return has_extension(path, {".hpp", ".h", ".cuh"}); }
bool is_source(const fs::path& path) { return has_extension(path, {".cpp", ".c", ".cu"}); }
bool is_cmake(const fs::path& path) { return path.filename() == "CMakeLists.txt" || path.extension() == ".cmake"; }
bool is_code(const fs::path& path) { return is_header(path) || is_source(path) || path.extension() == ".inc"; }
/// Written by hand in lines: not data (JSON, golden output, corpora) and not prose.
bool has_columns(const File& file) {
  return is_code(file.path) || is_cmake(file.path) ||
         (file.path.extension().empty() && (file.room == "scripts" || file.room == ".ci"));
}
bool is_text(const File& file) { return has_columns(file) || has_extension(file.path, {".md", ".json", ".in", ".txt"}); }

std::vector<std::string> read_lines(const fs::path& path) {
  std::ifstream stream(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<File> read_tree(const fs::path& root) {
  std::vector<File> files;
  const auto add = [&](const fs::path& path, const std::string& room) {
    File file{fs::relative(path, root), room, {}};
    if (!is_text(file)) return;
    file.lines = read_lines(path);
    files.push_back(std::move(file));
  };
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file()) {
      add(entry.path(), "");
    } else if (entry.is_directory() &&
               (room_rank.contains(name) || std::ranges::find(other_folders, name) != other_folders.end())) {
      for (const auto& inner : fs::recursive_directory_iterator(entry.path()))
        if (inner.is_regular_file()) add(inner.path(), name);
    }
  }
  std::ranges::sort(files, {}, [](const File& file) { return file.path; });
  return files;
}

std::size_t columns(std::string_view line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

struct Include {
  std::string name;
  bool quoted;
};

std::optional<Include> include_of(const std::string& line) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
  std::smatch match;
  if (!std::regex_search(line, match, pattern)) return std::nullopt;
  return Include{match[2].str(), match[1].str() == "\""};
}

class Checker {
 public:
  explicit Checker(const fs::path& root) : root_(root), files_(read_tree(root)) {}

  std::vector<Violation> run() {
    for (const File& file : files_) {
      check_lines(file);
      if (is_code(file.path) && !file.room.empty()) {
        check_includes(file);
        check_listed(file);
      }
      if (is_header(file.path)) check_pragma(file);
    }
    for (const Limit& limit : limits) check_limit(limit);
    return std::move(violations_);
  }

 private:
  void violation(const File& file, std::size_t line, std::string message) {
    violations_.push_back({file.path.generic_string(), static_cast<int>(line), std::move(message)});
  }

  void check_lines(const File& file) {
    // Spelt in two parts, so that this file does not hold them.
    static const std::regex leftover(
        "\\b(TO"
        "DO|FIX"
        "ME|XX"
        "X|HA"
        "CK)\\b|^(<<<<"
        "<<<|>>>>"
        ">>>)( |$)");
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      std::smatch match;
      if (std::regex_search(line, match, leftover)) violation(file, i + 1, "leftover marker '" + match[0].str() + "'");
      if (!has_columns(file)) continue;
      if (columns(line) > columns_max)
        violation(file, i + 1, std::to_string(columns(line)) + " columns; at most " + std::to_string(columns_max));
      if (line.find('\t') != std::string::npos) violation(file, i + 1, "tab; indent with two spaces");
      if (!line.empty() && (line.back() == ' ' || line.back() == '\r')) violation(file, i + 1, "space at the end of the line");
    }
  }

  void check_pragma(const File& file) {
    if (std::ranges::find(file.lines, "#pragma once") == file.lines.end()) violation(file, 1, "header without #pragma once");
  }

  void check_includes(const File& file) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const auto include = include_of(file.lines[i]);
      if (!include) continue;
      if (include->quoted) {
        check_direction(file, i + 1, include->name);
      } else {
        const auto prefix = std::ranges::find_if(third_party, [&](std::string_view p) { return include->name.starts_with(p); });
        if (prefix != third_party.end() && is_header(file.path) && !(file.path.extension() == ".cuh" && *prefix == "cuda"))
          violation(file, i + 1, "<" + include->name + "> in a header: third-party types stay in sources");
      }
    }
  }

  void check_direction(const File& file, std::size_t line, const std::string& name) {
    if (generated_headers.contains(name)) return;
    const std::string to = name.substr(0, name.find('/'));
    const auto target = room_rank.find(to);
    if (target == room_rank.end() || !fs::exists(root_ / name)) {
      violation(file, line, "\"" + name + "\" is not a file of the repository: quotes are for paths from its root");
      return;
    }
    const auto from = room_rank.find(file.room);
    if (from == room_rank.end()) {
      violation(file, line, file.room + " includes " + to + ": only the rooms hold sources");
    } else if (file.room != to && target->second >= from->second) {
      violation(file, line,
                file.room + " includes " + to + " (\"" + name +
                    "\"): includes run tests -> suites -> {results | kernels | storage | faults} -> harness");
    }
  }

  /// Names a CMake file or a catalogue of the folder or of one above it, up to the root, in a word of its own. The sources of
  /// tests may be named without _test.cpp, as the items of a loop.
  void check_listed(const File& file) {
    if (file.path.extension() == ".inc") return;               // a catalogue lists; it is read by an include
    if (file.room == "tests" && is_header(file.path)) return;  // tests' headers are nobody's interface
    std::string stem = file.path.stem().string();
    const bool is_test = file.room == "tests" && stem.ends_with("_test");
    if (is_test) stem.resize(stem.size() - 5);
    for (fs::path folder = file.path.parent_path();; folder = folder.parent_path()) {
      const std::string name = file.path.lexically_relative(folder.empty() ? "." : folder).generic_string();
      if (words_of(folder).contains(name)) return;
      if (is_test && folder == file.path.parent_path() && words_of(folder).contains(stem)) return;
      if (folder.empty()) break;
    }
    // A catalogue's entry names <room>/<entry>.cpp and tests/<room>/<entry>_test.cpp.
    const fs::path folder = is_test ? file.path.parent_path().lexically_relative("tests") : file.path.parent_path();
    const fs::path catalogue = folder / "catalog.inc";
    for (const std::string& line : read_lines(root_ / catalogue)) {
      std::string plain = line.substr(0, line.find("//"));
      std::ranges::replace(plain, '.', '_');
      if (std::regex_search(plain, std::regex("\\b" + stem + "\\b"))) return;
    }
    violation(file, 0, "named by no CMakeLists.txt or catalog.inc: it is not built");
  }

  /// Everything that looks like a file name in the CMake files of one folder.
  const std::set<std::string, std::less<>>& words_of(const fs::path& folder) {
    const auto [entry, fresh] = words_.try_emplace(folder);
    if (!fresh) return entry->second;
    static const std::regex word("[A-Za-z0-9_./-]+");
    for (const File& file : files_) {
      if (!is_cmake(file.path) || file.path.parent_path() != folder) continue;
      for (const std::string& line : file.lines) {
        const std::string code = line.substr(0, line.find('#'));
        for (std::sregex_iterator it(code.begin(), code.end(), word), end; it != end; ++it) {
          std::string text = it->str();
          text.erase(0, text.find_first_not_of('/'));  // the rest of ${CMAKE_CURRENT_SOURCE_DIR}/name
          entry->second.insert(text);
        }
      }
    }
    return entry->second;
  }

  void check_limit(const Limit& limit) {
    std::size_t sources = 0;
    for (const File& file : files_) {
      if (!is_source(file.path)) continue;
      for (std::size_t i = 0; i < file.lines.size(); ++i) {
        const auto include = include_of(file.lines[i]);
        if (!include || include->quoted || !include->name.starts_with(limit.prefix)) continue;
        if (++sources > limit.sources_max)
          violation(file, i + 1,
                    "<" + include->name + "> in a further source: " + std::string(limit.prefix) + " is allowed in " +
                        std::to_string(limit.sources_max));
        break;
      }
    }
  }

  fs::path root_;
  std::vector<File> files_;
  std::map<fs::path, std::set<std::string, std::less<>>> words_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> check_tree(const fs::path& root) { return Checker(root).run(); }

std::vector<Violation> check_labels(const Json& tests) {
  std::vector<Violation> violations;
  std::set<std::string> all;
  for (const Json& test : tests.at("tests").as_array()) {
    const std::string& name = test.at("name").as_string();
    std::set<std::string> labels;
    if (const Json* properties = test.find("properties"))
      for (const Json& property : properties->as_array())
        if (property.at("name") == Json("LABELS"))
          for (const Json& label : property.at("value").as_array()) labels.insert(label.as_string());
    all.insert(labels.begin(), labels.end());
    if (name.starts_with("require.")) continue;
    const std::size_t places = labels.count("cpu") + labels.count("gpu");
    if (places != 1) violations.push_back({name, 0, "has " + std::to_string(places) + " of the labels cpu and gpu; exactly one"});
    if (labels.size() < 2) violations.push_back({name, 0, "has no label that says what kind of test it is"});
  }
  for (const std::string& label : all)
    for (const std::string& other : all)
      if (label != other && other.find(label) != std::string::npos)
        violations.push_back({label, 0, "is part of the label '" + other + "': 'ctest -L " + label + "' selects both"});
  return violations;
}

}  // namespace misfire::tidy
