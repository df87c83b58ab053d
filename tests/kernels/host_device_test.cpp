// Goal: what is particular to the host device: its thread's core, its start after a fork, and failures inside its work.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "harness/error.hpp"
#include "kernels/devices.hpp"
#include "tests/check.hpp"

using namespace misfire;

namespace {

cpu_set_t cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  return set;
}

TEST("the queue's thread runs on its own core, and the caller's stay as they were") {
  const cpu_set_t before = cpus_of_this_thread();
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &before)) last = cpu;
  }
  cpu_set_t seen;
  const auto device = make_device("host");
  device->make_queue()->call([&] { seen = cpus_of_this_thread(); });
  CHECK_EQ(CPU_COUNT(&seen), 1);
  CHECK(CPU_ISSET(static_cast<std::size_t>(last), &seen));
  CHECK_EQ(device->description(), "host CPU " + std::to_string(last));
  make_device("host", {.cpu = DeviceOptions::cpu_any})->make_queue()->call([&] { seen = cpus_of_this_thread(); });
  CHECK(CPU_EQUAL(&seen, &before));
  const cpu_set_t after = cpus_of_this_thread();
  CHECK(CPU_EQUAL(&after, &before));
}

TEST("a core that is not ours is refused") {
  CHECK_THROWS(make_device("host", {.cpu = 1023}), "CPU 1023 is not one that this process may run on");
  CHECK_THROWS(make_device("hots"), "did you mean 'host'");
}

TEST("a device may be made before a fork and its queue after it, in parent and child") {
  const auto device = make_device("host");
  const auto run = [&] {
    const auto queue = device->make_queue();
    int result = 0;
    queue->call([&] { result = 42; });
    queue->synchronize();
    return result;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run());
  CHECK_EQ(run(), 42);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

TEST("work that throws ends the queue's work, and whoever waits is told") {
  const auto device = make_device("host");
  const auto queue = device->make_queue(), other = device->make_queue();
  const auto event = device->make_event();
  bool later = false;
  queue->call([] { throw std::runtime_error("broken on purpose"); });
  queue->call([&] { later = true; });
  queue->record(*event);
  CHECK_THROWS(event->wait(), "broken on purpose");
  CHECK_THROWS(queue->synchronize(), "broken on purpose");
  CHECK(!later);
  other->wait(*event);  // does not hang
  other->synchronize();
}

TEST("signals of the program are not taken by the device's thread") {
  const auto device = make_device("host");
  bool blocked = false;
  device->make_queue()->call([&] {
    sigset_t set;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &set);
    blocked = ::sigismember(&set, SIGTERM) == 1;
  });
  CHECK(blocked);
  sigset_t set;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &set);
  CHECK_EQ(::sigismember(&set, SIGTERM), 0);
}

}  // namespace
