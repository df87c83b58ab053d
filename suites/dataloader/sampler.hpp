#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/seed.hpp"

namespace misfire::dataloader {

/// Which samples a rank sees in an epoch, in order.
struct SamplerOptions {
  std::size_t size = 0;
  bool shuffle = false;
  int rank = 0, world_size = 1;
  bool pad = true;  ///< repeat the first samples so that every rank gets as many; otherwise drop the tail
};

/// @source torch.utils.data.distributed.DistributedSampler: pad or cut to a multiple of world_size, then rank, rank + world, ...
std::vector<std::size_t> sample_indices(const SamplerOptions& options, Seed seed, std::uint64_t epoch);

/// Cuts into batches; the last one may be short, or is dropped.
std::vector<std::vector<std::size_t>> batches_of(const std::vector<std::size_t>& indices, std::size_t batch_size, bool drop_last);

/// Shards that worker `worker` of `workers` on rank `rank` of `world_size` reads: every (rank, worker)-th one, or all when not
/// split.
std::vector<std::size_t> shards_of(std::size_t shards, int rank, int world_size, int worker, int workers, bool split);

}  // namespace misfire::dataloader
