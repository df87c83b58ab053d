// Images in memory: what remains of loading when storage costs nothing.
#include <utility>

#include "harness/error.hpp"
#include "storage/file.hpp"

namespace misfire {
namespace {

class Memory final : public SampleSource {
 public:
  explicit Memory(std::vector<MemorySample> samples) : samples_(std::move(samples)) {
    std::uint64_t offset = 0;
    for (const MemorySample& sample : samples_) {
      localities_.push_back({.shard = 0, .offset = offset, .size = sample.bytes.size()});
      offset += sample.bytes.size();
    }
  }

  /// Everything that another source has, with its names and shards.
  explicit Memory(const SampleSource& from) : shards_(from.shards()) {
    std::vector<std::uint8_t> buffer;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::span<const std::uint8_t> bytes = from.read(i, buffer);
      samples_.push_back({from.name(i), {bytes.begin(), bytes.end()}});
      localities_.push_back(from.locality(i));
    }
  }

  std::size_t size() const noexcept override { return samples_.size(); }
  std::string name(std::size_t index) const override { return samples_.at(index).name; }
  Locality locality(std::size_t index) const override { return localities_.at(index); }
  std::size_t shards() const noexcept override { return shards_; }
  std::span<const std::uint8_t> read(std::size_t index, std::vector<std::uint8_t>&) const override {
    return samples_.at(index).bytes;
  }

 private:
  std::size_t shards_ = 1;
  std::vector<MemorySample> samples_;
  std::vector<Locality> localities_;
};

}  // namespace

std::unique_ptr<SampleSource> samples_in_memory(std::vector<MemorySample> samples) {
  if (samples.empty()) throw Error(ErrorCode::invalid_input, "a data set in memory needs at least one sample");
  return std::make_unique<Memory>(std::move(samples));
}

std::unique_ptr<SampleSource> open_memory(const std::string& path) { return std::make_unique<Memory>(*open_samples("", path)); }

}  // namespace misfire
