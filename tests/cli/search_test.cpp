// Goal: a pasted log line finds its failure, and lines of other troubles find none. Method: the shipped failures, texts as people
// paste them.

#include "suites/cli/search.hpp"

#include "suites/catalog.hpp"
#include "tests/check.hpp"

namespace misfire::cli {
namespace {

const std::vector<Failure>& failures() {
  static const std::vector<Failure> all = [] {
    std::vector<Failure> list;
    for (const std::string& path : shipped_failures()) list.push_back(read_failure(path, vocabulary()));
    return list;
  }();
  return all;
}

/// Name of the best match, "" for none.
std::string best(std::string_view text) {
  const std::vector<Match> matches = search(failures(), text);
  return matches.empty() ? "" : failures()[matches.front().index].name;
}

TEST("a pasted log line finds its failure") {
  CHECK_EQ(best("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that dataloader's "
                "workers are "
                "out of shared memory. Please try to raise your shared memory limit."),
           "shm-exhaustion-sigbus");
  CHECK_EQ(best("ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."),
           "shm-exhaustion-sigbus");
  CHECK_EQ(
      best(
          "The dataloader, train_dataloader, does not have many workers which may be a bottleneck. Consider increasing the value "
          "of the `num_workers` argument` (try 8 which is the number of cpus on this machine)"),
      "no-workers-serial");
  CHECK_EQ(best("Too many dataloader workers: 16 (max is dataset.n_shards=4). Stopping 12 dataloader workers."),
           "iterable-duplicate-or-starved-shards");
}

TEST("a whole log finds what one of its lines says") {
  CHECK_EQ(best("epoch 0 step 12 loss 2.31\nTraceback (most recent call last):\n  File \"train.py\", line 88, in <module>\n"
                "RuntimeError: DataLoader worker (pid(s) 9876) exited unexpectedly\n"
                "Please try to raise your shared memory limit\n[rank0] terminating\n"),
           "shm-exhaustion-sigbus");
}

TEST("a few words are enough, whatever their endings") {
  CHECK_EQ(best("Bus error"), "shm-exhaustion-sigbus");
  CHECK_EQ(best("memory keeps growing"), "copy-on-write-growth");
  CHECK_EQ(best("first batch of every epoch slow"), "nonpersistent-workers-epoch-gap");
  CHECK_EQ(best("pinned to same core"), "numa-binding-conflict");
}

TEST("every search term and every name finds its own failure first") {
  for (const Failure& failure : failures()) {
    CHECK_EQ(best(failure.name), failure.name);
    for (const std::string& term : failure.search_for) {
      bool found = false;
      for (const Match& match : search(failures(), term)) found = found || failures()[match.index].name == failure.name;
      if (!found) CHECK_EQ(term, failure.name);
    }
  }
}

TEST("other troubles, and nothing, find none") {
  for (const char* text : {"connection refused", "CUDA out of memory", "loss is NaN", "Segmentation fault (core dumped)",
                           "OSError: [Errno 28] No space left on device", "Watchdog caught collective operation timeout", "",
                           "\n\n", "4711 0x7f3a 99999", "lorem ipsum dolor sit amet"})
    CHECK_EQ(best(text), "");
}

TEST("numbers and addresses do not count, the matching text is told, scores are shares") {
  const auto one = search(failures(), "DataLoader worker (pid 1) is killed by signal: Bus error");
  const auto other = search(failures(), "DataLoader worker (pid 98765) is killed by signal: Bus error");
  CHECK_EQ(one.size(), other.size());
  CHECK(!one.empty() && one.front().score == other.front().score);
  CHECK(!one.empty() && one.front().because.find("Bus error") != std::string::npos);
  for (const Match& match : one) CHECK(match.score > 0 && match.score <= 1.000001);
}

}  // namespace
}  // namespace misfire::cli
