#include "storage/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "harness/error.hpp"
#include "harness/text.hpp"

namespace misfire {

File::File(std::string path) : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw system_error("read", path_, errno);
}

File::File(File&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::uint64_t File::size() const {
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) throw system_error("read", path_, errno);
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::invalid_input, "read '" + path_ + "': not a regular file");
  return static_cast<std::uint64_t>(status.st_size);
}

std::size_t File::read_at(std::uint64_t offset, std::span<std::uint8_t> to) const {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t count = ::pread(descriptor_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw system_error("read", path_, errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

bool is_image_name(const std::string& name) {
  const std::string lower = to_lower(name);
  return lower.ends_with(".jpg") || lower.ends_with(".jpeg");
}

}  // namespace misfire
