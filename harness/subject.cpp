#include "harness/subject.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <vector>

#include "harness/clock.hpp"
#include "harness/error.hpp"

namespace misfire {
namespace {

constexpr std::size_t text_max = 16 << 10;

class WatchedSubject : public Subject {
 public:
  WatchedSubject(const SubjectSetup& setup, const TrialPlan& plan, std::span<const FaultEntry> faults)
      : setup_(setup), recorder_(setup.recorder), victim_{static_cast<int>(getpid()), setup.directory, setup.seed} {
    for (const auto& planned : plan.injections) {
      const auto entry =
          std::find_if(faults.begin(), faults.end(), [&](const FaultEntry& known) { return known.name == planned.spec.fault; });
      if (entry == faults.end()) throw Error(ErrorCode::not_found, "no fault is named '" + planned.spec.fault + "'");
      auto fault = entry->make();
      fault->options().set(planned.spec.options);
      injections_.emplace_back(std::move(fault), planned.armed);
    }
  }

  Seed seed() const override { return setup_.seed; }
  Recorder& recorder() override { return recorder_; }
  const std::string& directory() const override { return setup_.directory; }
  int recorder_descriptor() const override { return setup_.recorder_descriptor; }

  void look(std::string_view label, std::uint32_t tag) override {
    send(Json::object({{"m", message::look}, {"label", label}, {"tag", tag}}));
    wait_for_answer();
  }
  void watch_region(std::string_view name, const void* address, std::size_t bytes) override {
    send(Json::object(
        {{"m", message::region}, {"name", name}, {"address", reinterpret_cast<std::uintptr_t>(address)}, {"bytes", bytes}}));
  }
  void note(std::string_view name, Json value) override {
    send(Json::object({{"m", message::note}, {"name", name}, {"value", std::move(value)}}));
  }
  void failed(std::string_view failure, std::string_view what) override {
    if (!std::exchange(failed_, true))
      send(Json::object({{"m", message::failed}, {"failure", failure}, {"what", what.substr(0, text_max)}}));
  }
  void start_run() override {
    MISFIRE_ASSERT(!started_);
    started_ = true;
    for (Injection& injection : injections_) injection.arm(victim_);
    for (Injection& injection : injections_) injection.prove(victim_);
    report_injections();
    send(Json::object({{"m", message::start_run}}));
    wait_for_answer();
  }
  void end_run() override {
    if (!std::exchange(ended_, true)) send(Json::object({{"m", message::end_run}, {"monotonic_ns", monotonic_ns()}}));
  }

  void recover() {
    if (!started_) return;
    std::for_each(injections_.rbegin(), injections_.rend(), [&](Injection& injection) { injection.recover(victim_); });
    for (Injection& injection : injections_) injection.prove_recovery(victim_);
    report_injections();
  }
  /// @return exit code of the process
  int finish() {
    send(Json::object({{"m", message::done}}));
    return failed_ ? subject_failed : subject_ok;
  }

 private:
  void report_injections() {
    for (std::size_t i = 0; i < injections_.size(); ++i)
      send(Json::object({{"m", message::injection}, {"index", i}, {"injection", injections_[i].to_json()}}));
  }
  void wait_for_answer() {
    char answer = 0;
    while (recv(setup_.socket, &answer, 1, 0) < 0) {
      if (errno != EINTR) throw system_error("wait for the witness", "", errno);
    }
  }
  void send(const Json& datagram) {
    const std::string text = datagram.dump();
    if (text.size() > message::bytes_max)
      throw Error(ErrorCode::invalid_input, "tell the witness: a " + datagram.at("m").as_string() + " of " +
                                                std::to_string(text.size()) + " bytes; at most " +
                                                std::to_string(message::bytes_max) + " fit, so split it or record less");
    while (::send(setup_.socket, text.data(), text.size(), MSG_NOSIGNAL) < 0) {
      if (errno == EINTR) continue;
      throw system_error("tell the witness", std::string(datagram.at("m").as_string()), errno);
    }
  }

  const SubjectSetup& setup_;
  Recorder recorder_;
  Victim victim_;
  std::vector<Injection> injections_;
  bool started_ = false, ended_ = false, failed_ = false;
};

}  // namespace

int run_subject(const SubjectSetup& setup, Workload& workload, const TrialPlan& plan, std::span<const FaultEntry> faults) {
  std::unique_ptr<WatchedSubject> subject;
  try {
    subject = std::make_unique<WatchedSubject>(setup, plan, faults);
    workload.prepare(*subject);
    workload.run(*subject);
    subject->end_run();
    subject->recover();
    return subject->finish();
  } catch (const std::exception& error) {
    const std::string text =
        Json::object({{"m", message::error}, {"what", std::string_view(error.what()).substr(0, text_max)}}).dump();
    [[maybe_unused]] const ssize_t sent = ::send(setup.socket, text.data(), text.size(), MSG_NOSIGNAL);
    return subject_error;
  }
}

}  // namespace misfire
