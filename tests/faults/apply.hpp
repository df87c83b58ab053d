#pragma once

// Applies a fault as a trial does: by the subject, below a witness, inside a containment.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "faults/catalog.hpp"
#include "harness/containment.hpp"
#include "harness/error.hpp"
#include "harness/fault.hpp"
#include "tests/check.hpp"

namespace misfire {

/// What became of an injection; read from the process that it was applied in.
struct Applied {
  Json injection = Json::object();   ///< Injection::to_json() after its last phase
  std::string error;                 ///< when it threw
  Json seen = Json::object();        ///< what `look` returned while the fault was armed
  Json seen_after = Json::object();  ///< and after recovery

  bool proved() const { return injection.find("proved") && injection.at("proved").as_bool(); }
  /// Whether every piece of evidence of a phase holds; false when there is none.
  bool holds(std::string_view phase) const {
    bool any = false;
    for (const Json& evidence : injection.at("evidence").as_array())
      if (evidence.at("phase").as_string() == phase) {
        any = true;
        if (!evidence.at("holds").as_bool()) return false;
      }
    return any;
  }
};

/// The fault of that name with its effect taken away: everything is said and probed, nothing is put in place.
class Sabotaged : public Fault {
 public:
  /// @param nullify undoes what `arm` did, at once
  Sabotaged(std::unique_ptr<Fault> fault, std::function<void()> nullify)
      : fault_(std::move(fault)), nullify_(std::move(nullify)) {}
  FaultInfo info() const override { return fault_->info(); }
  OptionTable options() override { return fault_->options(); }
  std::vector<Evidence> arm(const Victim& victim, bool armed) override {
    auto evidence = fault_->arm(victim, armed);
    nullify_();
    return evidence;
  }
  std::vector<Evidence> probe(const Victim& victim, bool armed) override { return fault_->probe(victim, armed); }
  std::vector<Evidence> recover(const Victim& victim) override { return fault_->recover(victim); }
  std::vector<Evidence> probe_recovery(const Victim& victim) override { return fault_->probe_recovery(victim); }

 private:
  std::unique_ptr<Fault> fault_;
  std::function<void()> nullify_;
};

inline std::unique_ptr<Fault> make_fault(std::string_view name) {
  for (const FaultEntry& entry : fault_catalog())
    if (entry.name == name) return entry.make();
  throw Error(ErrorCode::not_found, "no fault is named '" + std::string(name) + "'");
}

/// Skips the test where the containment is not one with namespaces and `needs_namespaces`.
/// @param nullify  if given, the fault is sabotaged with it
inline Applied apply(std::string_view name, const Json& options, bool armed, const std::function<Json()>& look,
                     bool needs_namespaces, const std::function<void()>& nullify = {}) {
  int ends[2];
  if (pipe(ends) != 0) throw system_error("make a pipe", "", errno);
  const int code = run_contained([&](const Contained& contained) {
    if (needs_namespaces && !contained.private_shm) return 77;
    const pid_t subject = fork();
    if (subject == 0) {
      Json result = Json::object();
      try {
        std::unique_ptr<Fault> fault = make_fault(name);
        fault->options().set(options);
        if (nullify) fault = std::make_unique<Sabotaged>(std::move(fault), nullify);
        Injection injection(std::move(fault), armed);
        const Victim victim{static_cast<int>(getpid()), "/tmp", Seed(1)};
        injection.arm(victim);
        injection.prove(victim);
        result.set("seen", look());
        injection.recover(victim);
        injection.prove_recovery(victim);
        result.set("seen_after", look());
        result.set("injection", injection.to_json());
      } catch (const std::exception& error) {
        result.set("error", error.what());
      }
      const std::string text = result.dump();
      _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    int status = 0;
    waitpid(subject, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  });
  close(ends[1]);
  std::string text(1 << 16, '\0');
  const ssize_t count = read(ends[0], text.data(), text.size());
  close(ends[0]);
  if (code == 77) SKIP("no mount namespaces here");
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  CHECK_EQ(code, 0);
  const Json told = Json::parse(text, "subject");
  Applied applied;
  if (const Json* error = told.find("error")) applied.error = error->as_string();
  if (const Json* injection = told.find("injection")) applied.injection = *injection;
  if (const Json* seen = told.find("seen")) applied.seen = *seen;
  if (const Json* seen = told.find("seen_after")) applied.seen_after = *seen;
  return applied;
}

}  // namespace misfire
