#include "suites/dataloader/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "harness/containment.hpp"
#include "harness/error.hpp"
#include "harness/unit.hpp"

namespace misfire::dataloader {
namespace {
constexpr const char* directory = "/dev/shm";

/// First part of the names of the files that a process makes.
std::string prefix_of(int pid) {
  const char* prefix = std::getenv(shm_prefix_variable);
  return std::string(prefix ? prefix : "misfire") + "-" + std::to_string(pid) + "-";
}

}  // namespace

Segment::Segment(Segment&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      name_(std::exchange(other.name_, {})) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(name_, other.name_);
  return *this;
}

Segment::~Segment() {
  if (memory_) munmap(memory_, size_);
  close_descriptor();
}

Segment Segment::create(std::size_t bytes, Sharing sharing, bool reserve) {
  Segment segment;
  if (sharing == Sharing::name) {
    static std::atomic<unsigned> counter{0};
    segment.name_ = std::string(directory) + "/" + prefix_of(getpid()) + std::to_string(counter++);
    segment.descriptor_ = ::open(segment.name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  } else {
    segment.descriptor_ = ::open(directory, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  }
  if (segment.descriptor_ < 0) throw system_error("make a shared memory file in", directory, errno);
  int error = ftruncate(segment.descriptor_, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  if (error == 0 && reserve) error = posix_fallocate(segment.descriptor_, 0, static_cast<off_t>(bytes));
  if (error != 0) {
    segment.unlink();
    if (error == ENOSPC)
      throw Error(ErrorCode::no_space, "reserve " + format_size(bytes) + " in /dev/shm: no space left (" +
                                           std::to_string(std::lround(shared_memory_used() * 100)) +
                                           " % used); give it more space, or keep fewer batches outstanding");
    throw system_error("size a shared memory file in", directory, error);
  }
  segment.size_ = bytes;
  segment.memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment.descriptor_, 0);
  if (segment.memory_ == MAP_FAILED) {
    segment.memory_ = nullptr;
    const int map_error = errno;
    segment.unlink();
    throw system_error("map shared memory in", directory, map_error);
  }
  return segment;
}

Segment Segment::map(int descriptor, std::size_t bytes) {
  Segment segment;
  segment.descriptor_ = descriptor;
  segment.size_ = bytes;
  segment.memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (segment.memory_ == MAP_FAILED) {
    segment.memory_ = nullptr;
    throw system_error("map a batch", "", errno);
  }
  return segment;
}

Segment Segment::open(const std::string& name, std::size_t bytes) {
  const int descriptor = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) throw system_error("open the shared memory file", name, errno);
  Segment segment = map(descriptor, bytes);
  segment.name_ = name;
  return segment;
}

Segment Segment::anonymous(std::size_t bytes) {
  Segment segment;
  segment.size_ = bytes;
  segment.memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (segment.memory_ == MAP_FAILED) {
    segment.memory_ = nullptr;
    throw system_error("take memory for batches", "", errno);
  }
  return segment;
}

void Segment::close_descriptor() noexcept {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

void Segment::unlink() noexcept {
  if (!name_.empty()) ::unlink(std::exchange(name_, {}).c_str());
}

Slots::Slots(Segment memory, std::size_t slot_bytes, int count) : memory_(std::move(memory)), slot_bytes_(slot_bytes) {
  for (int slot = count - 1; slot >= 0; --slot) free_.push_back(slot);
}

void unlink_segments_of(int pid) noexcept {
  const std::string prefix = prefix_of(pid);
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(directory, ignored), end; !ignored && entry != end; entry.increment(ignored))
    if (entry->path().filename().string().starts_with(prefix)) ::unlink(entry->path().c_str());
}

double shared_memory_used() noexcept {
  struct statvfs seen {};
  if (statvfs(directory, &seen) != 0 || seen.f_blocks == 0) return -1;
  return static_cast<double>(seen.f_blocks - seen.f_bfree) / static_cast<double>(seen.f_blocks);
}

}  // namespace misfire::dataloader
