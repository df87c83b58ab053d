#pragma once

#include <string>
#include <string_view>

namespace misfire {

/// Path of something that ships with Misfire ("suites/dataloader/failures", "results/schema/failure.schema.json"): under
/// <executable>/../share/misfire when installed, else under the source tree it was built from.
std::string shipped_file(std::string_view relative);

/// A directory that exists only while this object lives; its content is removed with it. Made under $TMPDIR or /tmp with mode
/// 0700. A copy inherited by a forked child leaves it alone.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string_view prefix = "misfire-");
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  int owner_;  ///< process that made it
};

/// Writes a whole file by way of a temporary beside it and rename(2), so that a reader sees the old content or the new. A
/// symbolic link is followed; what is no regular file (/dev/stdout, a pipe) is written to directly. @throws Error{permission,
/// no_space, io, not_found}
void write_file_atomically(const std::string& path, std::string_view content);
/// @throws Error{not_found, permission, io, invalid_input (larger than `limit`)}
std::string read_whole_file(const std::string& path, std::size_t limit = 64UL << 20);
/// mkdir -p. @throws Error naming the part that could not be made
void make_directories(const std::string& path);

}  // namespace misfire
