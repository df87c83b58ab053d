#include "suites/dataloader/worker.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>

#include "harness/error.hpp"
#include "suites/dataloader/sampler.hpp"
#include "suites/dataloader/sites.hpp"

namespace misfire::dataloader {

std::vector<Option> loader_option_list(LoaderOptions& o) {
  return {
      {"num_workers", &o.num_workers, "workers that make batches; 0: the consumer does", Unit::count, 0, 512},
      {"mode", &o.mode, "workers are processes or threads", Unit::text, 0, 0, {"process", "thread"}},
      {"start_method", &o.start_method, "how worker processes start", Unit::text, 0, 0, {"fork", "forkserver", "spawn"}},
      {"batch_size", &o.batch_size, "samples in a batch", Unit::count, 1, 4096},
      {"prefetch_factor", &o.prefetch_factor, "batches outstanding for each worker", Unit::count, 1, 1024},
      {"in_order", &o.in_order, "deliver batches in the order of their numbers"},
      {"assignment",
       &o.assignment,
       "who makes the next batch: strict rotation, or whoever has least to do",
       Unit::text,
       0,
       0,
       {"round_robin", "by_demand"}},
      {"persistent_workers", &o.persistent_workers, "keep the workers from one epoch to the next"},
      {"sharing",
       &o.sharing,
       "how batches in shared memory reach the consumer: by descriptor or by name",
       Unit::text,
       0,
       0,
       {"descriptor", "name"}},
      {"segments",
       &o.segments,
       "shared memory: one pool, used again and again, or a fresh file for each batch",
       Unit::text,
       0,
       0,
       {"pooled", "fresh"}},
      {"reserve", &o.reserve, "take the pages of shared memory before they are written"},
      {"affinity",
       &o.affinity,
       "CPUs of the workers: not set, one each, or those of a NUMA node in turn",
       Unit::text,
       0,
       0,
       {"none", "explicit", "per_node"}},
      {"affinity_cpus",
       &o.affinity_cpus,
       "CPUs for affinity=explicit ('0-3,8'); empty: every CPU that the kernel grants",
       Unit::text,
       0,
       0,
       {},
       "LIST"},
      {"shuffle", &o.shuffle, "random order, another in each epoch"},
      {"drop_last", &o.drop_last, "leave out a last batch that is not full"},
      {"rank", &o.rank, "this rank", Unit::count, 0, 65535},
      {"world_size", &o.world_size, "ranks that share the data", Unit::count, 1, 65536},
      {"pad", &o.pad, "repeat samples so that ranks get equally many; otherwise drop some"},
      {"iterable", &o.iterable, "the dataset is a stream that each worker reads by itself"},
      {"split_shards", &o.split_shards, "each worker reads its own shards of the stream; otherwise all read everything"},
      {"held_batches", &o.held_batches, "batches that the consumer keeps after use", Unit::count, 0, 4096},
      {"on_bad_sample",
       &o.on_bad_sample,
       "a sample that cannot be decoded is left out, or ends the epoch",
       Unit::text,
       0,
       0,
       {"skip", "refuse"}},
      {"timeout", &o.timeout, "longest wait for a batch; 0: no limit", Unit::seconds, 0, 1e6},
  };
}

Made could_not_start(const Task& task, int worker, const std::string& trouble) {
  Made made;
  made.status = Made::Status::error;
  made.batch = task.batch;
  made.worker = worker;
  made.slot = task.slot;
  made.text = "could not start: " + trouble;
  return made;
}

BatchMaker::BatchMaker(const Dataset& dataset, const LoaderOptions& options, int worker, Seed seed, Lane& lane,
                       Position* position)
    : dataset_(dataset), options_(options), worker_(worker), context_{lane, seed, 0}, position_(position) {}

std::vector<std::uint32_t> BatchMaker::next_of_stream(int epoch) {
  if (stream_epoch_ != epoch) {
    stream_epoch_ = epoch;
    stream_at_ = 0;
    stream_.clear();
    const std::size_t shards = dataset_.shards();
    // The consumer itself is the one reader of its rank.
    for (const std::size_t shard : shards_of(shards, options_.rank, options_.world_size, std::max(0, worker_),
                                             std::max(1, options_.num_workers), options_.split_shards))
      for (std::size_t i = shard; i < dataset_.size(); i += shards) stream_.push_back(static_cast<std::uint32_t>(i));
  }
  const auto full = static_cast<std::size_t>(options_.batch_size);
  std::size_t count = std::min(full, stream_.size() - stream_at_);
  if (options_.drop_last && count < full) count = 0;
  const auto first = stream_.begin() + static_cast<std::ptrdiff_t>(stream_at_);
  stream_at_ += count;
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

Made BatchMaker::make(const Task& task, std::span<std::uint8_t> pool) {
  Made made;
  made.batch = task.batch;
  made.worker = worker_;
  made.slot = task.slot;
  const std::vector<std::uint32_t> wanted = options_.iterable ? next_of_stream(task.epoch) : task.indices;
  if (wanted.empty()) {
    made.status = Made::Status::empty;
    return made;
  }
  if (position_) position_->batch.store(task.batch, std::memory_order_relaxed);
  context_.bytes_read = 0;
  bool loading = false;
  try {
    dataset_.on_batch(worker_, ++batches_);
    context_.lane.begin(site::load, task.batch);
    loading = true;
    std::span<std::uint8_t> memory = pool;
    if (task.slot < 0) {
      const auto sharing = options_.sharing == "name" ? Segment::Sharing::name : Segment::Sharing::descriptor;
      made.segment = options_.mode == "thread" || worker_ < 0
                         ? Segment::anonymous(wanted.size() * image_bytes)
                         : Segment::create(wanted.size() * image_bytes, sharing, options_.reserve);
      memory = made.segment.bytes();
    }
    for (const std::uint32_t index : wanted) {
      if (position_) position_->sample.store(index, std::memory_order_relaxed);
      std::int32_t label = 0;
      const SampleResult result =
          dataset_.load(index, task.epoch, memory.subspan(made.indices.size() * image_bytes, image_bytes), label, context_);
      if (!result.ok) {
        context_.lane.sample(site::bad_sample, index, task.batch);
        if (options_.on_bad_sample == "refuse") throw Error(ErrorCode::invalid_input, result.message);
        continue;
      }
      made.indices.push_back(index);
      made.labels.push_back(label);
    }
  } catch (const Error& error) {
    made.status = error.code() == ErrorCode::no_space ? Made::Status::no_space : Made::Status::error;
    made.text = error.what();
  } catch (const std::exception& error) {
    made.status = Made::Status::error;
    made.text = error.what();
  }
  if (loading) {
    context_.lane.sample(site::bytes, static_cast<double>(context_.bytes_read), task.batch);
    context_.lane.end(site::load, task.batch);
  }
  if (position_) position_->sample.store(-1, std::memory_order_relaxed);
  return made;
}

std::shared_ptr<const Topology> topology_for(const LoaderOptions& options) {
  return options.affinity == "per_node" ? std::make_shared<const Topology>(Topology::of_this_machine()) : nullptr;
}

void place_worker(const LoaderOptions& options, const Topology* topology, int worker) {
  if (options.affinity == "none") return;
  std::vector<int> cpus;
  if (options.affinity == "explicit") {
    // One owner of affinity: what an outer layer left in the mask does not bind us; the kernel (a cpuset) still does.
    std::vector<int> choice;
    if (options.affinity_cpus.empty()) {
      cpu_set_t all;
      CPU_ZERO(&all);
      for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &all);
      if (sched_setaffinity(0, sizeof all, &all) != 0)
        throw system_error("widen the CPU mask of worker", std::to_string(worker), errno);
      choice = affinity_mask();
    } else {
      choice = parse_cpu_list(options.affinity_cpus);
    }
    if (choice.empty()) throw Error(ErrorCode::invalid_input, "affinity=explicit: no CPU is listed");
    cpus = {choice[static_cast<std::size_t>(worker) % choice.size()]};
  } else {
    cpus = cpus_for_worker(*topology, {.placement = Placement::per_node}, worker);
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus)
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    throw Error(ErrorCode::invalid_input, "worker " + std::to_string(worker) + " cannot be bound to CPU " + cpu_list_text(cpus) +
                                              ": not a CPU that the kernel grants this process");
}

}  // namespace misfire::dataloader
