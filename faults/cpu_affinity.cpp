// Narrow CPU mask: the affinity that a launcher, a batch system or a wrapper leaves to what it starts.
//
// Models sched_setaffinity(2) of an outer layer: inherited by every child, and open to being changed by an inner layer. Not a
// cpuset of a control group, which an inner layer cannot leave, and not a quota, which leaves the mask as it is.

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "harness/error.hpp"
#include "harness/fault.hpp"
#include "harness/topology.hpp"

namespace misfire {
namespace {

/// Masks of machines with more CPUs than cpu_set_t holds.
class Mask {
 public:
  explicit Mask(int cpus = 8192) : cpus_(cpus), set_(CPU_ALLOC(static_cast<std::size_t>(cpus))) { CPU_ZERO_S(bytes(), set_); }
  Mask(const Mask&) = delete;
  Mask& operator=(const Mask&) = delete;
  ~Mask() { CPU_FREE(set_); }
  std::size_t bytes() const { return CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus_)); }
  void add(int cpu) { CPU_SET_S(static_cast<std::size_t>(cpu), bytes(), set_); }
  std::vector<int> list() const {
    std::vector<int> result;
    for (int cpu = 0; cpu < cpus_; ++cpu)
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes(), set_)) result.push_back(cpu);
    return result;
  }
  cpu_set_t* get() { return set_; }

 private:
  int cpus_;
  cpu_set_t* set_;
};

std::vector<int> mask_of(int pid) {
  Mask mask;
  if (sched_getaffinity(pid, mask.bytes(), mask.get()) != 0)
    throw system_error("read the CPU mask of process", std::to_string(pid), errno);
  return mask.list();
}

int set_mask(int pid, const std::vector<int>& cpus) {
  Mask mask;
  for (const int cpu : cpus) mask.add(cpu);
  return sched_setaffinity(pid, mask.bytes(), mask.get()) == 0 ? 0 : errno;
}

Json to_json(const std::vector<int>& cpus) {
  Json list = Json::array();
  for (const int cpu : cpus) list.push_back(cpu);
  return list;
}

/// The CPUs that a child, started now, is allowed: what the victim's workers will inherit. -1 in front when it could not tell.
std::vector<int> mask_in_child() {
  int ends[2];
  if (pipe(ends) != 0) throw system_error("make a pipe", "", errno);
  const pid_t child = fork();
  if (child < 0) throw system_error("start a probe", "", errno);
  if (child == 0) {
    close(ends[0]);
    const std::vector<int> mine = mask_of(0);
    std::vector<int> answer = mine;
    answer.push_back(sched_getcpu());
    const auto bytes = answer.size() * sizeof(int);
    _exit(write(ends[1], answer.data(), bytes) == static_cast<ssize_t>(bytes) ? 0 : 1);
  }
  close(ends[1]);
  std::vector<int> answer(8193);
  std::size_t filled = 0;
  for (ssize_t count;
       (count = read(ends[0], reinterpret_cast<char*>(answer.data()) + filled, answer.size() * sizeof(int) - filled)) > 0;)
    filled += static_cast<std::size_t>(count);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  answer.resize(filled / sizeof(int));
  if (answer.empty()) return {-1};
  const int ran_on = answer.back();
  answer.pop_back();
  for (const int cpu : answer)
    if (cpu == ran_on) return answer;
  return {-1};  // it ran outside its mask
}

class Affinity : public Fault {
 public:
  FaultInfo info() const override {
    return {"cpu.affinity",
            "a narrow CPU mask around everything the trial starts",
            "A launcher, batch system or taskset that leaves a job fewer CPUs than it starts processes.",
            "A cpuset (an inner layer cannot widen it) or a CPU quota (the mask stays wide).",
            {}};
  }
  OptionTable options() override {
    return OptionTable(
        "", {{"cpus", &cpus_, "CPUs to leave, the first ones of those allowed", Unit::count, 1, 8192},
             {"list", &list_, "the CPUs to leave, by number: 0,2-3; instead of a count", Unit::text, 0, 0, {}, "CPUS"}});
  }

  std::vector<Evidence> arm(const Victim& victim, bool armed) override {
    before_ = mask_of(victim.pid);
    wanted_ = before_;
    if (armed && !list_.empty()) {
      wanted_ = parse_cpu_list(list_);
    } else if (armed && static_cast<std::size_t>(cpus_) < before_.size()) {
      wanted_.resize(static_cast<std::size_t>(cpus_));
    }
    const int error = set_mask(victim.pid, wanted_);
    if (error != 0) throw system_error("cpu.affinity: set the CPU mask of process", std::to_string(victim.pid), error);
    const std::vector<int> now = mask_of(victim.pid);
    return {{Phase::armed, "sched_getaffinity of the victim", to_json(now), to_json(wanted_), now == wanted_}};
  }

  std::vector<Evidence> probe(const Victim&, bool) override {
    const std::vector<int> inherited = mask_in_child(), outside = mask_of(getppid());
    return {{Phase::observed, "mask of a child started now, and that it ran within it", to_json(inherited), to_json(wanted_),
             inherited == wanted_},
            {Phase::observed, "control probe: mask of the watching process, outside the fault", to_json(outside),
             to_json(before_), outside == before_}};
  }

  std::vector<Evidence> recover(const Victim& victim) override {
    if (before_.empty()) return {};
    const int error = set_mask(victim.pid, before_);
    return {{Phase::recovered, "restore the CPU mask of the victim", Json(error), Json(0), error == 0}};
  }

  std::vector<Evidence> probe_recovery(const Victim&) override {
    const std::vector<int> inherited = mask_in_child();
    return {{Phase::recovery_proved, "mask of a child started now", to_json(inherited), to_json(before_), inherited == before_}};
  }

 private:
  int cpus_ = 1;
  std::string list_;
  std::vector<int> before_, wanted_;
};

}  // namespace

std::unique_ptr<Fault> make_cpu_affinity() { return std::make_unique<Affinity>(); }

}  // namespace misfire
