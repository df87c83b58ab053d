#include "harness/fault.hpp"

#include <algorithm>
#include <exception>
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

template <class Step>
void Injection::take(int step, Phase phase, Step&& carry_out) {
  MISFIRE_ASSERT(step_ + 1 == step);
  step_ = step;
  try {
    std::vector<Evidence> evidence = carry_out();
    evidence_.insert(evidence_.end(), std::make_move_iterator(evidence.begin()), std::make_move_iterator(evidence.end()));
  } catch (const std::exception& refused) {
    evidence_.push_back({phase, "this step could be carried out", Json(refused.what()), Json("no error"), false});
  }
}

void Injection::arm(const Victim& victim) {
  take(1, Phase::armed, [&] { return fault_->arm(victim, armed_); });
}

void Injection::prove(const Victim& victim) {
  take(2, Phase::observed, [&] { return fault_->probe(victim, armed_); });
}

void Injection::recover(const Victim& victim) {
  take(3, Phase::recovered, [&] { return fault_->recover(victim); });
}

void Injection::prove_recovery(const Victim& victim) {
  take(4, Phase::recovery_proved, [&] { return fault_->probe_recovery(victim); });
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
