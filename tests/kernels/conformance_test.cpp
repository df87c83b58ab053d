// Goal: what Device, its queues, events and training step promise, for one device of the catalogue (MISFIRE_TEST_DEVICE).
// Method: real copies and steps; results against the same arithmetic run in this thread.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "harness/error.hpp"
#include "kernels/devices.hpp"
#include "kernels/host/training.hpp"
#include "tests/check.hpp"

using namespace misfire;

namespace {

std::unique_ptr<Device> open(DeviceOptions options = {}) {
  try {
    return make_device(MISFIRE_TEST_DEVICE, options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) SKIP(error.what());
    throw;
  }
}

std::vector<std::byte> noise(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> bytes(size);
  Stream stream = Seed(seed).stream("bytes");
  for (auto& byte : bytes) byte = static_cast<std::byte>(stream());
  return bytes;
}

TEST("bytes go to the device and come back, in order, from staging and plain memory") {
  const auto device = open();
  const auto queue = device->make_queue();
  const DeviceMemory memory = device->allocate(100000), staging = device->allocate_staging(100000);
  const auto first = noise(100000, 1), second = noise(50000, 2);
  std::copy(first.begin(), first.end(), staging.data());
  std::vector<std::byte> back(100000);
  queue->copy_in(memory, {staging.data(), 100000});
  queue->copy_in(memory, second);
  queue->copy_out(back, memory);
  queue->synchronize();
  CHECK(std::equal(second.begin(), second.end(), back.begin()));
  CHECK(std::equal(first.begin() + 50000, first.end(), back.begin() + 50000));
  std::vector<std::byte> pinned = noise(4096, 3);
  const auto handle = device->pin(pinned);
  queue->copy_in(memory, pinned);
  queue->copy_out(std::span(back).first(4096), memory);
  queue->synchronize();
  CHECK(std::equal(pinned.begin(), pinned.end(), back.begin()));
}

TEST("copies that do not fit are refused when they are asked for") {
  const auto device = open();
  const auto queue = device->make_queue();
  const DeviceMemory memory = device->allocate(100);
  std::vector<std::byte> bytes(101);
  CHECK_THROWS(queue->copy_in(memory, bytes), "101 bytes, but the device memory has 100");
  CHECK_THROWS(queue->copy_out(bytes, memory), "101 bytes");
  queue->synchronize();
}

TEST("memory is bounded, counted and given back") {
  const auto device = open({.memory_bytes = 1 << 20});
  CHECK_EQ(device->memory_bytes(), 1u << 20);
  {
    const DeviceMemory half = device->allocate(512 << 10);
    CHECK_EQ(device->memory_used(), 512u << 10);
    CHECK_THROWS(device->allocate(1 << 20), "out of memory: 1 MiB asked, 512 KiB of 1 MiB in use");
  }
  CHECK_EQ(device->memory_used(), 0u);
  CHECK_THROWS(device->make_training_step({.hidden = 100000}, Seed(1)), "out of memory");
}

TEST("a queue returns at once and keeps order; its work runs beside the caller") {
  const auto device = open();
  const auto queue = device->make_queue();
  std::atomic<bool> go = false;
  std::vector<int> order;
  queue->call([&] {
    while (!go) std::this_thread::yield();
    order.push_back(1);
  });
  const auto event = device->make_event();
  CHECK(event->reached());  // never recorded
  queue->call([&] { order.push_back(2); });
  queue->record(*event);
  CHECK(!event->reached());
  go = true;
  event->wait();
  CHECK(event->reached());
  CHECK((order == std::vector<int>{1, 2}));
}

TEST("a queue waits for another's event") {
  const auto device = open();
  const auto copies = device->make_queue(), work = device->make_queue();
  const auto copied = device->make_event();
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> step = 0;
    int seen = -1;
    copies->call([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      step = 1;
    });
    copies->record(*copied);
    work->wait(*copied);
    work->call([&] { seen = step; });
    work->synchronize();
    CHECK_EQ(seen, 1);
  }
}

TEST("events tell the time between them") {
  const auto device = open();
  const auto queue = device->make_queue();
  const auto begin = device->make_event(), end = device->make_event();
  queue->record(*begin);
  queue->call([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  queue->record(*end);
  end->wait();
  CHECK(to_seconds(end->since(*begin)) >= 0.0195);
  CHECK(to_seconds(end->since(*begin)) < 2);
  CHECK_THROWS(device->make_event()->since(*begin), "not reached");
}

TEST("a training step computes what the same arithmetic computes here, and the loss falls") {
  const auto device = open();
  const auto queue = device->make_queue();
  const TrainingShape shape{.batch = 6, .height = 32, .width = 48, .patch = 8, .hidden = 37, .classes = 4, .learning_rate = 0.05};
  const auto step = device->make_training_step(shape, Seed(1));
  auto images = noise(6 * 32 * 48 * 3, 4);
  for (std::size_t i = 0; i < images.size(); ++i) {  // shades that tell the images apart
    images[i] = static_cast<std::byte>(std::to_integer<int>(images[i]) / 4 +
                                       static_cast<int>(i / (32 * 48 * 3) * 97 + i / 1000 * 31) % 190);
  }
  const std::vector<std::int32_t> labels{0, 1, 2, 3, 0, 1};
  const DeviceMemory on_device = device->allocate(images.size());
  queue->copy_in(on_device, images);

  std::vector<float> memory(training::Layout(shape).total);
  const std::vector<float> first = training::first_parameters(shape, Seed(1));
  std::copy(first.begin(), first.end(), memory.begin());
  const training::Model<float> model = training::model_at(shape, memory.data());
  float first_loss = 0, last_loss = 0;
  for (int i = 0; i < 60; ++i) {
    step->enqueue(*queue, on_device, labels);
    queue->synchronize();
    training::forward(model, reinterpret_cast<const std::uint8_t*>(images.data()), labels.data());
    double sum = 0;
    for (int n = 0; n < shape.batch; ++n) sum += static_cast<double>(model.losses[n]);
    training::backward_and_update(model);
    last_loss = step->loss();
    if (i == 0) first_loss = last_loss;
    if (i < 5) CHECK_NEAR(static_cast<double>(last_loss), sum / shape.batch, 1e-4);
  }
  CHECK(first_loss > 1.0F);
  CHECK(last_loss < 0.1F * first_loss);
  const std::vector<float> parameters = step->parameters();
  double worst = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(parameters[i]) - memory[i]));
  CHECK(worst < 1e-3);
}

TEST("a step refuses images and labels that do not fit") {
  const auto device = open();
  const auto queue = device->make_queue();
  const auto step = device->make_training_step({.batch = 2, .height = 16, .width = 16}, Seed(1));
  const DeviceMemory images = device->allocate(2 * 16 * 16 * 3), few = device->allocate(100);
  CHECK_THROWS(step->enqueue(*queue, images, std::vector<std::int32_t>{0}), "1 labels");
  CHECK_THROWS(step->enqueue(*queue, images, std::vector<std::int32_t>{0, 10}), "label 10");
  CHECK_THROWS(step->enqueue(*queue, few, std::vector<std::int32_t>{0, 1}), "100 bytes of images");
}

TEST("steps are stamped in the queue's own lane") {
  const Recorder::Shape shape{.lanes = 4, .events_per_lane = 64};
  std::vector<std::byte> memory(Recorder::mapping_bytes(shape) + 4096);
  void* at = memory.data();
  std::size_t space = memory.size();
  std::align(4096, Recorder::mapping_bytes(shape), at, space);
  Recorder recorder = Recorder::create({static_cast<std::byte*>(at), Recorder::mapping_bytes(shape)}, shape);
  constexpr Site site{7, "device"};
  {
    const auto device = open({.recorder = &recorder});
    const auto queue = device->make_queue();
    for (std::uint32_t i = 0; i < 3; ++i) {
      queue->begin(site, i);
      queue->call([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
      queue->end(site, i);
    }
    queue->synchronize();
  }
  std::vector<RawEvent> events;
  for (std::uint32_t lane = 0; lane < recorder.lanes(); ++lane) {
    recorder.drain(lane, [&](std::span<const RawEvent> part) { events.insert(events.end(), part.begin(), part.end()); });
  }
  CHECK_EQ(events.size(), 6u);
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK_EQ(events[i].site_kind >> 2, 7);
    CHECK_EQ(events[i].site_kind & 3, i % 2 ? 2 : 1);
    CHECK_EQ(events[i].tag, i / 2);
    CHECK(i == 0 || events[i].word >= events[i - 1].word);
  }
}

}  // namespace
