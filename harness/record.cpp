#include "harness/record.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "harness/error.hpp"

namespace misfire {
namespace {
int open_record(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0644);
  if (descriptor < 0) throw system_error("write the record", path, errno);
  return descriptor;
}
}  // namespace

RecordWriter::RecordWriter(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
RecordWriter RecordWriter::create(const std::string& path) { return RecordWriter(path, open_record(path, O_TRUNC)); }
RecordWriter RecordWriter::append(const std::string& path) { return RecordWriter(path, open_record(path, 0)); }
RecordWriter::RecordWriter(RecordWriter&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
RecordWriter& RecordWriter::operator=(RecordWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}
RecordWriter::~RecordWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

void RecordWriter::write(std::string_view type, Json line) {
  Json whole = Json::object({{"type", Json(type)}});
  for (auto& [key, value] : line.as_object()) whole.set(key, std::move(value));
  const std::string text = whole.dump() + "\n";
  const ssize_t written = ::write(descriptor_, text.data(), text.size());
  if (written < 0) throw system_error("write the record", path_, errno);
  if (static_cast<std::size_t>(written) != text.size())
    throw Error(ErrorCode::no_space,
                "write the record '" + path_ + "': only part of a line fitted; free space on that file system");
}

void RecordWriter::sync() {
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) throw system_error("write the record", path_, errno);
}

}  // namespace misfire
