#include <sched.h>

#include "harness/topology.hpp"
#include "tests/faults/apply.hpp"

namespace misfire {
namespace {

Json look() { return Json(affinity_mask().size()); }

void widen() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &all);
  sched_setaffinity(0, sizeof all, &all);
}

void need_two_cpus() {
  if (affinity_mask().size() < 2) SKIP("one CPU: no mask is narrower");
}

TEST("armed, the victim and its children have one CPU, and all of them afterwards") {
  need_two_cpus();
  const auto before = affinity_mask();
  const Applied applied = apply("cpu.affinity", Json::object({{"cpus", 1}}), true, look, false);
  CHECK_EQ(applied.error, "");
  CHECK(applied.proved());
  for (const char* phase : {"armed", "observed", "recovered", "recovery_proved"}) CHECK(applied.holds(phase));
  CHECK_EQ(applied.seen.as_uint(), 1U);
  CHECK_EQ(applied.seen_after.as_uint(), before.size());
  CHECK(affinity_mask() == before);
}

TEST("disarmed, the mask stays as it was") {
  const Applied applied = apply("cpu.affinity", Json::object({{"cpus", 1}}), false, look, false);
  CHECK(applied.proved());
  CHECK_EQ(applied.seen.as_uint(), affinity_mask().size());
}

TEST("one that silently does nothing is not proved") {
  need_two_cpus();
  const Applied applied = apply("cpu.affinity", Json::object({{"cpus", 1}}), true, look, false, widen);
  CHECK_EQ(applied.error, "");
  CHECK(!applied.proved());
  CHECK(!applied.holds("observed"));
}

TEST("more CPUs than there are leave the mask as it is") {
  const Applied applied = apply("cpu.affinity", Json::object({{"cpus", 8192}}), true, look, false);
  CHECK_EQ(applied.seen.as_uint(), affinity_mask().size());
}

TEST("the CPUs can be named") {
  need_two_cpus();
  const int last = affinity_mask().back();
  const auto which = [] { return Json(cpu_list_text(affinity_mask())); };
  const Applied applied = apply("cpu.affinity", Json::object({{"list", std::to_string(last)}}), true, which, false);
  CHECK(applied.proved());
  CHECK_EQ(applied.seen.as_string(), std::to_string(last));
  CHECK_EQ(applied.seen_after.as_string(), cpu_list_text(affinity_mask()));
}

TEST("CPUs that are not there are not proved") {
  for (const char* list : {"8191", "none", "3-1"}) {
    const Applied applied = apply("cpu.affinity", Json::object({{"list", list}}), true, look, false);
    CHECK_EQ(applied.error, "");
    CHECK(!applied.proved());
    CHECK(!applied.holds("armed"));
    CHECK_EQ(applied.seen.as_uint(), affinity_mask().size());
    CHECK(applied.holds("recovered") && applied.holds("recovery_proved"));
  }
}

TEST("no CPU at all is refused") { CHECK_THROWS(make_fault("cpu.affinity")->options().set(Json::object({{"cpus", 0}})), "cpus"); }

}  // namespace
}  // namespace misfire
