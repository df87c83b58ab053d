// The witness: what is known of a trial whatever becomes of its subject.
//
// It owns the recorder's memory and drains it, looks at /proc and /dev/shm by itself every 20 ms and when the subject asks, takes
// both clocks' anchors, keeps the deadline, and writes the record before anything is cleaned up. It believes the subject about
// notes and failures only; everything else it sees for itself.

#include "harness/witness.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>

#include "harness/cgroup.hpp"
#include "harness/environment.hpp"
#include "harness/error.hpp"
#include "harness/procfs.hpp"
#include "harness/subject.hpp"

namespace misfire {
namespace {

constexpr std::int64_t look_interval_ns = 20'000'000;
constexpr std::int64_t anchor_interval_ns = 500'000'000;
constexpr int messages_at_once = 256;  // then the clock is looked at again: a subject that never stops talking has a deadline too
constexpr std::size_t notes_bytes_max = 32 << 20;

/// Raw time stamps to CLOCK_MONOTONIC, linear between anchors.
class ClockMap {
 public:
  void add(const ClockAnchor& anchor) { anchors_.push_back(anchor); }
  std::int64_t to_ns(std::uint64_t ticks) const {
    if (anchors_.size() < 2) return anchors_.empty() ? 0 : anchors_.front().monotonic_ns;
    std::size_t i = 1;
    while (i + 1 < anchors_.size() && anchors_[i].ticks < ticks) ++i;
    const ClockAnchor &a = anchors_[i - 1], &b = anchors_[i];
    if (b.ticks == a.ticks) return a.monotonic_ns;
    const double share = (static_cast<double>(ticks) - static_cast<double>(a.ticks)) / static_cast<double>(b.ticks - a.ticks);
    return a.monotonic_ns + static_cast<std::int64_t>(share * static_cast<double>(b.monotonic_ns - a.monotonic_ns));
  }
  const std::vector<ClockAnchor>& anchors() const noexcept { return anchors_; }

 private:
  std::vector<ClockAnchor> anchors_;
};

class Witness {
 public:
  Witness(const WitnessSetup& setup, const Contained& contained, RecordWriter& record)
      : setup_(setup), contained_(contained), record_(record) {
    const std::size_t bytes = Recorder::mapping_bytes({});
    memory_descriptor_ = memfd_create("misfire-recorder", 0);  // kept across exec: executed workers attach to it
    if (memory_descriptor_ < 0 || ftruncate(memory_descriptor_, static_cast<off_t>(bytes)) != 0)
      throw system_error("make the recorder's memory", "", errno);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_descriptor_, 0);
    if (memory == MAP_FAILED) throw system_error("map the recorder's memory", "", errno);
    recorder_ = Recorder::create({static_cast<std::byte*>(memory), bytes}, {});
    raw_.resize(recorder_.lanes());
  }

  int run() {
    // With namespaces a directory in the private tmpfs, reached through our own working directory so that a fault mounted over
    // /dev/shm does not hide it; without them one that the guard removes.
    const std::string directory = contained_.private_shm ? "/proc/" + std::to_string(getpid()) + "/cwd" : contained_.directory;
    clock_.add(ClockAnchor::take());
    const int home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);  // where the subject stays
    if (home < 0) throw system_error("open the working directory", ".", errno);
    if (contained_.private_shm && chdir("/dev/shm") != 0) throw system_error("enter", "/dev/shm", errno);
    start_subject(directory, home);
    close(home);
    watch();
    clock_.add(ClockAnchor::take());
    drain();
    write_record();
    return static_cast<int>(outcome_.kind == "error" ? Exit::internal : Exit::success);
  }

 private:
  void start_subject(const std::string& directory, int home) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) throw system_error("make a socket pair", "", errno);
    int lifeline[2];
    if (pipe2(lifeline, O_CLOEXEC) != 0) throw system_error("make a pipe", "", errno);
    oom_before_ = oom_kills(control_group("memory"));
    subject_ = fork();
    if (subject_ < 0) throw system_error("start the subject", "", errno);
    if (subject_ == 0) {
      close(sockets[0]);
      close(lifeline[1]);
      die_with_parent(lifeline[0]);
      if (fchdir(home) != 0) _exit(subject_error);
      const rlimit core{1, 1};  // no core files, but the kernel still says whether there would have been one
      setrlimit(RLIMIT_CORE, &core);
      SubjectSetup setup;
      setup.socket = sockets[1];
      setup.recorder_descriptor = memory_descriptor_;
      setup.recorder = recorder_;
      setup.seed = Seed(setup_.options.seed);
      setup.directory = directory;
      const int code = run_subject(setup, setup_.workload, setup_.plan, setup_.faults);
      std::_Exit(code);
    }
    close(sockets[1]);
    close(lifeline[0]);
    lifeline_ = lifeline[1];
    socket_ = sockets[0];
    started_ns_ = monotonic_ns();
  }

  void watch() {
    const int subject_fd = static_cast<int>(syscall(SYS_pidfd_open, subject_, 0));
    if (subject_fd < 0) throw system_error("watch the subject", "", errno);
    const std::int64_t deadline = started_ns_ + setup_.deadline.count();
    std::int64_t next_look = started_ns_, next_anchor = started_ns_ + anchor_interval_ns;
    bool ended = false;
    while (!ended) {
      const std::int64_t now = monotonic_ns();
      if (now >= deadline && !timed_out_) {
        timed_out_ = true;
        observe("deadline", 0, true);
        kill(subject_, SIGKILL);
      }
      if (now >= next_look) {
        drain();
        if (running_) observe("", 0, false);
        next_look = std::max(next_look + look_interval_ns, now + look_interval_ns / 2);
      }
      if (now >= next_anchor) {
        clock_.add(ClockAnchor::take());
        next_anchor += anchor_interval_ns;
      }
      const std::int64_t wait_ns =
          std::max<std::int64_t>(0, std::min(next_look, timed_out_ ? next_look : deadline) - monotonic_ns());
      pollfd polled[2] = {{silent_ ? -1 : socket_, POLLIN, 0}, {subject_fd, POLLIN, 0}};
      poll(polled, 2, static_cast<int>(wait_ns / 1'000'000 + 1));
      if (polled[0].revents & POLLIN) read_messages();
      ended = reap();
    }
    for (int i = 0; i < 16 && read_messages(); ++i) {  // what it said last; a socket holds fewer than that
    }
    if (run_end_ns_ == 0) run_end_ns_ = monotonic_ns();
    close(subject_fd);
    conclude();
  }

  /// Takes every ended child; as the first process of a PID namespace, or as a subreaper, orphans are ours too.
  bool reap() {
    bool subject_ended = false;
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid != subject_) continue;
      subject_ended = true;
      status_ = status;
    }
    return subject_ended;
  }

  /// @return whether there may be more
  bool read_messages() {
    for (int i = 0; i < messages_at_once; ++i) {
      const ssize_t count = recv(socket_, datagram_.data(), datagram_.size(), MSG_DONTWAIT);
      if (count == 0) silent_ = true;  // the subject closed its end, and may go on
      if (count <= 0) return false;
      const std::string_view text(datagram_.data(), static_cast<std::size_t>(count));
      handle(Json::parse(text, "subject"), text.size());
    }
    return true;
  }

  void handle(const Json& said, std::size_t bytes) {
    const std::string& kind = said.at("m").as_string();
    if (kind == message::look) {
      observe(said.at("label").as_string(), static_cast<std::uint32_t>(said.at("tag").as_uint()), true);
      answer();
    } else if (kind == message::region) {
      regions_.push_back({said.at("name").as_string(), said.at("address").as_uint(), said.at("bytes").as_uint()});
    } else if (kind == message::note) {
      if (notes_bytes_ + bytes > notes_bytes_max) {
        ++notes_dropped_;
      } else {
        notes_bytes_ += bytes;
        notes_.emplace_back(said.at("name").as_string(), said.at("value"));
      }
    } else if (kind == message::failed) {
      outcome_.failure = said.at("failure").as_string();
      outcome_.what = said.at("what").as_string();
    } else if (kind == message::error) {
      error_ = said.at("what").as_string();
    } else if (kind == message::start_run) {
      observe("start_run", 0, true);
      run_start_ns_ = monotonic_ns();
      running_ = true;
      answer();
    } else if (kind == message::end_run) {
      run_end_ns_ = said.at("monotonic_ns").as_int();
      running_ = false;
    } else if (kind == message::done) {
      done_ = true;
    } else if (kind == message::injection) {
      const auto index = static_cast<std::size_t>(said.at("index").as_uint());
      if (index >= injections_.size()) injections_.resize(index + 1);
      injections_[index] = said.at("injection");
    }
  }

  void answer() {
    const char byte = 1;
    [[maybe_unused]] const ssize_t sent = send(socket_, &byte, 1, MSG_NOSIGNAL);
  }

  void observe(std::string_view label, std::uint32_t tag, bool memory) {
    Observation seen;
    seen.monotonic_ns = monotonic_ns();
    seen.label = label;
    seen.tag = tag;
    // Through the subject's root: a fault may have mounted another file system there in the same namespace.
    struct statvfs shm {};
    if (statvfs("/dev/shm", &shm) == 0) {
      seen.shm_total_bytes = static_cast<std::uint64_t>(shm.f_blocks) * shm.f_frsize;
      seen.shm_used_bytes = static_cast<std::uint64_t>(shm.f_blocks - shm.f_bfree) * shm.f_frsize;
    }
    seen.processes = snapshot_descendants(getpid(), memory, regions_);
    observations_.push_back(std::move(seen));
  }

  void drain() {
    for (std::uint32_t lane = 0; lane < recorder_.lanes(); ++lane)
      recorder_.drain(
          lane, [&](std::span<const RawEvent> events) { raw_[lane].insert(raw_[lane].end(), events.begin(), events.end()); });
  }

  void conclude() {
    outcome_.elapsed = Duration(run_start_ns_ > 0 ? run_end_ns_ - run_start_ns_ : 0);
    const auto oom_after = oom_kills(control_group("memory"));
    if (timed_out_) {
      outcome_.kind = "timeout";
      outcome_.what = "still running after " + format_duration(setup_.deadline) + "; ended by the witness";
    } else if (WIFSIGNALED(status_)) {
      outcome_.signal = WTERMSIG(status_);
      outcome_.core = WCOREDUMP(status_);
      const bool oom = outcome_.signal == SIGKILL && oom_before_ && oom_after && *oom_after > *oom_before_;
      outcome_.kind = oom ? "memory_limit" : "signal";
      outcome_.what = std::string("killed by signal ") + std::to_string(outcome_.signal) + " (" + strsignal(outcome_.signal) +
                      ")" + (oom ? ", and the memory controller counted a kill" : "");
    } else {
      outcome_.exit_code = WEXITSTATUS(status_);
      if (done_) {
        outcome_.kind = outcome_.exit_code == subject_ok ? "ok" : "failed";
      } else {
        outcome_.kind = "error";
        outcome_.what = !error_.empty() ? error_
                                        : "the subject exited with " + std::to_string(outcome_.exit_code) +
                                              " before its workload had come to an end";
      }
    }
    // What is missing is said: it must not read as what did not happen.
    if (notes_dropped_ > 0) notes_.emplace_back("notes_dropped", Json(notes_dropped_));
    if (recorder_.lanes_refused() > 0) notes_.emplace_back("lanes_refused", Json(recorder_.lanes_refused()));
  }

  /// Events of the run phase, by time.
  Trace make_trace() const {
    Trace trace;
    trace.outcome = outcome_;
    trace.workload = setup_.plan.workload;
    trace.subject_pid = subject_;
    trace.notes = notes_;
    trace.observations = observations_;
    trace.dropped_events = recorder_.lanes_refused();  // at least one of each
    for (std::uint32_t lane = 0; lane < recorder_.lanes(); ++lane) {
      const Recorder::LaneInfo info = recorder_.lane(lane);
      trace.dropped_events += info.dropped;
      std::int64_t last = 0;
      for (const RawEvent& raw : raw_[lane]) {
        Event event;
        event.site = static_cast<std::uint16_t>(raw.site_kind >> 2);
        event.kind = static_cast<EventKind>(raw.site_kind & 3);
        event.tag = raw.tag;
        event.pid = info.pid;
        event.tid = info.tid;
        if (event.kind == EventKind::sample) {
          event.value = std::bit_cast<double>(raw.word);
          event.monotonic_ns = last;
        } else {
          event.monotonic_ns = last = clock_.to_ns(raw.word);
        }
        if (run_start_ns_ > 0 && event.monotonic_ns >= run_start_ns_ && event.monotonic_ns <= run_end_ns_)
          trace.events.push_back(event);
      }
    }
    std::stable_sort(trace.events.begin(), trace.events.end(),
                     [](const Event& a, const Event& b) { return a.monotonic_ns < b.monotonic_ns; });
    return trace;
  }

  void write_record() {
    Json header = setup_.header;
    header.set("containment", containment_name(contained_.kind));
    if (!contained_.refused.empty()) {
      Json refused = Json::array();
      for (const std::string& why : contained_.refused) refused.push_back(why);
      header.set("containment_refused", std::move(refused));
    }
    header.set("sites", sites());
    record_.write("trial", std::move(header));
    record_.write("environment", Json::object({{"environment", setup_.environment}, {"load_at_end", capture_load()}}));
    record_.write("options", Json::object({{"options", setup_.workload.options().values()}}));
    for (const Json& injection : injections_)
      if (injection.is_object()) record_.write("injection", injection);
    for (std::uint32_t lane = 0; lane < recorder_.lanes(); ++lane) {
      const Recorder::LaneInfo info = recorder_.lane(lane);
      if (info.pid != 0)
        record_.write(
            "lane",
            Json::object(
                {{"lane", lane}, {"pid", info.pid}, {"tid", info.tid}, {"written", info.written}, {"dropped", info.dropped}}));
    }
    for (const auto& [name, value] : notes_) record_.write("note", Json::object({{"name", name}, {"value", value}}));

    std::vector<std::pair<std::string, std::string>> missing;
    for (const Metric& metric : setup_.workload.analyse(make_trace(), missing)) {
      const Json value = metric.is_text() ? Json(metric.text()) : Json(metric.number());
      record_.write("metric", Json::object({{"name", metric.name}, {"value", value}, {"unit", unit_name(metric.unit)}}));
    }
    for (const auto& [name, why] : missing) record_.write("missing", Json::object({{"name", name}, {"why", why}}));
    if (setup_.raw_descriptor >= 0) write_raw();
    record_.write("outcome", Json::object({{"kind", outcome_.kind},
                                           {"what", outcome_.what},
                                           {"failure", outcome_.failure},
                                           {"exit_code", outcome_.exit_code},
                                           {"signal", outcome_.signal},
                                           {"core", outcome_.core},
                                           {"elapsed_seconds", to_seconds(outcome_.elapsed)},
                                           {"trial_seconds", to_seconds(Duration(monotonic_ns() - started_ns_))}}));
  }

  Json sites() const {
    Json list = Json::array();
    for (const Site& site : setup_.scenario.sites)
      list.push_back(Json::object({{"id", static_cast<int>(site.id)}, {"name", site.name}, {"unit", unit_name(site.unit)}}));
    return list;
  }

  /// Binary, little endian on every supported machine; results/schema.md describes it.
  void write_raw() const {
    std::string bytes = "MISFRAW1";
    const auto put = [&](const auto& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
    put(static_cast<std::uint64_t>(clock_.anchors().size()));
    for (const ClockAnchor& anchor : clock_.anchors()) {
      put(anchor.ticks);
      put(anchor.monotonic_ns);
    }
    for (std::uint32_t lane = 0; lane < recorder_.lanes(); ++lane) {
      const Recorder::LaneInfo info = recorder_.lane(lane);
      if (info.pid == 0) continue;
      put(info.pid);
      put(info.tid);
      put(static_cast<std::uint64_t>(raw_[lane].size()));
      for (const RawEvent& event : raw_[lane]) put(event);
    }
    for (std::string_view rest = bytes; !rest.empty();) {
      const ssize_t written = write(setup_.raw_descriptor, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw system_error("write the raw events", setup_.options.record + ".raw", errno);
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  const WitnessSetup& setup_;
  const Contained& contained_;
  RecordWriter& record_;
  int memory_descriptor_ = -1, socket_ = -1, lifeline_ = -1;
  Recorder recorder_;
  pid_t subject_ = -1;
  int status_ = 0;
  bool running_ = false, timed_out_ = false;
  bool silent_ = false;  ///< nothing comes from the socket any more
  bool done_ = false;    ///< the workload came to its end, well or not
  std::string datagram_ = std::string(message::bytes_max, '\0');
  std::size_t notes_bytes_ = 0;
  std::uint64_t notes_dropped_ = 0;
  std::int64_t started_ns_ = 0, run_start_ns_ = 0, run_end_ns_ = 0;
  std::optional<std::uint64_t> oom_before_;
  ClockMap clock_;
  std::vector<std::vector<RawEvent>> raw_;
  std::vector<Observation> observations_;
  std::vector<WatchedRegion> regions_;
  std::vector<std::pair<std::string, Json>> notes_;
  std::vector<Json> injections_;
  Outcome outcome_;
  std::string error_;
};

}  // namespace

int run_witness(const WitnessSetup& setup, const Contained& contained, RecordWriter& record) {
  Witness witness(setup, contained, record);
  return witness.run();
}

}  // namespace misfire
