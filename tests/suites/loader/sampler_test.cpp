#include "suites/dataloader/sampler.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/check.hpp"

namespace misfire::dataloader {
namespace {

using Indices = std::vector<std::size_t>;

TEST("without shuffling ranks take every world-size-th sample") {
  // torch: list(DistributedSampler(range(10), num_replicas=3, rank=r, shuffle=False))
  const Indices padded[] = {{0, 3, 6, 9}, {1, 4, 7, 0}, {2, 5, 8, 1}};
  // ... with drop_last=True
  const Indices cut[] = {{0, 3, 6}, {1, 4, 7}, {2, 5, 8}};
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(sample_indices({10, false, rank, 3, true}, Seed(1), 0) == padded[rank]);
    CHECK(sample_indices({10, false, rank, 3, false}, Seed(1), 0) == cut[rank]);
  }
}

TEST("fewer samples than ranks are repeated as often as it takes") {
  // torch: DistributedSampler(range(2), num_replicas=5, shuffle=False) -> 0, 1, 0, 1, 0
  for (int rank = 0; rank < 5; ++rank)
    CHECK(sample_indices({2, false, rank, 5, true}, Seed(1), 0) == Indices{static_cast<std::size_t>(rank % 2)});
  for (int rank = 0; rank < 5; ++rank) CHECK(sample_indices({2, false, rank, 5, false}, Seed(1), 0).empty());
  CHECK(sample_indices({0, true, 1, 3, true}, Seed(1), 0).empty());
}

TEST("padding repeats exactly what is missing, once each") {
  for (const std::size_t size : {7U, 8U, 9U, 100U, 101U})
    for (const int world : {1, 2, 3, 8}) {
      std::map<std::size_t, int> seen;
      for (int rank = 0; rank < world; ++rank)
        for (const std::size_t index : sample_indices({size, true, rank, world, true}, Seed(5), 2)) ++seen[index];
      CHECK_EQ(seen.size(), size);
      const std::size_t ways = static_cast<std::size_t>(world), missing = (ways - size % ways) % ways;
      CHECK_EQ(static_cast<std::size_t>(std::count_if(seen.begin(), seen.end(), [](const auto& s) { return s.second == 2; })),
               missing);
      CHECK(std::all_of(seen.begin(), seen.end(), [](const auto& s) { return s.second <= 2; }));
    }
}

TEST("a shuffled epoch is a permutation, the same for a seed, another for another epoch") {
  const Indices first = sample_indices({1000, true}, Seed(3), 0);
  Indices sorted = first;
  std::sort(sorted.begin(), sorted.end());
  Indices all(1000);
  std::iota(all.begin(), all.end(), 0U);
  CHECK(sorted == all);
  CHECK(first == sample_indices({1000, true}, Seed(3), 0));
  CHECK(first != sample_indices({1000, true}, Seed(3), 1));
  CHECK(first != sample_indices({1000, true}, Seed(4), 0));
  CHECK(first != all);
  // Where a sample lands is uniform: the first place of 2000 epochs holds small and large ones alike.
  double sum = 0;
  for (std::uint64_t epoch = 0; epoch < 2000; ++epoch)
    sum += static_cast<double>(sample_indices({101, true}, Seed(3), epoch).front());
  CHECK_NEAR(sum / 2000, 50.0, 3.0);  // 4.6 standard errors
}

TEST("batches are cut in order and the last may be short or dropped") {
  const Indices indices{5, 6, 7, 8, 9};
  CHECK(batches_of(indices, 2, false) == (std::vector<Indices>{{5, 6}, {7, 8}, {9}}));
  CHECK(batches_of(indices, 2, true) == (std::vector<Indices>{{5, 6}, {7, 8}}));
  CHECK(batches_of(indices, 5, true) == (std::vector<Indices>{indices}));
  CHECK(batches_of(indices, 9, true).empty());
  CHECK(batches_of({}, 3, false).empty());
}

TEST("split shards are read once by one worker of one rank, unsplit ones by all") {
  for (const std::size_t shards : {1U, 3U, 8U, 17U})
    for (const int world : {1, 2})
      for (const int workers : {1, 3}) {
        std::map<std::size_t, int> split, unsplit;
        for (int rank = 0; rank < world; ++rank)
          for (int worker = 0; worker < workers; ++worker) {
            for (const std::size_t shard : shards_of(shards, rank, world, worker, workers, true)) ++split[shard];
            for (const std::size_t shard : shards_of(shards, rank, world, worker, workers, false)) ++unsplit[shard];
          }
        CHECK_EQ(split.size(), shards);
        CHECK(std::all_of(split.begin(), split.end(), [](const auto& s) { return s.second == 1; }));
        CHECK(std::all_of(unsplit.begin(), unsplit.end(), [&](const auto& s) { return s.second == world * workers; }));
      }
  // With fewer shards than workers somebody starves.
  CHECK(shards_of(2, 0, 1, 2, 3, true).empty());
}

}  // namespace
}  // namespace misfire::dataloader
