// Workers as processes: forked, forked by a server that was forked early, or executed afresh.
//
// Tasks and answers are datagrams on one socket pair a worker; batches stay in shared memory and only their place, or a
// descriptor or name, is handed over. A worker's death is seen at once on its pidfd. Workers start no threads and die with their
// parent.

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
#include <cmath>
#include <csignal>
#include <cstring>
#include <map>
#include <vector>

#include "harness/error.hpp"
#include "harness/process.hpp"
#include "suites/dataloader/pool.hpp"
#include "suites/dataloader/sites.hpp"

namespace misfire::dataloader {
namespace {

enum class Kind : std::uint32_t { task, stop };
struct TaskHeader {
  Kind kind;
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
/// Between the consumer and the fork server.
struct ForkRequest {
  std::int32_t worker;
};
struct ForkReply {
  std::int32_t exited;  ///< 0: started, 1: ended with `status`
  std::int32_t pid, status;
};

constexpr std::size_t datagram_limit = 1 << 17;
constexpr const char* worker_flag = "--loader-worker";

void send_bytes(int socket, const std::string& bytes, int descriptor = -1) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
    if (errno != EINTR) throw system_error("send to", "a loader process", errno);
}

/// @return false at the end of the connection
bool receive_bytes(int socket, std::string& bytes, int* descriptor = nullptr) {
  bytes.resize(datagram_limit);
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t count;
  while ((count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == ECONNRESET) return false;
    if (errno != EINTR) throw system_error("receive from", "a loader process", errno);
  }
  if (message.msg_flags & MSG_CTRUNC)
    throw Error(ErrorCode::io,
                "receive a batch's descriptor: the kernel dropped it (open files at the limit: raise RLIMIT_NOFILE or keep fewer "
                "batches)");
  bytes.resize(static_cast<std::size_t>(count));
  if (descriptor) *descriptor = -1;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
    if (header->cmsg_type == SCM_RIGHTS && descriptor) std::memcpy(descriptor, CMSG_DATA(header), sizeof(int));
  return count > 0;
}

template <class T>
void put(std::string& bytes, const T* values, std::size_t count) {
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}
template <class T>
void take(const std::string& bytes, std::size_t& at, T* values, std::size_t count) {
  if (at + count * sizeof(T) > bytes.size()) throw Error(ErrorCode::internal, "a loader message is shorter than it says");
  if (count > 0) std::memcpy(static_cast<void*>(values), bytes.data() + at, count * sizeof(T));
  at += count * sizeof(T);
}

std::string encode(const Task& task) {
  std::string bytes;
  const TaskHeader header{Kind::task, task.batch, task.epoch, task.slot, static_cast<std::uint32_t>(task.indices.size())};
  put(bytes, &header, 1);
  put(bytes, task.indices.data(), task.indices.size());
  return bytes;
}

std::string encode(const Made& made) {
  std::string bytes;
  const MadeHeader header{made.status,
                          made.batch,
                          made.slot,
                          static_cast<std::uint32_t>(made.indices.size()),
                          static_cast<std::uint32_t>(made.text.size()),
                          static_cast<std::uint32_t>(made.segment.name().size()),
                          static_cast<std::uint32_t>(made.segment.bytes().size())};
  put(bytes, &header, 1);
  put(bytes, made.labels.data(), made.labels.size());
  put(bytes, made.indices.data(), made.indices.size());
  put(bytes, made.text.data(), made.text.size());
  put(bytes, made.segment.name().data(), made.segment.name().size());
  return bytes;
}

Lane* lane_of_this_worker = nullptr;
Position* position_of_this_worker = nullptr;

/// Notes how full /dev/shm is before SIGBUS ends the process: with the process goes the batch it was writing, and with that the
/// evidence. Only calls that are safe in a signal handler; returning repeats the fault, this time with the default action.
void note_bus_error(int) {
  struct statfs seen;
  if (syscall(SYS_statfs, "/dev/shm", &seen) == 0 && seen.f_blocks > 0) {
    const double used = static_cast<double>(seen.f_blocks - seen.f_bfree) / static_cast<double>(seen.f_blocks);
    position_of_this_worker->shm_used.store(used, std::memory_order_relaxed);
    lane_of_this_worker->sample(site::shm_at_fault, used);
  }
}

void watch_for_bus_error(Lane& lane, Position* position) {
  lane_of_this_worker = &lane;
  position_of_this_worker = position;
  struct sigaction action {};
  action.sa_handler = note_bus_error;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGBUS, &action, nullptr);
}

/// A worker process, from its birth to its end.
[[noreturn]] void worker_process(int socket, const PoolSetup& setup, int worker, Position* position,
                                 std::span<std::uint8_t> slots) {
  int code = 0;
  try {
    Recorder recorder = setup.recorder;
    Lane lane = recorder.claim_lane();
    std::string trouble;
    try {
      place_worker(setup.options, worker);
      setup.dataset.on_worker_start(worker);
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    lane.mark(site::worker_start, static_cast<std::uint32_t>(worker));
    BatchMaker maker(setup.dataset, setup.options, worker, setup.seed, lane, position);
    watch_for_bus_error(lane, position);
    std::string bytes;
    while (receive_bytes(socket, bytes)) {
      std::size_t at = 0;
      TaskHeader header{};
      take(bytes, at, &header, 1);
      if (header.kind == Kind::stop) break;
      Task task{header.batch, header.epoch, header.slot, std::vector<std::uint32_t>(header.count)};
      take(bytes, at, task.indices.data(), task.indices.size());
      std::span<std::uint8_t> slot;
      if (task.slot >= 0) slot = slots.subspan(static_cast<std::size_t>(task.slot) * setup.slot_bytes, setup.slot_bytes);
      Made made;
      if (trouble.empty()) {
        made = maker.make(task, slot);
      } else {
        made.status = Made::Status::error;
        made.batch = task.batch;
        made.slot = task.slot;
        made.text = "worker " + std::to_string(worker) + " could not start: " + trouble;
      }
      send_bytes(socket, encode(made), made.segment.name().empty() ? made.segment.descriptor() : -1);
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

/// A process forked before any thread exists, which forks workers when asked.
[[noreturn]] void fork_server(int socket, const PoolSetup& setup, Position* positions, std::span<std::uint8_t> slots) {
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  sigprocmask(SIG_BLOCK, &children, nullptr);
  const int ended = signalfd(-1, &children, SFD_CLOEXEC);
  const pid_t self = getpid();
  try {
    for (;;) {
      pollfd polled[2] = {{socket, POLLIN, 0}, {ended, POLLIN, 0}};
      if (poll(polled, 2, -1) < 0 && errno != EINTR) break;
      if (polled[1].revents & POLLIN) {
        signalfd_siginfo info;
        [[maybe_unused]] const ssize_t count = read(ended, &info, sizeof info);
        int status = 0;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
          const ForkReply reply{1, pid, status};
          std::string bytes;
          put(bytes, &reply, 1);
          send_bytes(socket, bytes);
        }
      }
      if (polled[0].revents & (POLLIN | POLLHUP)) {
        std::string bytes;
        int descriptor = -1;
        if (!receive_bytes(socket, bytes, &descriptor)) break;
        ForkRequest request{};
        std::size_t at = 0;
        take(bytes, at, &request, 1);
        const pid_t pid = fork();
        if (pid == 0) {
          follow_parent(self);
          sigprocmask(SIG_UNBLOCK, &children, nullptr);
          close(socket);
          close(ended);
          worker_process(descriptor, setup, request.worker, positions + request.worker, slots);
        }
        close(descriptor);
        const ForkReply reply{0, pid, pid < 0 ? errno : 0};
        std::string answer;
        put(answer, &reply, 1);
        send_bytes(socket, answer);
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
    positions_descriptor_ = memfd_create("misfire-positions", MFD_CLOEXEC);
    if (positions_descriptor_ < 0 || ftruncate(positions_descriptor_, static_cast<off_t>(bytes)) != 0)
      throw system_error("make shared memory for", "the workers' positions", errno);
    positions_memory_ = Segment::map(positions_descriptor_, bytes);
    positions_ = reinterpret_cast<Position*>(positions_memory_.bytes().data());
  }
  ~ProcessPool() override {
    ProcessPool::stop();
    if (server_ > 0) {
      close(server_socket_);
      waitpid(server_, nullptr, 0);
    }
  }

  void prepare() override {
    if (setup_.options.start_method != "forkserver") return;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw system_error("make a socket pair", "", errno);
    const pid_t self = getpid();
    server_ = fork();
    if (server_ < 0) throw system_error("start", "the fork server", errno);
    if (server_ == 0) {
      follow_parent(self);
      close(ends[0]);
      fork_server(ends[1], setup_, positions_, slots());
    }
    close(ends[1]);
    server_socket_ = ends[0];
  }

  void start() override {
    for (int worker = 0; worker < setup_.options.num_workers; ++worker) {
      new (positions_ + worker) Position;
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw system_error("make a socket pair", "", errno);
      const int room = 1 << 20;
      setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
      Worker started;
      started.socket = ends[0];
      started.pid = setup_.options.start_method == "forkserver" ? fork_by_server(worker, ends[1])
                    : setup_.options.start_method == "spawn"    ? spawn(worker, ends)
                                                                : fork_here(worker, ends);
      close(ends[1]);
      started.pidfd = static_cast<int>(syscall(SYS_pidfd_open, started.pid, 0));
      if (started.pidfd < 0) throw system_error("watch worker process", std::to_string(started.pid), errno);
      workers_.push_back(started);
    }
  }

  void stop() override {
    if (workers_.empty()) return;
    for (const Worker& worker : workers_) {
      const TaskHeader header{Kind::stop, 0, 0, 0, 0};
      [[maybe_unused]] const ssize_t sent = ::send(worker.socket, &header, sizeof header, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    for (const Worker& worker : workers_) {
      pollfd polled{worker.pidfd, POLLIN, 0};
      if (poll(&polled, 1, 1000) <= 0) kill(worker.pid, SIGKILL);  // it is in the middle of something long
      try {
        status_of(worker.pid);
      } catch (const Error&) {
        // The fork server has gone; its workers go with it (PDEATHSIG), and nobody is left to tell their status.
      }
      let_go(worker);
    }
    workers_.clear();
  }
  bool running() const override { return !workers_.empty(); }

  void send(int worker, const Task& task) override {
    try {
      send_bytes(workers_[static_cast<std::size_t>(worker)].socket, encode(task));
    } catch (const Error&) {
      report_death(worker);  // the connection broke: it died
    }
  }

  std::optional<Made> receive(Duration timeout) override {
    std::vector<pollfd> polled;
    for (const Worker& worker : workers_) polled.push_back({worker.socket, POLLIN, 0});
    for (const Worker& worker : workers_) polled.push_back({worker.pidfd, POLLIN, 0});
    const int wait_ms = timeout < Duration::zero() ? -1 : static_cast<int>(timeout.count() / 1'000'000 + 1);
    int ready;
    while ((ready = poll(polled.data(), polled.size(), wait_ms)) < 0)
      if (errno != EINTR) throw system_error("wait for", "the workers", errno);
    if (ready == 0) return std::nullopt;
    for (std::size_t i = 0; i < workers_.size(); ++i)
      if (polled[i].revents & POLLIN) {
        std::string& bytes = buffer_;
        int descriptor = -1;
        if (receive_bytes(workers_[i].socket, bytes, &descriptor)) return decode(bytes, descriptor, static_cast<int>(i));
        report_death(static_cast<int>(i));
      }
    for (std::size_t i = 0; i < workers_.size(); ++i)
      if (polled[i].revents & POLLHUP || polled[workers_.size() + i].revents & POLLIN) report_death(static_cast<int>(i));
    return std::nullopt;
  }

 private:
  struct Worker {
    pid_t pid = -1;
    int socket = -1, pidfd = -1;
  };

  std::span<std::uint8_t> slots() const { return setup_.slots ? setup_.slots->bytes() : std::span<std::uint8_t>(); }

  pid_t fork_here(int worker, const int (&ends)[2]) {
    const pid_t self = getpid();
    const pid_t pid = fork();
    if (pid < 0) throw system_error("start", "a worker process", errno);
    if (pid == 0) {
      follow_parent(self);
      close(ends[0]);
      worker_process(ends[1], setup_, worker, positions_ + worker, slots());
    }
    return pid;
  }

  pid_t fork_by_server(int worker, int their_end) {
    const ForkRequest request{worker};
    std::string bytes;
    put(bytes, &request, 1);
    send_bytes(server_socket_, bytes, their_end);
    for (;;) {
      const ForkReply reply = server_reply();
      if (reply.exited == 0) {
        if (reply.pid < 0) throw system_error("start", "a worker process", reply.status);
        return reply.pid;
      }
    }
  }

  /// Reads one message of the server; keeps the statuses of ended workers.
  ForkReply server_reply() {
    std::string bytes;
    if (!receive_bytes(server_socket_, bytes)) throw Error(ErrorCode::io, "the loader's fork server ended");
    ForkReply reply{};
    std::size_t at = 0;
    take(bytes, at, &reply, 1);
    if (reply.exited != 0) statuses_[reply.pid] = reply.status;
    return reply;
  }

  pid_t spawn(int worker, const int (&ends)[2]) {
    // Everything is prepared here: between fork and exec only calls that are safe with other threads about.
    const int keep[] = {ends[1], positions_descriptor_, setup_.recorder_descriptor,
                        setup_.slots ? setup_.slots->descriptor() : -1};
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
                                     {"slot_bytes", setup_.slot_bytes},
                                     {"slots_bytes", slots().size()}});
    send_bytes(ends[0], birth.dump());
    return pid;
  }

  Made decode(const std::string& bytes, int descriptor, int worker) {
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
    if (descriptor >= 0) made.segment = Segment::map(descriptor, header.segment_bytes);
    if (!name.empty()) {
      made.segment = Segment::open(name, header.segment_bytes);
      made.segment.unlink();
    }
    made.segment.close_descriptor();
    return made;
  }

  int status_of(pid_t pid) {
    int status = 0;
    if (server_ > 0) {
      while (!statuses_.contains(pid)) server_reply();
      status = statuses_.at(pid);
      statuses_.erase(pid);
      return status;
    }
    while (waitpid(pid, &status, 0) < 0)
      if (errno != EINTR) return 0;
    return status;
  }

  /// After a worker's end.
  void let_go(const Worker& worker) const {
    close(worker.pidfd);
    close(worker.socket);
    if (setup_.options.sharing == "name" && setup_.options.segments == "fresh") unlink_segments_of(worker.pid);
  }

  [[noreturn]] void report_death(int index) {
    const Worker worker = workers_[static_cast<std::size_t>(index)];
    const int status = status_of(worker.pid);
    let_go(worker);
    workers_.erase(workers_.begin() + index);
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const Position& position = positions_[index];
    std::string text = "worker " + std::to_string(index) + " (pid " + std::to_string(worker.pid) + ") ";
    text += signal ? std::string("was killed by signal ") + std::to_string(signal) + " (" + strsignal(signal) + ")"
                   : "exited with " + std::to_string(WEXITSTATUS(status));
    if (const std::int64_t sample = position.sample.load(); sample >= 0)
      text += " while loading sample " + std::to_string(sample) + " (" + setup_.dataset.name(static_cast<std::size_t>(sample)) +
              ") of batch " + std::to_string(position.batch.load());
    if (signal == SIGBUS) {
      const double used = position.shm_used.load();
      text +=
          used >= 0.95
              ? "; /dev/shm is " + std::to_string(std::lround(used * 100)) +
                    " % full: give it more space, keep fewer batches outstanding (num_workers x prefetch_factor), or reserve them"
              : "; /dev/shm has room (" + std::to_string(std::lround(used * 100)) +
                    " % used): a mapped file was cut short, or memory is bad";
    } else if (signal == SIGKILL) {
      text += "; if nobody did it by hand, look for the kernel's OOM killer or a memory limit";
    }
    throw WorkerDied(index, worker.pid, signal, signal ? 0 : WEXITSTATUS(status), text);
  }

  PoolSetup setup_;
  Segment positions_memory_;
  int positions_descriptor_ = -1;
  Position* positions_ = nullptr;
  std::vector<Worker> workers_;
  pid_t server_ = -1;
  int server_socket_ = -1;
  std::map<pid_t, int> statuses_;
  std::string buffer_;
};

}  // namespace

std::unique_ptr<WorkerPool> make_process_pool(const PoolSetup& setup) { return std::make_unique<ProcessPool>(setup); }

bool is_worker_command(const std::vector<std::string>& arguments) { return arguments.size() == 6 && arguments[0] == worker_flag; }

int worker_main(const std::vector<std::string>& arguments, const DatasetFactory& factory) {
  const int worker = std::stoi(arguments[1]), socket = std::stoi(arguments[2]), positions = std::stoi(arguments[3]);
  const int recorder = std::stoi(arguments[4]), slots = std::stoi(arguments[5]);
  std::string bytes;
  if (!receive_bytes(socket, bytes)) return 70;
  const Json birth = Json::parse(bytes, "loader");
  LoaderOptions options;
  OptionTable("", loader_option_list(options)).set(birth.at("loader"));
  const Segment position_memory = Segment::map(positions, sizeof(Position) * static_cast<std::size_t>(options.num_workers));
  Segment slot_memory;
  if (slots >= 0) slot_memory = Segment::map(slots, birth.at("slots_bytes").as_uint());
  const std::unique_ptr<Dataset> dataset = factory(birth.at("dataset"));
  PoolSetup setup{*dataset, options, Seed(birth.at("seed").as_uint())};
  setup.slot_bytes = birth.at("slot_bytes").as_uint();
  setup.slots = slots >= 0 ? &slot_memory : nullptr;
  if (recorder >= 0) {
    const std::size_t size = Recorder::mapping_bytes({});
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, recorder, 0);
    if (memory == MAP_FAILED) throw system_error("map the recorder", "", errno);
    setup.recorder = Recorder::attach({static_cast<std::byte*>(memory), size});
  }
  worker_process(socket, setup, worker, reinterpret_cast<Position*>(position_memory.bytes().data()) + worker,
                 slot_memory.bytes());
}

}  // namespace misfire::dataloader
