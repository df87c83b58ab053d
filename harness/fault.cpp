#include "harness/fault.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "harness/error.hpp"

namespace misfire {

std::string_view phase_name(Phase phase) noexcept {
  switch (phase) {
    case Phase::armed:
      return "armed";
    case Phase::fired:
      return "fired";
    case Phase::observed:
      return "observed";
    case Phase::recovered:
      return "recovered";
    case Phase::recovery_proved:
      return "recovery_proved";
  }
  return "unknown";
}

Injection::Injection(std::unique_ptr<Fault> fault, bool armed) : fault_(std::move(fault)), armed_(armed) {
  MISFIRE_ASSERT(fault_);
}

void Injection::append(std::vector<Evidence> evidence) {
  evidence_.insert(evidence_.end(), std::make_move_iterator(evidence.begin()), std::make_move_iterator(evidence.end()));
}

void Injection::arm(const Victim& victim) {
  MISFIRE_ASSERT(step_ == 0);
  step_ = 1;
  append(fault_->arm(victim, armed_));
}

void Injection::prove(const Victim& victim) {
  MISFIRE_ASSERT(step_ == 1);
  step_ = 2;
  append(fault_->probe(victim, armed_));
}

void Injection::recover(const Victim& victim) {
  MISFIRE_ASSERT(step_ == 2);
  step_ = 3;
  append(fault_->recover(victim));
}

void Injection::prove_recovery(const Victim& victim) {
  MISFIRE_ASSERT(step_ == 3);
  step_ = 4;
  append(fault_->probe_recovery(victim));
}

bool Injection::proved() const noexcept {
  const bool seen = std::any_of(evidence_.begin(), evidence_.end(), [](const Evidence& e) { return e.phase == Phase::observed; });
  return seen && std::all_of(evidence_.begin(), evidence_.end(), [](const Evidence& e) { return e.holds; });
}

Json Injection::to_json() const {
  Json list = Json::array();
  for (const Evidence& e : evidence_)
    list.push_back(Json::object(
        {{"phase", phase_name(e.phase)}, {"what", e.what}, {"value", e.value}, {"expected", e.expected}, {"holds", e.holds}}));
  return Json::object({{"fault", fault_->info().name},
                       {"armed", armed_},
                       {"proved", proved()},
                       {"options", fault_->options().values()},
                       {"evidence", std::move(list)}});
}

}  // namespace misfire
