#include "suites/dataloader/loader.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "harness/error.hpp"
#include "suites/dataloader/sampler.hpp"
#include "suites/dataloader/sites.hpp"

namespace misfire::dataloader {

namespace {

const LoaderOptions& checked(const LoaderOptions& options) {
  if (options.rank >= options.world_size)
    throw Error(ErrorCode::invalid_input, "rank=" + std::to_string(options.rank) +
                                              " of world_size=" + std::to_string(options.world_size) + ": ranks count from 0");
  if (options.iterable && options.shuffle)
    throw Error(ErrorCode::invalid_input, "shuffle and iterable together: a stream has the order that it has");
  return options;
}

}  // namespace

Batch& Batch::operator=(Batch&& other) noexcept {
  std::swap(number, other.number);
  std::swap(worker, other.worker);
  std::swap(labels, other.labels);
  std::swap(indices, other.indices);
  std::swap(images_, other.images_);
  std::swap(segment_, other.segment_);
  std::swap(slots_, other.slots_);
  std::swap(slot_, other.slot_);
  return *this;
}

Batch::~Batch() {
  if (slot_ >= 0) slots_->release(slot_);
}

Loader::Loader(const LoaderOptions& options, const Dataset& dataset, Seed seed, Recorder& recorder, Lane& lane,
               int recorder_descriptor, Json description)
    : options_(checked(options)),
      dataset_(dataset),
      seed_(seed),
      lane_(lane),
      schedule_(
          {std::max(1, options.num_workers), options.prefetch_factor, options.in_order, options.assignment == "by_demand"}) {
  const bool threads = options.mode == "thread";
  if (options.segments == "pooled") {
    // As many as can be outstanding, the one in use, and those that the consumer keeps.
    const int slots = std::max(1, options.num_workers * options.prefetch_factor) + 1 + options.held_batches;
    const std::size_t slot_bytes = static_cast<std::size_t>(options.batch_size) * image_bytes;
    const std::size_t bytes = slot_bytes * static_cast<std::size_t>(slots);
    Segment memory =
        threads || options.num_workers == 0
            ? Segment::anonymous(bytes)
            : Segment::create(bytes, options.sharing == "name" ? Segment::Sharing::name : Segment::Sharing::descriptor,
                              options.reserve);
    slots_ = std::make_shared<Slots>(std::move(memory), slot_bytes, slots);
  }
  if (options.num_workers == 0) {
    own_ = std::make_unique<BatchMaker>(dataset, options_, -1, seed, lane, nullptr);
    return;
  }
  PoolSetup setup{dataset, options_, seed};
  setup.recorder = recorder;
  setup.recorder_descriptor = recorder_descriptor;
  setup.slots = slots_.get();
  setup.description = std::move(description);
  workers_ = threads ? make_thread_pool(setup) : make_process_pool(setup);
}

Loader::~Loader() { stop(); }

void Loader::start() {
  if (!workers_ || workers_->running()) return;
  workers_->prepare();
  workers_->start();
}

void Loader::stop() {
  if (workers_) workers_->stop();
  abandon();
  if (slots_) slots_->memory().unlink();
}

/// Lets go of what an epoch left. Memory that a worker writes to is free when the worker has answered, or is no more.
void Loader::abandon() {
  for (const auto& [batch, made] : finished_) release(made.slot);
  finished_.clear();
  if (workers_ && workers_->running() && !asked_.empty()) {
    if (!options_.persistent_workers) workers_->stop();
    while (workers_->running() && !asked_.empty()) {
      if (const auto made = workers_->receive(patience())) {
        release(made->slot);
        asked_.erase(made->batch);
      } else if (options_.timeout > Duration::zero()) {
        workers_->stop();
      }
    }
  }
  for (const auto& [batch, slot] : asked_) release(slot);
  asked_.clear();
}

void Loader::begin_epoch(int epoch) {
  epoch_ = epoch;
  abandon();
  if (workers_ && !workers_->running()) workers_->start();
  first_batch_ = next_batch_;
  std::uint64_t count = std::numeric_limits<std::uint32_t>::max() - first_batch_;  // a stream ends when its workers say so
  if (!options_.iterable) {
    const SamplerOptions sampler{dataset_.size(), options_.shuffle, options_.rank, options_.world_size, options_.pad};
    batches_ = batches_of(sample_indices(sampler, seed_, static_cast<std::uint64_t>(epoch)),
                          static_cast<std::size_t>(options_.batch_size), options_.drop_last);
    count = batches_.size();
  }
  schedule_.begin(first_batch_, count);
  assign();
}

Task Loader::next_task(std::uint32_t batch) {
  Task task;
  task.batch = batch;
  task.epoch = epoch_;
  if (slots_) task.slot = slots_->take();
  if (!options_.iterable) {
    const auto& indices = batches_[batch - first_batch_];
    task.indices.assign(indices.begin(), indices.end());
  }
  return task;
}

void Loader::assign() {
  if (!workers_) return;
  while (!slots_ || slots_->any_free()) {
    const auto assignment = schedule_.assign();
    if (!assignment) return;
    const Task task = next_task(assignment->batch);
    asked_.emplace(task.batch, task.slot);
    next_batch_ = std::max(next_batch_, assignment->batch + 1);
    workers_->send(assignment->worker, task);
  }
}

void Loader::take(Made made) {
  asked_.erase(made.batch);
  if (made.status == Made::Status::made) {
    schedule_.finished(made.batch, Schedule::Finish::made);
    finished_.emplace(made.batch, std::move(made));
    return;
  }
  release(made.slot);
  schedule_.finished(made.batch, made.status == Made::Status::empty ? Schedule::Finish::ended : Schedule::Finish::lost);
  if (made.status == Made::Status::no_space)
    throw Error(ErrorCode::no_space, "worker " + std::to_string(made.worker) + ": " + made.text);
  if (made.status == Made::Status::error)
    throw Error(ErrorCode::invalid_input,
                "worker " + std::to_string(made.worker) + ", batch " + std::to_string(made.batch) + ": " + made.text);
}

Batch Loader::deliver(Made made) {
  Batch batch;
  batch.number = made.batch;
  batch.worker = made.worker;
  batch.labels = std::move(made.labels);
  batch.indices = std::move(made.indices);
  batch.segment_ = std::move(made.segment);
  std::span<std::uint8_t> memory = batch.segment_.bytes();
  if (made.slot >= 0) {
    batch.slots_ = slots_;
    batch.slot_ = made.slot;
    memory = slots_->bytes(made.slot);
  }
  batch.images_ = memory.first(batch.indices.size() * image_bytes);
  lane_.mark(site::delivered_batch, batch.number);
  lane_.sample(site::made_by, batch.worker, batch.number);
  for (const std::uint32_t index : batch.indices) lane_.sample(site::delivered, index, batch.number);
  return batch;
}

namespace {
[[noreturn]] void keeps_too_many() { throw Error(ErrorCode::usage, "the consumer holds more batches than held_batches allows"); }
}  // namespace

/// Without workers.
std::optional<Batch> Loader::make_next() {
  if (!options_.iterable && next_batch_ - first_batch_ >= batches_.size()) return std::nullopt;
  if (slots_ && !slots_->any_free()) keeps_too_many();
  lane_.begin(site::wait, next_batch_);
  const Task task = next_task(next_batch_);
  Made made = own_->make(task, slots_ ? slots_->bytes(task.slot) : std::span<std::uint8_t>());
  lane_.end(site::wait, task.batch);
  if (made.status == Made::Status::made) {
    ++next_batch_;
    return deliver(std::move(made));
  }
  release(task.slot);
  if (made.status == Made::Status::empty) return std::nullopt;
  ++next_batch_;
  throw Error(made.status == Made::Status::no_space ? ErrorCode::no_space : ErrorCode::invalid_input,
              "batch " + std::to_string(made.batch) + ": " + made.text);
}

std::optional<Batch> Loader::next() {
  if (own_) return make_next();
  assign();
  const std::uint32_t awaited = next_batch_;  // only a tag to pair begin and end
  lane_.begin(site::wait, awaited);
  // What came while the consumer was at work, and whether a worker died meanwhile.
  while (auto made = workers_->receive(Duration::zero())) {
    take(std::move(*made));
    assign();
  }
  lane_.sample(site::held, static_cast<double>(schedule_.held()), awaited);
  std::optional<std::uint32_t> ready;
  while (!(ready = schedule_.deliver()) && !schedule_.done()) {
    if (asked_.empty()) keeps_too_many();
    if (auto made = workers_->receive(patience())) {
      take(std::move(*made));
      // A worker is idle: keep it busy even while this consumer waits, within the bound on outstanding batches.
      assign();
    } else if (options_.timeout > Duration::zero()) {
      throw Error(ErrorCode::io, "no batch came within " + format_duration(options_.timeout));
    }
  }
  lane_.end(site::wait, awaited);
  if (!ready) return std::nullopt;
  Made made = std::move(finished_.at(*ready));
  finished_.erase(*ready);
  Batch batch = deliver(std::move(made));
  assign();
  return batch;
}

void Loader::end_epoch() {
  if (workers_ && !options_.persistent_workers) workers_->stop();
}

}  // namespace misfire::dataloader
