// Images as files below a directory, each opened, read and closed when asked for, as a data set in a file system is used.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "harness/error.hpp"
#include "storage/file.hpp"

namespace misfire {
namespace {

class Directory final : public SampleSource {
 public:
  explicit Directory(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code failed;
    if (!fs::is_directory(path, failed)) {
      if (failed) throw system_error("open data set", path, failed.value());
      throw Error(ErrorCode::invalid_input, "open data set '" + path + "': not a directory");
    }
    std::string where = path;  // what an error while walking is about
    for (fs::recursive_directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed)) {
      where = entry->path().string();
      if (!is_image_name(where)) continue;
      struct stat status;
      // A link to nowhere is listed as well: reading it names it.
      const bool there = ::stat(where.c_str(), &status) == 0;
      if (there && !S_ISREG(status.st_mode)) continue;
      samples_.push_back({where, there ? static_cast<std::uint64_t>(status.st_size) : 0});
    }
    if (failed) throw system_error("search for images at", where, failed.value());
    if (samples_.empty())
      throw Error(ErrorCode::invalid_input, "open data set '" + path + "': no *.jpg or *.jpeg in it or below");
    std::sort(samples_.begin(), samples_.end(), [](const Sample& a, const Sample& b) { return a.path < b.path; });
  }

  std::size_t size() const noexcept override { return samples_.size(); }
  std::string name(std::size_t index) const override { return samples_.at(index).path; }
  Locality locality(std::size_t index) const override { return {.shard = 0, .offset = 0, .size = samples_.at(index).size}; }
  std::size_t shards() const noexcept override { return 1; }

  std::span<const std::uint8_t> read(std::size_t index, std::vector<std::uint8_t>& buffer) const override {
    const File file(samples_.at(index).path);
    const std::uint64_t size = file.size();
    if (size > sample_bytes_max) {
      throw Error(ErrorCode::invalid_input,
                  "read '" + file.path() + "': " + std::to_string(size) + " bytes, more than an image may have");
    }
    if (buffer.size() < size) buffer.resize(size);
    const std::size_t count = file.read_at(0, {buffer.data(), size});
    return {buffer.data(), count};
  }

 private:
  struct Sample {
    std::string path;
    std::uint64_t size;
  };
  std::vector<Sample> samples_;
};

}  // namespace

std::unique_ptr<SampleSource> open_directory(const std::string& path) { return std::make_unique<Directory>(path); }

}  // namespace misfire
