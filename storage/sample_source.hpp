#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace misfire {

/// Where a sample lies. Samples of one shard with rising offsets are cheap to read one after the other.
struct Locality {
  std::uint32_t shard = 0;   ///< below shards()
  std::uint64_t offset = 0;  ///< in the shard, in bytes
  std::uint64_t size = 0;    ///< in bytes, as found when the source was opened
};

/// A fixed, ordered collection of encoded images (*.jpg, *.jpeg in any case), read whole, by index.
///
/// The index is built once, when the source is opened. Afterwards an object is immutable: any number of threads, and processes
/// forked after it was opened, read from it at once.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::size_t size() const noexcept = 0;
  /// A path people can find the sample by: "/data/a.jpg", or "/data/0.tar/a.jpg" for a member of a shard.
  virtual std::string name(std::size_t index) const = 0;
  virtual Locality locality(std::size_t index) const = 0;
  virtual std::size_t shards() const noexcept = 0;

  /// The bytes of one sample, at most 256 MiB.
  /// @param buffer  may hold the bytes: they are valid until it is changed and the source dies. Keep one a thread.
  /// @throws Error{not_found, permission, io, invalid_input} naming the sample's path
  virtual std::span<const std::uint8_t> read(std::size_t index, std::vector<std::uint8_t>& buffer) const = 0;
};

/// Opens a source by its name in storage/catalog.inc: "directory", "tar_shards", "memory".
/// @param name  empty: tar_shards for a *.tar file or a directory that holds any, else directory
/// @param path  a directory (searched recursively, sorted by path), or one *.tar file
/// @throws Error{not_found} for an unknown name, with the nearest, or a path that is not there; Error{invalid_input} for a path
///         without images or a damaged archive, with path and offset; Error{permission, io}
std::unique_ptr<SampleSource> open_samples(std::string_view name, const std::string& path);

std::vector<std::string_view> sample_source_names();

/// A source over bytes already in memory.
struct MemorySample {
  std::string name;
  std::vector<std::uint8_t> bytes;
};
std::unique_ptr<SampleSource> samples_in_memory(std::vector<MemorySample> samples);

}  // namespace misfire
