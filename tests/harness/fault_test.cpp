#include "harness/fault.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "harness/error.hpp"
#include "tests/check.hpp"

namespace misfire {
namespace {

/// A fault on a variable. `works` false: it says that it is armed and does nothing.
class Fake : public Fault {
 public:
  Fake(int& state, bool works, bool stuck = false) : state_(state), works_(works), stuck_(stuck) {}
  FaultInfo info() const override { return {"fake.state", "a variable", "nothing", "anything", {}}; }
  OptionTable options() override { return OptionTable("", {{"value", &value_, "value to set", Unit::count, 1, 9}}); }
  std::vector<Evidence> arm(const Victim&, bool armed) override {
    if (armed && works_) state_ = value_;
    return {{Phase::armed, "armed", Json(true), Json(true), true}};
  }
  std::vector<Evidence> probe(const Victim&, bool armed) override {
    const int expected = armed ? value_ : 0;
    return {{Phase::observed, "state", Json(state_), Json(expected), state_ == expected}};
  }
  std::vector<Evidence> recover(const Victim&) override {
    if (!stuck_) state_ = 0;
    return {{Phase::recovered, "reset", Json(0), Json(0), true}};
  }
  std::vector<Evidence> probe_recovery(const Victim&) override {
    return {{Phase::recovery_proved, "state", Json(state_), Json(0), state_ == 0}};
  }

 private:
  int& state_;
  bool works_, stuck_;
  int value_ = 5;
};

TEST("an injection is proved by its probe") {
  int state = 0;
  Injection injection(std::make_unique<Fake>(state, true), true);
  CHECK(!injection.proved());
  injection.arm({});
  CHECK_EQ(state, 5);
  CHECK(!injection.proved());  // armed is not yet seen
  injection.prove({});
  CHECK(injection.proved());
  injection.recover({});
  injection.prove_recovery({});
  CHECK(injection.proved());
  CHECK_EQ(state, 0);
  CHECK_EQ(injection.evidence().size(), 4U);
  const Json json = injection.to_json();
  CHECK_EQ(json.at("fault").as_string(), "fake.state");
  CHECK(json.at("armed").as_bool() && json.at("proved").as_bool());
  CHECK_EQ(json.at("options").at("value").as_int(), 5);
  const char* phases[] = {"armed", "observed", "recovered", "recovery_proved"};
  for (std::size_t i = 0; i < 4; ++i) CHECK_EQ(json.at("evidence").as_array().at(i).at("phase").as_string(), phases[i]);
}

TEST("a fault that does nothing is not proved") {
  int state = 0;
  Injection injection(std::make_unique<Fake>(state, false), true);
  injection.arm({});
  injection.prove({});
  CHECK(!injection.proved());
  CHECK(!injection.to_json().at("proved").as_bool());
}

TEST("a disarmed injection is proved when its probe reads healthy and only then") {
  int state = 0;
  Injection healthy(std::make_unique<Fake>(state, true), false);
  healthy.arm({});
  healthy.prove({});
  CHECK(healthy.proved());
  state = 3;  // the trouble is there without us
  Injection troubled(std::make_unique<Fake>(state, true), false);
  troubled.arm({});
  troubled.prove({});
  CHECK(!troubled.proved());
}

TEST("a fault that stays is not proved") {
  int state = 0;
  Injection injection(std::make_unique<Fake>(state, true, true), true);
  injection.arm({});
  injection.prove({});
  CHECK(injection.proved());
  injection.recover({});
  injection.prove_recovery({});
  CHECK(!injection.proved());
}

/// Whether calling the phases in that order ends the process as a bug of ours does.
bool aborts(const char* order) {
  const pid_t child = fork();
  if (child == 0) {
    freopen("/dev/null", "w", stderr);
    int state = 0;
    Injection injection(std::make_unique<Fake>(state, true), true);
    for (; *order; ++order) {
      if (*order == 'a') injection.arm({});
      if (*order == 'p') injection.prove({});
      if (*order == 'r') injection.recover({});
      if (*order == 'q') injection.prove_recovery({});
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST("phases come once and in order") {
  CHECK(!aborts("aprq"));
  for (const char* order : {"p", "r", "q", "aa", "ar", "aq", "app", "apa", "apq", "aprr", "apra", "aprqq"}) CHECK(aborts(order));
}

}  // namespace
}  // namespace misfire
