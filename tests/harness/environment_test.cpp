// Goal: what makes two records comparable is there, quickly, in base units; what cannot be read is named.
#include "harness/environment.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "harness/clock.hpp"
#include "harness/files.hpp"
#include "tests/check.hpp"

using namespace misfire;

TEST("the machine is described, and agrees with what the system calls say") {
  const Json environment = capture_environment();
  std::printf("%s\n", environment.dump(1).c_str());
  for (const char* group :
       {"cpu", "numa", "memory", "cgroup", "kernel", "libraries", "gpus", "mounts", "limits", "load", "unreadable"})
    CHECK(environment.find(group) != nullptr);
  utsname name{};
  ::uname(&name);
  CHECK_EQ(environment.at("kernel").at("release").as_string(), name.release);
  CHECK_EQ(environment.at("memory").at("page_bytes").as_int(), ::sysconf(_SC_PAGESIZE));
  const double physical = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  CHECK_NEAR(environment.at("memory").at("total_bytes").as_double() / physical, 1.0, 0.05);
  CHECK(environment.at("cpu").at("usable").as_int() >= 1);
  CHECK(environment.at("numa").at("nodes").as_array().empty() == (::access("/sys/devices/system/node/online", R_OK) != 0));
  CHECK(environment.at("libraries").at("libc").as_string().starts_with("glibc 2."));
  CHECK(Json::parse(environment.dump(), "environment") == environment);
}

TEST("it takes milliseconds") {
  std::array<std::int64_t, 9> times;
  for (std::int64_t& time : times) {
    const std::int64_t begin = monotonic_ns();
    capture_environment({"/tmp"});
    time = monotonic_ns() - begin;
  }
  std::sort(times.begin(), times.end());
  std::printf("environment in %.2f ms\n", static_cast<double>(times[4]) * 1e-6);
  CHECK(times[4] < 50'000'000);  // about 3 ms; sanitizers and busy machines take longer
}

TEST("the file system behind each directory in use is recorded, one that is not there is named") {
  const TemporaryDirectory directory;
  const Json environment = capture_environment({directory.path(), "/proc/self", "/none/there"});
  const auto& mounts = environment.at("mounts").as_array();
  const auto of = [&](const std::string& path) -> const Json& {
    return *std::find_if(mounts.begin(), mounts.end(), [&](const Json& mount) { return mount.at("path").as_string() == path; });
  };
  CHECK(of(directory.path()).at("total_bytes").as_uint() > 0);
  CHECK(directory.path().starts_with(of(directory.path()).at("mount").as_string()));
  CHECK_EQ(of("/proc/self").at("type").as_string(), "proc");
  CHECK_EQ(of("/proc/self").at("mount").as_string(), "/proc");
  CHECK(of("/none/there").find("mount") == nullptr);
  CHECK(environment.at("unreadable").find("/none/there") != nullptr);
}

TEST("load grows with work") {
  const Json before = capture_load();
  while (true) {  // one clock tick of work
    const Json after = capture_load();
    if (after.at("cpu_seconds").as_double() > before.at("cpu_seconds").as_double()) break;
  }
  const Json after = capture_load();
  CHECK(after.at("cpu_seconds").as_double() > before.at("cpu_seconds").as_double());
  CHECK(after.at("idle_seconds").as_double() >= before.at("idle_seconds").as_double());
  CHECK(after.at("steal_seconds").as_double() >= 0);
  CHECK(after.at("pressure").find("memory") != nullptr);
  CHECK(after.at("load_1").as_double() >= 0);
}

TEST("the hardware class names what counts, in a form that can be a file's name") {
  const auto machine = [](const char* text) { return hardware_class(Json::parse(text, "environment")); };
  CHECK_EQ(machine(R"({"cpu":{"vendor":"intel","family":6,"model":167,"usable":2},"memory":{"total_bytes":25260318720},
                       "cgroup":{"memory_limit_bytes":null},"gpus":[]})"),
           "intel-6-167-2c-24g");
  // 503 GiB of a machine sold with 512, two GPUs, a display adapter that does not compute, a limit that is none.
  CHECK_EQ(machine(R"({"cpu":{"vendor":"amd","family":25,"model":17,"usable":192},"memory":{"total_bytes":540092137472},
                       "cgroup":{"memory_limit_bytes":9000000000000},
                       "gpus":[{"model":null},{"model":"NVIDIA H200"},{"model":"NVIDIA H200"}]})"),
           "amd-25-17-192c-512g-2xh200");
  CHECK_EQ(machine(R"({"cpu":{"vendor":"nvidia","family":8,"model":"0xd4f","usable":72},"memory":{"total_bytes":515396075520},
                       "cgroup":{"memory_limit_bytes":8589934592},"gpus":[]})"),
           "nvidia-8-0xd4f-72c-8g");
  CHECK_EQ(machine("{}"), "unknown-unknown-unknown-unknownc-unknown");
  const Json here = capture_environment();
  CHECK_EQ(hardware_class(here), here.at("hardware_class").as_string());
  CHECK(hardware_class(here).find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == std::string::npos);
}
