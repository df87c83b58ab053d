// Workers as processes: forked, forked by a server that was forked early, or executed afresh.
//
// Tasks and answers are datagrams on one socket pair a worker; batches stay in shared memory and only their place, or a
// descriptor or name, is handed over. The consumer never blocks in sending: what does not fit waits here. A worker's death is
// seen at once on its pidfd. Workers start no threads and die with their parent.

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/cgroup.hpp"
#include "harness/error.hpp"
#include "harness/process.hpp"
#include "suites/dataloader/pool.hpp"
#include "suites/dataloader/sites.hpp"

namespace misfire::dataloader {
namespace {

struct TaskHeader {
  std::uint32_t batch;
  std::int32_t epoch, slot;
  std::uint32_t count;
};
struct MadeHeader {
  Made::Status status;
  std::uint32_t batch;
  std::int32_t slot;
  std::uint32_t count, text_bytes, name_bytes, segment_bytes;
};
/// Between the consumer and the fork server. A request brings the worker's socket, the reply to it the worker's pidfd.
struct ForkRequest {
  std::int32_t worker;
};
struct ForkReply {
  std::int32_t exited;  ///< 0: started (pid below 0: not, `status` is errno), 1: ended with `status`
  std::int32_t pid, status;
};

constexpr std::size_t datagram_limit = 1 << 17;
constexpr const char* worker_flag = "--loader-worker";

/// A descriptor and its end.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int get() const noexcept { return number_; }
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_;
};

std::pair<Descriptor, Descriptor> socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw system_error("make", "a socket pair", errno);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

enum class Sent { yes, full, broken };

/// @param flags  MSG_DONTWAIT or 0
Sent send_bytes(int socket, std::string_view bytes, int descriptor = -1, int flags = 0) {
  if (bytes.size() > datagram_limit)
    throw Error(ErrorCode::invalid_input, "a message of " + std::to_string(bytes.size()) +
                                              " bytes to a loader process: at most " + std::to_string(datagram_limit));
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL | flags) < 0) {
    if (errno == EAGAIN) return Sent::full;
    if (errno == EPIPE || errno == ECONNRESET) return Sent::broken;
    if (errno != EINTR) throw system_error("send to", "a loader process", errno);
  }
  return Sent::yes;
}

/// Where datagrams arrive. Reused, because clearing so much memory for each would cost more than the datagram.
using Inbox = std::vector<char>;

/// @return nothing at the end of the connection
std::optional<std::string_view> receive_bytes(int socket, Inbox& inbox, Descriptor* descriptor = nullptr) {
  inbox.resize(datagram_limit);
  iovec part{inbox.data(), inbox.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t count;
  while ((count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == ECONNRESET) return std::nullopt;
    if (errno != EINTR) throw system_error("receive from", "a loader process", errno);
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
    if (header->cmsg_type == SCM_RIGHTS) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header), sizeof(int));
      Descriptor came(number);
      if (descriptor) *descriptor = std::move(came);
    }
  if (message.msg_flags & MSG_CTRUNC)
    throw Error(ErrorCode::io,
                "receive a batch's descriptor: the kernel dropped it (open files at the limit: raise RLIMIT_NOFILE or keep fewer "
                "batches)");
  if (count == 0) return std::nullopt;
  return std::string_view(inbox.data(), static_cast<std::size_t>(count));
}

template <class T>
void put(std::string& bytes, const T* values, std::size_t count) {
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}
template <class T>
void take(std::string_view bytes, std::size_t& at, T* values, std::size_t count) {
  if (at + count * sizeof(T) > bytes.size()) throw Error(ErrorCode::internal, "a loader message is shorter than it says");
  if (count > 0) std::memcpy(static_cast<void*>(values), bytes.data() + at, count * sizeof(T));
  at += count * sizeof(T);
}

std::string encode(const Task& task) {
  std::string bytes;
  const TaskHeader header{task.batch, task.epoch, task.slot, static_cast<std::uint32_t>(task.indices.size())};
  put(bytes, &header, 1);
  put(bytes, task.indices.data(), task.indices.size());
  return bytes;
}

std::string encode(const Made& made) {
  constexpr std::size_t longest_text = 4096;
  const std::string_view text = std::string_view(made.text).substr(0, longest_text);
  std::string bytes;
  const MadeHeader header{made.status,
                          made.batch,
                          made.slot,
                          static_cast<std::uint32_t>(made.indices.size()),
                          static_cast<std::uint32_t>(text.size()),
                          static_cast<std::uint32_t>(made.segment.name().size()),
                          static_cast<std::uint32_t>(made.segment.bytes().size())};
  put(bytes, &header, 1);
  put(bytes, made.labels.data(), made.labels.size());
  put(bytes, made.indices.data(), made.indices.size());
  put(bytes, text.data(), text.size());
  put(bytes, made.segment.name().data(), made.segment.name().size());
  return bytes;
}

Lane* lane_of_this_worker = nullptr;
Position* position_of_this_worker = nullptr;

/// Notes how full /dev/shm is before SIGBUS ends the process: with the process goes the batch it was writing, and with that the
/// evidence. Only calls that are safe in a signal handler; returning repeats the fault, this time with the default action.
void note_bus_error(int, siginfo_t* info, void*) {
  struct statfs seen;
  if (syscall(SYS_statfs, "/dev/shm", &seen) == 0 && seen.f_blocks > 0) {
    const double used = static_cast<double>(seen.f_blocks - seen.f_bfree) / static_cast<double>(seen.f_blocks);
    position_of_this_worker->shm_used.store(used, std::memory_order_relaxed);
    lane_of_this_worker->sample(site::shm_at_fault, used);
  }
  if (info->si_code <= 0) raise(SIGBUS);  // sent by somebody: no fault would be repeated
}

void watch_for_bus_error(Lane& lane, Position* position) {
  lane_of_this_worker = &lane;
  position_of_this_worker = position;
  struct sigaction action {};
  action.sa_sigaction = note_bus_error;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_SIGINFO);
  sigaction(SIGBUS, &action, nullptr);
}

/// A worker process, from its birth to its end.
[[noreturn]] void worker_process(int socket, const PoolSetup& setup, int worker, Position* position) {
  int code = 0;
  try {
    Recorder recorder = setup.recorder;
    Lane lane = recorder.claim_lane();
    std::string trouble;
    try {
      place_worker(setup.options, setup.topology.get(), worker);
      setup.dataset.on_worker_start(worker);
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    lane.mark(site::worker_start, static_cast<std::uint32_t>(worker));
    BatchMaker maker(setup.dataset, setup.options, worker, setup.seed, lane, position);
    watch_for_bus_error(lane, position);
    Inbox inbox;
    while (const auto bytes = receive_bytes(socket, inbox)) {
      if (position->leave.load(std::memory_order_relaxed)) break;
      std::size_t at = 0;
      TaskHeader header{};
      take(*bytes, at, &header, 1);
      Task task{header.batch, header.epoch, header.slot, std::vector<std::uint32_t>(header.count)};
      take(*bytes, at, task.indices.data(), task.indices.size());
      const Made made = trouble.empty() ? maker.make(task, setup.memory_of(task)) : could_not_start(task, worker, trouble);
      const int descriptor = made.segment.name().empty() ? made.segment.descriptor() : -1;
      if (send_bytes(socket, encode(made), descriptor) != Sent::yes) break;  // nobody wants it any more
    }
    lane.mark(site::worker_stop, static_cast<std::uint32_t>(worker));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "loader worker %d: %s\n", worker, error.what());
    code = 70;
  }
  _exit(code);
}

void follow_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

int open_pidfd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

/// A process forked before any thread exists, which forks workers when asked.
[[noreturn]] void fork_server(int socket, const PoolSetup& setup, Position* positions) {
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  sigprocmask(SIG_BLOCK, &children, nullptr);
  const int ended = signalfd(-1, &children, SFD_CLOEXEC);
  const pid_t self = getpid();
  const auto tell = [socket](const ForkReply& reply, int descriptor = -1) {
    std::string bytes;
    put(bytes, &reply, 1);
    send_bytes(socket, bytes, descriptor);
  };
  try {
    Inbox inbox;
    for (;;) {
      pollfd polled[2] = {{socket, POLLIN, 0}, {ended, POLLIN, 0}};
      if (poll(polled, 2, -1) < 0 && errno != EINTR) break;
      if (polled[1].revents & POLLIN) {
        signalfd_siginfo info;
        [[maybe_unused]] const ssize_t count = read(ended, &info, sizeof info);
        int status = 0;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) tell({1, pid, status});
      }
      if (polled[0].revents & (POLLIN | POLLHUP)) {
        Descriptor workers_end;
        const auto bytes = receive_bytes(socket, inbox, &workers_end);
        if (!bytes) break;
        ForkRequest request{};
        std::size_t at = 0;
        take(*bytes, at, &request, 1);
        const pid_t pid = fork();
        if (pid == 0) {
          follow_parent(self);
          sigprocmask(SIG_UNBLOCK, &children, nullptr);
          close(socket);
          close(ended);
          worker_process(workers_end.get(), setup, request.worker, positions + request.worker);
        }
        const int error = errno;
        // Taken before the child can be reaped: it names this process and no other.
        const Descriptor pidfd(pid > 0 ? open_pidfd(pid) : -1);
        tell({0, pid, pid < 0 ? error : 0}, pidfd.get());
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "loader fork server: %s\n", error.what());
  }
  _exit(0);
}

class ProcessPool : public WorkerPool {
 public:
  explicit ProcessPool(const PoolSetup& setup) : setup_(setup) {
    const std::size_t bytes = sizeof(Position) * static_cast<std::size_t>(setup.options.num_workers);
    Descriptor memory(memfd_create("misfire-positions", MFD_CLOEXEC));
    if (memory.get() < 0 || ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0)
      throw system_error("make shared memory for", "the workers' positions", errno);
    positions_memory_ = Segment::map(memory.release(), bytes);
    positions_ = reinterpret_cast<Position*>(positions_memory_.bytes().data());
  }
  ~ProcessPool() override {
    ProcessPool::stop();
    if (server_ > 0) {
      server_socket_ = Descriptor();
      waitpid(server_, nullptr, 0);
    }
  }

  void prepare() override {
    if (setup_.options.start_method != "forkserver" || server_ > 0) return;
    auto [ours, theirs] = socket_pair();
    const pid_t self = getpid();
    const pid_t pid = fork();
    if (pid < 0) throw system_error("start", "the fork server", errno);
    if (pid == 0) {
      follow_parent(self);
      close(ours.release());
      fork_server(theirs.get(), setup_, positions_);
    }
    server_ = pid;
    server_socket_ = std::move(ours);
  }

  void start() override {
    ProcessPool::stop();
    oom_kills_before_ = oom_kills(control_group("memory"));
    for (int worker = 0; worker < setup_.options.num_workers; ++worker) {
      new (positions_ + worker) Position;
      auto [ours, theirs] = socket_pair();
      const int room = 1 << 20;
      setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
      const std::string& method = setup_.options.start_method;
      Worker started = method == "forkserver" ? fork_by_server(worker, theirs.get())
                       : method == "spawn"    ? spawn(worker, ours.get(), theirs.get())
                                              : fork_here(worker, ours.get(), theirs.get());
      started.socket = std::move(ours);
      workers_.push_back(std::move(started));
      if (workers_.back().pidfd.get() < 0)
        throw Error(ErrorCode::io, "watch worker process " + std::to_string(workers_.back().pid) +
                                       ": no descriptor for it (open files at the limit RLIMIT_NOFILE, or a kernel before 5.3)");
    }
    polled_.clear();
    for (const Worker& worker : workers_) polled_.push_back({worker.pidfd.get(), POLLIN, 0});
    for (const Worker& worker : workers_) polled_.push_back({worker.socket.get(), POLLIN, 0});
    next_ = 0;
  }

  void stop() override {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      positions_[i].leave = true;
      shutdown(workers_[i].socket.get(), SHUT_RDWR);  // wakes it, whether it waits for a task or for room to answer
    }
    for (Worker& worker : workers_) end(worker);
    workers_.clear();
    died_.reset();
  }
  bool running() const override { return !workers_.empty() && !died_; }

  void send(int worker, const Task& task) override {
    if (died_) throw *died_;
    workers_[static_cast<std::size_t>(worker)].waiting.push_back(encode(task));
    flush(static_cast<std::size_t>(worker));
  }

  std::optional<Made> receive(Duration timeout) override {
    if (died_) throw *died_;
    const std::size_t count = workers_.size();
    const timespec limit{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
    int ready;
    while ((ready = ppoll(polled_.data(), polled_.size(), timeout < Duration::zero() ? nullptr : &limit, nullptr)) < 0)
      if (errno != EINTR) throw system_error("wait for", "the workers", errno);
    if (ready == 0) return std::nullopt;
    for (std::size_t i = 0; i < count; ++i)
      if (polled_[i].revents != 0) report_death(i);
    for (std::size_t tried = 0; tried < count; ++tried) {
      const std::size_t i = (next_ + tried) % count;  // in turn, so that a quick one does not hide the others
      if (polled_[count + i].revents == 0) continue;
      next_ = (i + 1) % count;
      Descriptor descriptor;
      const auto bytes = receive_bytes(workers_[i].socket.get(), inbox_, &descriptor);
      if (!bytes) report_death(i);
      Made made = decode(*bytes, descriptor, static_cast<int>(i));
      flush(i);  // it has taken a task: there may be room for the next one
      return made;
    }
    return std::nullopt;
  }

 private:
  struct Worker {
    pid_t pid = -1;
    Descriptor pidfd = Descriptor();
    Descriptor socket = Descriptor();
    std::deque<std::string> waiting = {};  ///< tasks for which its socket has no room yet
  };

  void flush(std::size_t index) {
    Worker& worker = workers_[index];
    while (!worker.waiting.empty()) {
      const Sent sent = send_bytes(worker.socket.get(), worker.waiting.front(), -1, MSG_DONTWAIT);
      if (sent == Sent::full) return;
      if (sent == Sent::broken) report_death(index);
      worker.waiting.pop_front();
    }
  }

  Worker fork_here(int worker, int our_end, int their_end) {
    const pid_t self = getpid();
    const pid_t pid = fork();
    if (pid < 0) throw system_error("start", "a worker process", errno);
    if (pid == 0) {
      follow_parent(self);
      close(our_end);
      for (const Worker& sibling : workers_) {
        close(sibling.socket.get());
        close(sibling.pidfd.get());
      }
      worker_process(their_end, setup_, worker, positions_ + worker);
    }
    return {pid, Descriptor(open_pidfd(pid))};
  }

  Worker fork_by_server(int worker, int their_end) {
    const ForkRequest request{worker};
    std::string bytes;
    put(bytes, &request, 1);
    if (send_bytes(server_socket_.get(), bytes, their_end) != Sent::yes)
      throw Error(ErrorCode::io, "the loader's fork server ended");
    for (;;) {
      Descriptor pidfd;
      const ForkReply reply = server_reply(&pidfd);
      if (reply.exited != 0) continue;
      if (reply.pid < 0) throw system_error("start", "a worker process", reply.status);
      return {reply.pid, std::move(pidfd)};
    }
  }

  /// Reads one message of the server; keeps the statuses of ended workers.
  ForkReply server_reply(Descriptor* pidfd = nullptr) {
    const auto bytes = receive_bytes(server_socket_.get(), inbox_, pidfd);
    if (!bytes) throw Error(ErrorCode::io, "the loader's fork server ended");
    ForkReply reply{};
    std::size_t at = 0;
    take(*bytes, at, &reply, 1);
    if (reply.exited != 0) statuses_[reply.pid] = reply.status;
    return reply;
  }

  Worker spawn(int worker, int our_end, int their_end) {
    // Everything is prepared here: between fork and exec only calls that are safe with other threads about.
    const int keep[] = {their_end, positions_memory_.descriptor(), setup_.recorder_descriptor,
                        setup_.slots ? setup_.slots->memory().descriptor() : -1};
    std::vector<std::string> words{self_executable(), worker_flag, std::to_string(worker)};
    for (const int descriptor : keep) words.push_back(std::to_string(descriptor));
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t self = getpid();
    const pid_t pid = fork();
    if (pid < 0) throw system_error("start", "a worker process", errno);
    if (pid == 0) {
      follow_parent(self);
      for (const int descriptor : keep)
        if (descriptor >= 0) fcntl(descriptor, F_SETFD, 0);
      execv(argv[0], argv.data());
      _exit(127);
    }
    LoaderOptions copy = setup_.options;
    const Json birth = Json::object({{"loader", OptionTable("", loader_option_list(copy)).values()},
                                     {"dataset", setup_.description},
                                     {"seed", setup_.seed.value()},
                                     {"slot_bytes", setup_.slots ? setup_.slots->slot_bytes() : 0},
                                     {"slots_bytes", setup_.slots ? setup_.slots->memory().bytes().size() : 0}});
    send_bytes(our_end, birth.dump());  // if it is gone already, its pidfd says so
    return {pid, Descriptor(open_pidfd(pid))};
  }

  Made decode(std::string_view bytes, Descriptor& descriptor, int worker) {
    std::size_t at = 0;
    MadeHeader header{};
    take(bytes, at, &header, 1);
    Made made;
    made.status = header.status;
    made.batch = header.batch;
    made.worker = worker;
    made.slot = header.slot;
    made.labels.resize(header.count);
    made.indices.resize(header.count);
    made.text.resize(header.text_bytes);
    std::string name(header.name_bytes, '\0');
    take(bytes, at, made.labels.data(), header.count);
    take(bytes, at, made.indices.data(), header.count);
    take(bytes, at, made.text.data(), header.text_bytes);
    take(bytes, at, name.data(), header.name_bytes);
    if (descriptor.get() >= 0) made.segment = Segment::map(descriptor.release(), header.segment_bytes);
    if (!name.empty()) {
      made.segment = Segment::open(name, header.segment_bytes);
      made.segment.unlink();
    }
    made.segment.close_descriptor();
    return made;
  }

  /// Waits until a worker that was asked to leave has, and kills it when it is in the middle of something long.
  void end(Worker& worker) {
    pollfd polled{worker.pidfd.get(), POLLIN, 0};
    if (worker.pid > 0 && poll(&polled, 1, 1000) <= 0) {
      if (worker.pidfd.get() >= 0)
        syscall(SYS_pidfd_send_signal, worker.pidfd.get(), SIGKILL, nullptr, 0);
      else
        kill(worker.pid, SIGKILL);
    }
    status_of(worker);
  }

  /// How a worker ended; 0 when nobody can tell: the fork server has gone, and its workers with it (PDEATHSIG). What the worker
  /// left in /dev/shm goes.
  int status_of(Worker& worker) {
    const pid_t pid = std::exchange(worker.pid, -1);
    if (pid < 0) return 0;
    int status = 0;
    if (server_ > 0) {
      try {
        while (!statuses_.contains(pid)) server_reply();
        status = statuses_.extract(pid).mapped();
      } catch (const Error&) {
        server_lost_ = true;
      }
    } else {
      while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
      }
    }
    if (setup_.options.sharing == "name" && setup_.options.segments == "fresh") unlink_segments_of(pid);
    return status;
  }

  [[noreturn]] void report_death(std::size_t index) {
    const pid_t pid = workers_[index].pid;
    const int status = status_of(workers_[index]);
    if (server_lost_) throw Error(ErrorCode::io, "the loader's fork server ended, and its workers with it");
    const Position& position = positions_[index];
    Death death;
    death.worker = static_cast<int>(index);
    death.pid = pid;
    death.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    death.exit_code = death.signal != 0 ? 0 : WEXITSTATUS(status);
    death.sample = position.sample.load();
    death.batch = position.batch.load();
    if (death.sample >= 0) death.sample_name = setup_.dataset.name(static_cast<std::size_t>(death.sample));
    death.shm_used = position.shm_used.load();
    if (const auto now = oom_kills(control_group("memory")); now && oom_kills_before_)
      death.oom_kills = *now - *oom_kills_before_;
    died_.emplace(death);
    throw *died_;
  }

  PoolSetup setup_;
  Segment positions_memory_;
  Position* positions_ = nullptr;
  std::vector<Worker> workers_;
  std::vector<pollfd> polled_;  ///< pidfds, then sockets
  std::size_t next_ = 0;        ///< worker whose answer is looked for first
  Inbox inbox_;
  std::optional<WorkerDied> died_;
  std::optional<std::uint64_t> oom_kills_before_;
  pid_t server_ = -1;
  Descriptor server_socket_;
  bool server_lost_ = false;
  std::map<pid_t, int> statuses_;
};

/// In place of a dataset that could not be made: a worker's first words are why.
class Unmade : public Dataset {
 public:
  explicit Unmade(std::string reason) : reason_(std::move(reason)) {}
  std::size_t size() const override { return 0; }
  std::string name(std::size_t) const override { return {}; }
  void on_worker_start(int) const override { throw std::runtime_error(reason_); }
  SampleResult load(std::size_t, int, std::span<std::uint8_t>, std::int32_t&, LoadContext&) const override {
    return {false, reason_};
  }

 private:
  std::string reason_;
};

}  // namespace

std::unique_ptr<WorkerPool> make_process_pool(const PoolSetup& setup) { return std::make_unique<ProcessPool>(setup); }

bool is_worker_command(const std::vector<std::string>& arguments) { return arguments.size() == 6 && arguments[0] == worker_flag; }

int worker_main(const std::vector<std::string>& arguments, const DatasetFactory& factory) {
  const int worker = std::stoi(arguments[1]), socket = std::stoi(arguments[2]), positions = std::stoi(arguments[3]);
  const int recorder = std::stoi(arguments[4]), slots_descriptor = std::stoi(arguments[5]);
  Inbox inbox;
  const auto bytes = receive_bytes(socket, inbox);
  if (!bytes) return 70;
  const Json birth = Json::parse(*bytes, "loader");
  LoaderOptions options;
  OptionTable("", loader_option_list(options)).set(birth.at("loader"));
  const Segment position_memory = Segment::map(positions, sizeof(Position) * static_cast<std::size_t>(options.num_workers));
  std::optional<Slots> slots;
  if (slots_descriptor >= 0)
    slots.emplace(Segment::map(slots_descriptor, birth.at("slots_bytes").as_uint()), birth.at("slot_bytes").as_uint(), 0);
  std::unique_ptr<Dataset> dataset;
  try {
    dataset = factory(birth.at("dataset"));
  } catch (const std::exception& error) {
    dataset = std::make_unique<Unmade>(error.what());
  }
  PoolSetup setup{*dataset, options, Seed(birth.at("seed").as_uint())};
  setup.slots = slots ? &*slots : nullptr;
  if (recorder >= 0) {
    const std::size_t size = Recorder::mapping_bytes({});
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, recorder, 0);
    if (memory == MAP_FAILED) throw system_error("map the recorder", "", errno);
    setup.recorder = Recorder::attach({static_cast<std::byte*>(memory), size});
  }
  worker_process(socket, setup, worker, reinterpret_cast<Position*>(position_memory.bytes().data()) + worker);
}

}  // namespace misfire::dataloader
