#include "storage/sample_source.hpp"

#include <filesystem>

#include "harness/error.hpp"
#include "harness/text.hpp"
#include "storage/file.hpp"

namespace misfire {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<SampleSource> (*open)(const std::string& path);
};

constexpr Entry catalog[] = {
#define MISFIRE_SAMPLE_SOURCE(name) {#name, &open_##name},
#include "storage/catalog.inc"
#undef MISFIRE_SAMPLE_SOURCE
};

bool has_shards(const std::string& path) {
  namespace fs = std::filesystem;
  if (to_lower(path).ends_with(".tar")) return true;
  std::error_code failed;
  for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (to_lower(entry->path().filename().string()).ends_with(".tar")) return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<SampleSource> open_samples(std::string_view name, const std::string& path) {
  if (name.empty()) name = has_shards(path) ? "tar_shards" : "directory";
  for (const Entry& entry : catalog) {
    if (entry.name == name) return entry.open(path);
  }
  const std::vector<std::string_view> names = sample_source_names();
  throw Error(ErrorCode::not_found, "no sample source is named '" + std::string(name) + "'" + did_you_mean(name, names));
}

std::vector<std::string_view> sample_source_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : catalog) names.push_back(entry.name);
  return names;
}

}  // namespace misfire
