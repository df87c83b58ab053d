#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace misfire {

/// A JSON value that remembers the line it was read from, so that every complaint about a file can name the line.
///
/// Objects keep the order of their keys. The parser and the writer are nlohmann/json, seen by json.cpp alone.
/// Accessors throw Error{invalid_input} naming the type wanted, the type found and, if the value came from a file, file and line.
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(static_cast<std::int64_t>(value)) {}
  Json(unsigned value) : value_(static_cast<std::int64_t>(value)) {}
  Json(long value) : value_(static_cast<std::int64_t>(value)) {}
  Json(long long value) : value_(static_cast<std::int64_t>(value)) {}
  Json(unsigned long value) : value_(static_cast<std::uint64_t>(value)) {}
  Json(unsigned long long value) : value_(static_cast<std::uint64_t>(value)) {}
  Json(double value) : value_(value) {}  ///< NaN and infinity are written as null
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  static Json object(std::initializer_list<Member> members = {}) { return Json(Object(members)); }
  static Json array(std::initializer_list<Json> values = {}) { return Json(Array(values)); }

  bool is_null() const noexcept { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const noexcept { return std::holds_alternative<bool>(value_); }
  bool is_number() const noexcept;   ///< any of the three number forms
  bool is_integer() const noexcept;  ///< signed or unsigned, not floating point
  bool is_string() const noexcept { return std::holds_alternative<std::string>(value_); }
  bool is_array() const noexcept { return std::holds_alternative<Array>(value_); }
  bool is_object() const noexcept { return std::holds_alternative<Object>(value_); }
  std::string_view type_name() const noexcept;

  bool as_bool() const;
  std::int64_t as_int() const;    ///< refuses fractions and values out of range
  std::uint64_t as_uint() const;  ///< refuses negative values
  double as_double() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;
  Array& as_array();
  Object& as_object();

  /// The member of that name, or nullptr (also when this is not an object).
  const Json* find(std::string_view key) const noexcept;
  Json* find(std::string_view key) noexcept;
  /// The member of that name; throws Error{invalid_input} naming file and line when it is missing.
  const Json& at(std::string_view key) const;
  /// Inserts or replaces a member, keeping order. A null value becomes an object first.
  Json& set(std::string_view key, Json value);
  /// Appends to an array. A null value becomes an array first.
  Json& push_back(Json value);

  /// Where this value stood: 1-based line, 0 when it was not read from text.
  int line() const noexcept { return line_; }
  /// Name of the text it was read from (a path), empty when it was not read.
  const std::string& source() const noexcept;
  /// "path:line: " or "" : the prefix of a complaint about this value.
  std::string where() const;

  /// @param indent spaces per level; negative: one line without spaces. Doubles are written so that they read back bit for bit.
  ///               Invalid UTF-8 is replaced, never an error.
  std::string dump(int indent = -1) const;

  /// @param source name used in errors, kept by every value
  /// @throws Error{invalid_input} "<source>:<line>: ..." for malformed text, duplicate keys, nesting deeper than 64
  static Json parse(std::string_view text, std::string_view source);
  /// Reads and parses a file of at most 64 MiB. @throws Error{not_found, permission, io, invalid_input}
  static Json read_file(const std::string& path);

  /// Equal content; line and source do not count. Numbers compare by value (1 == 1.0).
  friend bool operator==(const Json& a, const Json& b);

 private:
  friend class JsonBuilder;
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
  int line_ = 0;
  const std::string* source_ = nullptr;  ///< interned for the life of the process
};

}  // namespace misfire
