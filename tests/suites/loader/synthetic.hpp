#pragma once

// A dataset whose samples are made of nothing but their index, the epoch and the seed, and that misbehaves where it is told to.

#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "harness/seed.hpp"
#include "suites/dataloader/loader.hpp"

namespace misfire::dataloader {

class Synthetic : public Dataset {
 public:
  explicit Synthetic(std::size_t size, std::size_t shards = 1) : size_(size), shards_(shards) {}
  std::size_t size() const override { return size_; }
  std::size_t shards() const override { return shards_; }
  std::string name(std::size_t index) const override { return "sample-" + std::to_string(index); }
  void on_worker_start(int worker) const override {
    if (at_start) at_start(worker);
  }
  SampleResult load(std::size_t index, int epoch, std::span<std::uint8_t> out, std::int32_t& label,
                    LoadContext& context) const override {
    if (at_sample) at_sample(index);
    if (at_epoch_sample) at_epoch_sample(epoch, index);
    if (bad.contains(index)) return {false, name(index) + ": it is bad"};
    label = label_of(index);
    if (touch_all) std::memset(out.data(), 1, out.size());
    fill(context.seed, epoch, index, out);
    return {};
  }

  static std::int32_t label_of(std::size_t index) { return static_cast<std::int32_t>(index * 7 % 1000); }
  /// The first and last bytes of an image; the rest would only cost time.
  static void fill(Seed seed, int epoch, std::size_t index, std::span<std::uint8_t> out) {
    const Stream stream = seed.stream("synthetic").substream(static_cast<std::uint64_t>(epoch)).substream(index);
    for (const std::size_t at : {std::size_t{0}, image_bytes / 2, image_bytes - 8}) {
      const std::uint64_t word = stream.at(at);
      std::memcpy(out.data() + at, &word, sizeof word);
    }
  }

  std::set<std::size_t> bad;
  bool touch_all = false;  ///< write every byte, as a real image does
  std::function<void(std::size_t)> at_sample;
  std::function<void(int, std::size_t)> at_epoch_sample;
  std::function<void(int)> at_start;

 private:
  std::size_t size_, shards_;
};

/// Touches a page that is not behind its file any more.
inline void raise_bus_error() {
  const int file = memfd_create("cut-short", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, 4096) != 0) throw std::runtime_error("no memory file");
  auto* memory = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  if (ftruncate(file, 0) != 0) throw std::runtime_error("cannot cut it short");
  memory[0] = 1;
}

/// Names of the files in /dev/shm that a loader of this program made.
inline std::set<std::string> our_shm_files() {
  std::set<std::string> names;
  if (DIR* directory = opendir("/dev/shm")) {
    while (const dirent* entry = readdir(directory))
      if (std::string(entry->d_name).starts_with("misfire-loader-test-")) names.insert(entry->d_name);
    closedir(directory);
  }
  return names;
}

}  // namespace misfire::dataloader
