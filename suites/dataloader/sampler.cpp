#include "suites/dataloader/sampler.hpp"

#include <numeric>
#include <utility>

namespace misfire::dataloader {

std::vector<std::size_t> sample_indices(const SamplerOptions& options, Seed seed, std::uint64_t epoch) {
  std::vector<std::size_t> all(options.size);
  std::iota(all.begin(), all.end(), 0);
  if (options.shuffle) {
    Stream stream = seed.stream("sampler").substream(epoch);
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[stream.below(i)]);  // Fisher and Yates
  }
  const auto world = static_cast<std::size_t>(options.world_size);
  if (world == 1) return all;
  if (options.pad) {
    const std::size_t total = (all.size() + world - 1) / world * world;
    for (std::size_t i = 0; all.size() < total && options.size > 0; ++i) all.push_back(all[i % options.size]);
  } else {
    all.resize(all.size() / world * world);
  }
  std::vector<std::size_t> mine;
  for (std::size_t i = static_cast<std::size_t>(options.rank); i < all.size(); i += world) mine.push_back(all[i]);
  return mine;
}

std::vector<std::vector<std::size_t>> batches_of(const std::vector<std::size_t>& indices, std::size_t batch_size,
                                                 bool drop_last) {
  std::vector<std::vector<std::size_t>> batches;
  for (std::size_t first = 0; first < indices.size(); first += batch_size) {
    const std::size_t last = std::min(first + batch_size, indices.size());
    if (drop_last && last - first < batch_size) break;
    batches.emplace_back(indices.begin() + static_cast<std::ptrdiff_t>(first),
                         indices.begin() + static_cast<std::ptrdiff_t>(last));
  }
  return batches;
}

std::vector<std::size_t> shards_of(std::size_t shards, int rank, int world_size, int worker, int workers, bool split) {
  std::vector<std::size_t> mine;
  const auto place = static_cast<std::size_t>(rank * workers + worker), places = static_cast<std::size_t>(world_size * workers);
  for (std::size_t shard = 0; shard < shards; ++shard)
    if (!split || shard % places == place) mine.push_back(shard);
  return mine;
}

}  // namespace misfire::dataloader
