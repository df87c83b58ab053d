#include "suites/dataloader/loader.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "harness/error.hpp"
#include "suites/dataloader/sampler.hpp"
#include "suites/dataloader/sites.hpp"

namespace misfire::dataloader {

Batch::Batch(Batch&& other) noexcept { *this = std::move(other); }

Batch& Batch::operator=(Batch&& other) noexcept {
  std::swap(number, other.number);
  std::swap(worker, other.worker);
  std::swap(labels, other.labels);
  std::swap(indices, other.indices);
  std::swap(images_, other.images_);
  std::swap(segment_, other.segment_);
  std::swap(loader_, other.loader_);
  std::swap(slot_, other.slot_);
  return *this;
}

Batch::~Batch() {
  if (loader_ && slot_ >= 0) loader_->release(slot_);
}

Loader::Loader(const LoaderOptions& options, const Dataset& dataset, Seed seed, Recorder& recorder, Lane& lane,
               int recorder_descriptor, Json description)
    : options_(options),
      dataset_(dataset),
      seed_(seed),
      lane_(lane),
      slot_bytes_(static_cast<std::size_t>(options.batch_size) * image_bytes),
      schedule_(
          {std::max(1, options.num_workers), options.prefetch_factor, options.in_order, options.assignment == "by_demand"}) {
  const bool threads = options.mode == "thread";
  if (options.segments == "pooled") {
    // As many as can be outstanding, the one in use, and those that the consumer keeps.
    const int slots = std::max(1, options.num_workers * options.prefetch_factor) + 1 + options.held_batches;
    const std::size_t bytes = slot_bytes_ * static_cast<std::size_t>(slots);
    slots_ = threads || options.num_workers == 0
                 ? Segment::anonymous(bytes)
                 : Segment::create(bytes, options.sharing == "name" ? Segment::Sharing::name : Segment::Sharing::descriptor,
                                   options.reserve);
    for (int slot = slots - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  }
  if (options.num_workers == 0) {
    own_ = std::make_unique<BatchMaker>(dataset, options_, -1, seed, lane, nullptr);
    return;
  }
  PoolSetup setup{dataset, options_, seed};
  setup.recorder = recorder;
  setup.recorder_descriptor = recorder_descriptor;
  setup.slots = options.segments == "pooled" ? &slots_ : nullptr;
  setup.slot_bytes = slot_bytes_;
  setup.description = std::move(description);
  workers_ = threads ? make_thread_pool(setup) : make_process_pool(setup);
}

Loader::~Loader() { stop(); }

void Loader::start() {
  if (!workers_) return;
  workers_->prepare();
  workers_->start();
}

void Loader::stop() {
  if (workers_) workers_->stop();
  finished_.clear();
  slots_.unlink();
}

void Loader::begin_epoch(int epoch) {
  epoch_ = epoch;
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

void Loader::assign() {
  if (!workers_) return;
  while (options_.segments != "pooled" || !free_slots_.empty()) {
    const auto assignment = schedule_.assign();
    if (!assignment) return;
    Task task;
    task.batch = assignment->batch;
    task.epoch = epoch_;
    if (options_.segments == "pooled") {
      task.slot = free_slots_.back();
      free_slots_.pop_back();
    }
    if (!options_.iterable) {
      const auto& indices = batches_[assignment->batch - first_batch_];
      task.indices.assign(indices.begin(), indices.end());
    }
    next_batch_ = std::max(next_batch_, assignment->batch + 1);
    workers_->send(assignment->worker, task);
  }
}

void Loader::take(Made made) {
  if (made.status == Made::Status::no_space)
    throw Error(ErrorCode::no_space, "worker " + std::to_string(made.worker) + ": " + made.text);
  if (made.status == Made::Status::error)
    throw Error(ErrorCode::invalid_input,
                "worker " + std::to_string(made.worker) + ", batch " + std::to_string(made.batch) + ": " + made.text);
  const bool empty = made.status == Made::Status::empty;
  schedule_.finished(made.batch, empty);
  if (empty) {
    if (made.slot >= 0) release(made.slot);
  } else {
    finished_.emplace(made.batch, std::move(made));
  }
}

Batch Loader::deliver(Made made) {
  Batch batch;
  batch.number = made.batch;
  batch.worker = made.worker;
  batch.labels = std::move(made.labels);
  batch.indices = std::move(made.indices);
  batch.segment_ = std::move(made.segment);
  batch.slot_ = made.slot;
  batch.loader_ = this;
  const std::span<std::uint8_t> memory =
      made.slot >= 0 ? slots_.bytes().subspan(static_cast<std::size_t>(made.slot) * slot_bytes_, slot_bytes_)
                     : batch.segment_.bytes();
  batch.images_ = memory.first(batch.indices.size() * image_bytes);
  lane_.mark(site::delivered_batch, batch.number);
  lane_.sample(site::made_by, batch.worker, batch.number);
  for (const std::uint32_t index : batch.indices) lane_.sample(site::delivered, index, batch.number);
  return batch;
}

std::optional<Batch> Loader::next() {
  if (own_) {
    const auto place = next_batch_ - first_batch_;
    if (!options_.iterable && place >= batches_.size()) return std::nullopt;
    Task task;
    task.batch = next_batch_;
    task.epoch = epoch_;
    lane_.begin(site::wait, task.batch);
    std::span<std::uint8_t> memory;
    if (options_.segments == "pooled") {
      if (free_slots_.empty()) throw Error(ErrorCode::usage, "the consumer holds more batches than held_batches allows");
      task.slot = free_slots_.back();
      free_slots_.pop_back();
      memory = slots_.bytes().subspan(static_cast<std::size_t>(task.slot) * slot_bytes_, slot_bytes_);
    }
    if (!options_.iterable) task.indices.assign(batches_[place].begin(), batches_[place].end());
    Made made = own_->make(task, memory);
    lane_.end(site::wait, task.batch);
    if (made.status == Made::Status::empty) {
      if (task.slot >= 0) release(task.slot);
      return std::nullopt;
    }
    if (made.status != Made::Status::made)
      throw Error(made.status == Made::Status::no_space ? ErrorCode::no_space : ErrorCode::invalid_input, made.text);
    ++next_batch_;
    return deliver(std::move(made));
  }

  assign();
  const std::uint32_t awaited = next_batch_;  // only a tag to pair begin and end
  lane_.begin(site::wait, awaited);
  lane_.sample(site::held, static_cast<double>(schedule_.held()), awaited);
  std::optional<std::uint32_t> ready;
  while (!(ready = schedule_.deliver())) {
    if (schedule_.done()) break;
    if (schedule_.outstanding() == 0) throw Error(ErrorCode::usage, "the consumer holds more batches than held_batches allows");
    auto made = workers_->receive(options_.timeout > Duration::zero() ? options_.timeout : Duration(-1));
    if (made) {
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
  if (workers_ && !options_.persistent_workers) {
    workers_->stop();
    finished_.clear();
  }
}

}  // namespace misfire::dataloader
