#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/sample_source.hpp"

namespace misfire {

/// Largest sample that is read; a larger one is not an image but a mistake.
inline constexpr std::uint64_t sample_bytes_max = 256ULL << 20;

/// A file open for reading at any offset, by any thread or forked process at once.
class File {
 public:
  /// @throws Error{not_found, permission, io} naming the path
  explicit File(std::string path);
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  const std::string& path() const noexcept { return path_; }
  std::uint64_t size() const;
  /// Reads until `to` is full or the file ends. @return bytes read. @throws Error{io}
  std::size_t read_at(std::uint64_t offset, std::span<std::uint8_t> to) const;

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// Whether a file of this name is taken for an image: *.jpg, *.jpeg, in any case.
bool is_image_name(const std::string& name);

/// Entries of storage/catalog.inc.
std::unique_ptr<SampleSource> open_directory(const std::string& path);
std::unique_ptr<SampleSource> open_tar_shards(const std::string& path);
std::unique_ptr<SampleSource> open_memory(const std::string& path);

}  // namespace misfire
