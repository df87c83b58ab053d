#include "harness/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "harness/error.hpp"
#include "harness/process.hpp"
#include "harness/unit.hpp"
#include "misfire_config.hpp"

namespace misfire {
namespace {

class File {
 public:
  File(const std::string& path, int flags, std::string_view action) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) throw system_error(action, path, errno);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }
  /// Closes it, and says what close(2) says: a full network file system speaks only here.
  int close() noexcept { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

void write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error("write", path, errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

std::string shipped_file(std::string_view relative) {
  const std::filesystem::path binaries = std::filesystem::path(self_executable()).parent_path();
  const std::filesystem::path installed = binaries.parent_path() / "share" / "misfire" / relative;
  std::error_code ignored;
  if (std::filesystem::exists(installed, ignored)) return installed.string();
  return std::string(MISFIRE_SOURCE_DIR) + "/" + std::string(relative);
}

TemporaryDirectory::TemporaryDirectory(std::string_view prefix) : owner_(::getpid()) {
  const char* base = std::getenv("TMPDIR");
  path_ = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/" + std::string(prefix) + "XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) throw system_error("make a temporary directory", path_, errno);
}

TemporaryDirectory::~TemporaryDirectory() {
  if (::getpid() != owner_) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (!error) return;
  // A directory in it denies us its content: open up what is ours, and once more.
  namespace fs = std::filesystem;
  for (fs::recursive_directory_iterator it(path_, fs::directory_options::skip_permission_denied, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->symlink_status(ignored).type() != fs::file_type::directory || ::access(it->path().c_str(), R_OK | W_OK | X_OK) == 0)
      continue;
    fs::permissions(it->path(), fs::perms::owner_all, fs::perm_options::add, ignored);
    fs::remove_all(it->path(), ignored);
    it.disable_recursion_pending();
  }
  fs::remove_all(path_, error);
}

void write_file_atomically(const std::string& path, std::string_view content) {
  struct stat status {};
  std::string target = path;
  if (::stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) {
      File file(path, O_WRONLY, "open for writing");
      write_all(file.get(), content, path);
      return;
    }
    std::error_code error;
    if (const auto real = std::filesystem::canonical(path, error); !error) target = real.string();
  }
  static std::atomic<unsigned> counter{0};
  const std::string temporary = target + "." + std::to_string(::getpid()) + "." + std::to_string(counter++) + ".tmp";
  try {
    File file(temporary, O_WRONLY | O_CREAT | O_EXCL, "create");
    write_all(file.get(), content, temporary);
    if (file.close() != 0) throw system_error("write", temporary, errno);
    if (::rename(temporary.c_str(), target.c_str()) != 0) throw system_error("rename to", target, errno);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
}

std::string read_whole_file(const std::string& path, std::size_t limit) {
  const File file(path, O_RDONLY, "open");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw system_error("read", path, errno);
  std::string content;
  std::size_t used = 0;
  content.resize(std::clamp<std::size_t>(static_cast<std::size_t>(std::max<off_t>(status.st_size, 0)) + 1, 4096, limit + 1));
  for (;;) {  // files of /proc have no size: until the end, whatever was promised
    const ssize_t got = ::read(file.get(), content.data() + used, content.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("read", path, errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used > limit)
      throw Error(ErrorCode::invalid_input,
                  "read '" + path + "': it is larger than the " + format_size(limit) + " that are read at most");
    if (used == content.size()) content.resize(std::min(used * 2, limit + 1));
  }
  content.resize(used);
  return content;
}

void make_directories(const std::string& path) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (part.empty() || ::mkdir(part.c_str(), 0777) == 0) continue;
    const int error = errno;
    struct stat status {};
    if (::stat(part.c_str(), &status) == 0) {  // whatever mkdir said: on a read-only file system it says so of what is there
      if (S_ISDIR(status.st_mode)) continue;
      throw system_error("make directory", part, ENOTDIR);
    }
    throw system_error("make directory", part, error);
  }
}

}  // namespace misfire
