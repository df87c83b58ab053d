// Workers that are executed afresh: this program starts itself, and main is never reached there (see the end of this file).

#include <sys/mman.h>
#include <sys/wait.h>

#include <csignal>
#include <map>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/process.hpp"
#include "harness/procfs.hpp"
#include "harness/text.hpp"
#include "tests/check.hpp"
#include "tests/harness/self.hpp"
#include "tests/suites/loader/synthetic.hpp"

namespace misfire::dataloader {
namespace {

std::unique_ptr<Dataset> from(const Json& description) {
  if (const Json* reason = description.find("refuse")) throw Error(ErrorCode::not_found, reason->as_string());
  auto dataset = std::make_unique<Synthetic>(description.at("size").as_uint(), 4);
  if (const Json* fatal = description.find("fatal"))
    dataset->at_sample = [at = fatal->as_uint()](std::size_t index) {
      if (index == at) kill(getpid(), SIGKILL);
    };
  return dataset;
}

using Bytes = std::map<std::uint32_t, std::vector<std::uint8_t>>;

/// Three epochs' samples with their images.
std::vector<Bytes> run(LoaderOptions options, const Json& description) {
  const Synthetic here(50, 4);  // of the consumer: sizes and names
  Recorder recorder;
  Lane lane;
  options.num_workers = 3;
  options.batch_size = 4;
  options.shuffle = !options.iterable;
  Loader loader(options, here, Seed(9), recorder, lane, -1, description);
  loader.start();
  std::vector<Bytes> epochs(3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    loader.begin_epoch(epoch);
    while (const auto batch = loader.next())
      for (std::size_t i = 0; i < batch->indices.size(); ++i) {
        const auto image = batch->images().subspan(i * image_bytes, image_bytes);
        CHECK(epochs[static_cast<std::size_t>(epoch)].emplace(batch->indices[i], std::vector(image.begin(), image.end())).second);
        CHECK_EQ(batch->labels[i], Synthetic::label_of(batch->indices[i]));
      }
    loader.end_epoch();
  }
  return epochs;
}

LoaderOptions with(const char* mode, const char* start, const char* segments = "pooled", const char* sharing = "descriptor") {
  LoaderOptions options;
  options.mode = mode;
  options.start_method = start;
  options.segments = segments;
  options.sharing = sharing;
  return options;
}

const Json fifty = Json::object({{"size", 50}});

TEST("however workers start, the bytes are the same") {
  skip_unless_this_program_starts();
  const std::vector<Bytes> expected = run(with("thread", "fork"), fifty);
  CHECK_EQ(expected[0].size(), 50U);
  CHECK(expected[0] != expected[1]);
  CHECK(run(with("process", "fork"), fifty) == expected);
  CHECK(run(with("process", "forkserver"), fifty) == expected);
  for (const char* segments : {"pooled", "fresh"})
    for (const char* sharing : {"descriptor", "name"})
      for (const bool persistent : {true, false}) {
        LoaderOptions options = with("process", "spawn", segments, sharing);
        options.persistent_workers = persistent;
        CHECK(run(options, fifty) == expected);
      }
  LoaderOptions stream = with("process", "spawn");
  stream.iterable = true;
  LoaderOptions same = with("thread", "fork");
  same.iterable = true;
  CHECK(run(stream, fifty) == run(same, fifty));
  CHECK(descendants(getpid()).empty());
}

TEST("a worker that cannot make its dataset says why") {
  skip_unless_this_program_starts();
  CHECK_THROWS(run(with("process", "spawn"), Json::object({{"refuse", "no such pictures"}})), "no such pictures");
  CHECK(descendants(getpid()).empty());
}

TEST("a spawned worker that dies is named, and takes nothing with it") {
  skip_unless_this_program_starts();
  CHECK_THROWS(run(with("process", "spawn"), Json::object({{"size", 50}, {"fatal", 21}})), "while loading sample 21 (sample-21)");
  CHECK(descendants(getpid()).empty());
}

TEST("a spawned worker records into the memory that it is given") {
  skip_unless_this_program_starts();
  const std::size_t bytes = Recorder::mapping_bytes({});
  const int descriptor = memfd_create("recorder", MFD_CLOEXEC);
  CHECK_EQ(ftruncate(descriptor, static_cast<off_t>(bytes)), 0);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  Recorder recorder = Recorder::create({static_cast<std::byte*>(memory), bytes}, {});
  {
    const Synthetic here(8);
    Lane lane = recorder.claim_lane();
    LoaderOptions options = with("process", "spawn");
    options.num_workers = 1;
    options.batch_size = 4;
    Loader loader(options, here, Seed(9), recorder, lane, descriptor, Json::object({{"size", 8}}));
    loader.start();
    loader.begin_epoch(0);
    while (loader.next()) {
    }
    loader.end_epoch();
  }
  // Its lane: start, two loads, stop.
  CHECK_EQ(recorder.lane(1).written, 1U + 2 * 3 + 1);
  CHECK(recorder.lane(1).pid != getpid());
  munmap(memory, bytes);
  close(descriptor);
}

/// Runs before main: a worker's life is here.
[[maybe_unused]] const bool never_reached_in_a_worker = [] {
  std::vector<std::string> arguments = split(read_whole_file("/proc/self/cmdline"), '\0');
  if (!arguments.empty()) arguments.erase(arguments.begin());
  while (!arguments.empty() && arguments.back().empty()) arguments.pop_back();
  if (is_worker_command(arguments)) _exit(worker_main(arguments, from));
  return true;
}();

}  // namespace
}  // namespace misfire::dataloader
