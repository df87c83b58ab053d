#include "suites/dataloader/death.hpp"

#include <csignal>

#include "tests/check.hpp"

namespace misfire::dataloader {
namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST("who, how, at what") {
  const std::string killed =
      describe({.worker = 1, .pid = 7, .signal = SIGSEGV, .sample = 12, .batch = 5, .sample_name = "cats/9.jpg"});
  CHECK(contains(killed, "worker 1 (pid 7) was killed by signal 11 (Segmentation fault)"));
  CHECK(contains(killed, "while loading sample 12 (cats/9.jpg) of batch 5"));
  CHECK(!contains(killed, ";"));  // no cause is guessed
  const std::string exited = describe({.worker = 0, .pid = 8, .exit_code = 3});
  CHECK_EQ(exited, std::string("worker 0 (pid 8) exited with 3"));
}

TEST("a bus error blames /dev/shm only when it was full") {
  const auto said = [](double used) { return describe({.worker = 0, .pid = 1, .signal = SIGBUS, .shm_used = used}); };
  CHECK(contains(said(1.0), "/dev/shm is 100 % full"));
  CHECK(contains(said(0.96), "fewer batches outstanding"));
  CHECK(contains(said(0.5), "/dev/shm has room (50 % used): a mapped file was cut short"));
  CHECK(!contains(said(0.5), "full"));
  CHECK(contains(said(-1), "not known"));
}

TEST("SIGKILL is put down to the OOM killer only when it was counted") {
  const auto said = [](std::optional<std::uint64_t> kills) {
    return describe({.worker = 0, .pid = 1, .signal = SIGKILL, .oom_kills = kills});
  };
  CHECK(contains(said(1), "counts 1 kill by the OOM killer"));
  CHECK(contains(said(2), "counts 2 kills by the OOM killer"));
  CHECK(contains(said(0), "somebody sent the signal"));
  CHECK(contains(said({}), "if nobody did it by hand"));
}

TEST("the exception carries the same facts") {
  const WorkerDied died({.worker = 2, .pid = 9, .signal = SIGKILL, .sample = 4, .batch = 1});
  CHECK_EQ(died.worker, 2);
  CHECK_EQ(died.pid, 9);
  CHECK_EQ(died.signal, SIGKILL);
  CHECK_EQ(died.sample, 4);
  CHECK_EQ(died.batch, 1);
  CHECK_EQ(std::string(died.what()), describe({.worker = 2, .pid = 9, .signal = SIGKILL, .sample = 4, .batch = 1}));
}

}  // namespace
}  // namespace misfire::dataloader
