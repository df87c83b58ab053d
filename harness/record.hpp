#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "harness/json.hpp"

namespace misfire {

/// Version of the record format: results/schema.md says what changed.
inline constexpr int record_schema_version = 1;

/// Writes a record: JSON Lines, each an object whose first member "type" says what it is (results/schema.md). Each line is
/// written whole by one write(2) on an append descriptor, so that a record cut by a crash ends at a line.
class RecordWriter {
 public:
  /// @throws Error{permission, no_space, io, not_found}
  static RecordWriter create(const std::string& path);  ///< truncates
  static RecordWriter append(const std::string& path);
  RecordWriter(RecordWriter&&) noexcept;
  RecordWriter& operator=(RecordWriter&&) noexcept;
  ~RecordWriter();
  /// @throws Error{no_space, io}
  void write(std::string_view type, Json line);
  void sync();

 private:
  RecordWriter(std::string path, int descriptor);
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace misfire
