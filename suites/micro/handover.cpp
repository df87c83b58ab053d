// What it costs to hand a batch (32 images of 224 x 224, 4.6 MiB) from one process to another: in memory that both have mapped,
// with one byte to say so; in a fresh file of shared memory, whose pages must be taken and mapped; as a copy through a socket.
//
// The worker writes one byte a page of the batch, so that pages which must be taken are taken; the consumer reads as many.

#include <benchmark/benchmark.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "suites/dataloader/segment.hpp"
#include "suites/micro/paired.hpp"

namespace misfire::micro {
namespace {

using dataloader::Segment;

constexpr std::size_t batch_bytes = 32UL * 224 * 224 * 3;
constexpr std::size_t page = 4096;

bool send_all(int socket, const void* data, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t sent = send(socket, static_cast<const char*>(data) + done, size - done, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    done += static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t got = recv(socket, static_cast<char*>(data) + done, size - done, 0);
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

bool send_descriptor(int socket, int descriptor) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

int receive_descriptor(int socket) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  int descriptor = -1;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

void touch(std::span<std::uint8_t> bytes, std::uint8_t value) {
  for (std::size_t i = 0; i < bytes.size(); i += page) bytes[i] = value;
}

std::uint64_t look(std::span<const std::uint8_t> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += page) sum += bytes[i];
  return sum;
}

/// A process that answers each request with a batch, in the form asked for.
class Worker {
 public:
  enum class Form : char { pooled = 'p', fresh = 'f', copied = 'c' };

  Worker() : pool_(Segment::create(batch_bytes, Segment::Sharing::descriptor, true)), copy_(batch_bytes) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) throw std::runtime_error("no socket pair");
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      close(sockets[0]);
      serve(sockets[1]);
      _exit(0);
    }
    close(sockets[1]);
    socket_ = sockets[0];
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    close(socket_);
    waitpid(pid_, nullptr, 0);
  }

  /// One batch. False when what arrived is not what was sent.
  bool ask(Form form) {
    const char request[2] = {static_cast<char>(form), static_cast<char>(++value_)};
    if (!send_all(socket_, request, sizeof request)) return false;
    const std::uint64_t expected = static_cast<std::uint64_t>(value_) * ((batch_bytes + page - 1) / page);
    if (form == Form::copied) return receive_all(socket_, copy_.data(), copy_.size()) && look(copy_) == expected;
    if (form == Form::pooled) {
      char byte = 0;
      return receive_all(socket_, &byte, 1) && look(pool_.bytes()) == expected;
    }
    const int descriptor = receive_descriptor(socket_);
    return descriptor >= 0 && look(Segment::map(descriptor, batch_bytes).bytes()) == expected;
  }

 private:
  void serve(int socket) {
    char request[2];
    while (receive_all(socket, request, sizeof request)) {
      const auto value = static_cast<std::uint8_t>(request[1]);
      switch (static_cast<Form>(request[0])) {
        case Form::pooled:
          touch(pool_.bytes(), value);
          send_all(socket, request, 1);
          break;
        case Form::fresh: {
          const Segment segment = Segment::create(batch_bytes, Segment::Sharing::descriptor, false);
          touch(segment.bytes(), value);
          send_descriptor(socket, segment.descriptor());
          break;
        }
        case Form::copied:
          touch(copy_, value);
          send_all(socket, copy_.data(), copy_.size());
          break;
      }
    }
  }

  Segment pool_;
  std::vector<std::uint8_t> copy_;
  pid_t pid_ = -1;
  int socket_ = -1;
  std::uint8_t value_ = 0;
};

void batch(benchmark::State& state) {
  Worker worker;
  bool whole = true;
  const auto ask = [&](Worker::Form form) { return [&worker, &whole, form] { whole = worker.ask(form) && whole; }; };
  compare(state,
          {{"pooled", ask(Worker::Form::pooled)}, {"fresh", ask(Worker::Form::fresh)}, {"copied", ask(Worker::Form::copied)}});
  if (!whole) state.SkipWithError("a batch did not arrive as it was sent");
}

}  // namespace

void register_handover() {
  benchmark::RegisterBenchmark("handover/batch", batch)->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(200);
}

}  // namespace misfire::micro
