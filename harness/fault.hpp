#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/json.hpp"
#include "harness/options.hpp"
#include "harness/seed.hpp"

namespace misfire {

/// The life of an injection. Each step leaves evidence; without evidence the verdict is `invalid`.
enum class Phase {
  armed,            ///< the mechanism is in place
  fired,            ///< it acted, or is certain to act on the path from now on
  observed,         ///< a probe through the victim's own path shows it, and a control probe through an unfaulted path does not
  recovered,        ///< the mechanism was removed
  recovery_proved,  ///< the same probe reads healthy again
};
std::string_view phase_name(Phase phase) noexcept;

/// One observation that supports a phase: a probe's result, a counter's difference, a wait status.
struct Evidence {
  Phase phase;
  std::string what;    ///< "statfs /dev/shm total", "write past the limit", "control probe: write to a private file"
  Json value;          ///< what was seen
  Json expected;       ///< what shows the phase
  bool holds = false;  ///< whether what was seen is what was expected
};

/// What a fault says of itself; printed by `misfire faults` and in the record.
struct FaultInfo {
  std::string_view name;  ///< "mem.shm_size"
  std::string_view summary;
  std::string_view models;  ///< the real condition that it stands for
  std::string_view does_not_model;
  std::vector<std::string_view> needs;  ///< capabilities
};

/// Where a fault acts: only on processes, namespaces and directories of the trial.
struct Victim {
  int pid = 0;            ///< process whose surroundings are changed; the subject itself
  std::string directory;  ///< the trial's private directory
  Seed seed{0};
};

/// A mechanism that can be made to go wrong. One file a fault under faults/, one line in faults/catalog.inc.
///
/// Every arm of an experiment has the mechanism in place; in the control it is disarmed (present, without effect), so that
/// arms differ by the fault alone. Calls come in the order arm, probe, recover, probe_recovery, once each; class Injection
/// enforces that and keeps the evidence.
class Fault {
 public:
  virtual ~Fault() = default;
  virtual FaultInfo info() const = 0;
  virtual OptionTable options() = 0;
  /// Puts the mechanism in place. @param armed false: the disarmed form
  virtual std::vector<Evidence> arm(const Victim& victim, bool armed) = 0;
  /// Probes the victim's path and an unfaulted one. For the disarmed form the same probes must read healthy.
  virtual std::vector<Evidence> probe(const Victim& victim, bool armed) = 0;
  virtual std::vector<Evidence> recover(const Victim& victim) = 0;
  virtual std::vector<Evidence> probe_recovery(const Victim& victim) = 0;
};

/// One fault applied once to one victim, with its evidence. Validates the order of the phases. A phase that throws is evidence
/// that does not hold, and the next ones are called all the same: a fault must bear recover() after an arm() that threw.
class Injection {
 public:
  Injection(std::unique_ptr<Fault> fault, bool armed);
  void arm(const Victim& victim);
  void prove(const Victim& victim);
  void recover(const Victim& victim);
  void prove_recovery(const Victim& victim);

  bool armed() const noexcept { return armed_; }
  /// Every piece of evidence so far holds.
  bool proved() const noexcept;
  const std::vector<Evidence>& evidence() const noexcept { return evidence_; }
  Fault& fault() noexcept { return *fault_; }
  Json to_json() const;

 private:
  template <class Step>
  void take(int step, Phase phase, Step&& carry_out);
  std::unique_ptr<Fault> fault_;
  bool armed_;
  int step_ = 0;
  std::vector<Evidence> evidence_;
};

/// A room's list of faults, read from its catalog.inc.
struct FaultEntry {
  std::string_view name;
  std::unique_ptr<Fault> (*make)();
};

}  // namespace misfire
