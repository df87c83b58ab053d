#include "harness/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "harness/error.hpp"
#include "harness/files.hpp"

namespace misfire {
namespace {

constexpr std::size_t depth_limit = 64;

const std::string* intern(std::string_view source) {
  static std::mutex mutex;
  static auto* const sources = new std::set<std::string, std::less<>>;  // never destroyed: values may outlive every static
  const std::scoped_lock lock(mutex);
  return &*sources->emplace(source).first;
}

// Reads text and counts lines. The line is that of the last character taken (a line feed belongs to the line that it ends):
// whichever token the parser reports, and although it must look one character past a number, that is the line of its end.
struct TextPosition {
  int line = 1;
  bool after_line_feed = false;
  void take(char c) {
    if (after_line_feed) ++line;
    after_line_feed = c == '\n';
  }
};

class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, TextPosition* position) : at_(at), position_(position) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    position_->take(*at_++);
    return *this;
  }
  CountingIterator operator++(int) {
    const CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  TextPosition* position_;
};

std::string shortened(std::string_view text) {
  constexpr std::size_t longest = 60;
  return text.size() <= longest ? std::string(text) : std::string(text.substr(0, longest)) + "...";
}

// nlohmann's message without its id and position, and without bytes that are no text: "syntax error while parsing ...".
std::string plain_message(std::string_view message) {
  if (message.starts_with('['))
    if (const auto end = message.find("] "); end != std::string_view::npos) message.remove_prefix(end + 2);
  if (message.starts_with("parse error at "))
    if (const auto end = message.find(": "); end != std::string_view::npos) message.remove_prefix(end + 2);
  std::string text(message);
  if (const auto quoted = text.find("last read: '"); quoted != std::string::npos) {
    const auto start = quoted + 12;
    if (const auto end = text.rfind('\''); end > start + 60) {  // the token may be as long as the file; its end is what is wrong
      text.replace(start, end - start - 60, "...");
    }
  }
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7E) c = '?';
  return text;
}

template <class A, class B>
bool equal_numbers(A a, B b) {
  if constexpr (std::is_same_v<A, B>) {
    return a == b;
  } else if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
    return std::cmp_equal(a, b);
  } else if constexpr (std::is_integral_v<A>) {
    // Exact: the double must be a whole number in the integer's range.
    const double low = std::is_signed_v<A> ? -0x1p63 : 0, high = std::is_signed_v<A> ? 0x1p63 : 0x1p64;
    return b >= low && b < high && b == std::floor(b) && static_cast<A>(b) == a;
  } else {
    return equal_numbers(b, a);
  }
}

}  // namespace

/// Receives the parser's events and builds the value.
class JsonBuilder {
 public:
  JsonBuilder(const std::string* source, const TextPosition* position) : source_(source), position_(position) {}

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(std::int64_t value) { return add(Json(value)); }
  bool number_unsigned(std::uint64_t value) {
    if (value <= static_cast<std::uint64_t>(INT64_MAX)) return add(Json(static_cast<std::int64_t>(value)));
    return add(Json(value));
  }
  bool number_float(double value, const std::string& text) {
    if (text.find_first_of(".eE") == std::string::npos)
      return refuse("the integer " + shortened(text) + " does not fit in 64 bits");
    return add(Json(value));
  }
  bool string(std::string& value) { return add(Json(std::move(value))); }
  bool binary(std::vector<std::uint8_t>&) { return refuse("binary values are not JSON"); }
  bool start_object(std::size_t) { return open(Json(Json::Object{})); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(Json(Json::Array{})); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    Level& level = levels_.back();
    const auto& members = level.value->as_object();
    constexpr std::size_t few = 16;  // above, a set instead of a linear search
    if (members.size() == few)
      for (const auto& member : members) level.names.insert(member.first);
    const bool known = members.size() < few ? level.value->find(name) != nullptr : !level.names.insert(name).second;
    if (known) return refuse("the key '" + shortened(name) + "' appears twice in one object");
    level.key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
    return refuse(plain_message(error.what()));
  }

  const std::string& error() const { return error_; }
  Json take() { return std::move(root_); }

 private:
  struct Level {
    Json* value;
    std::string key;
    std::unordered_set<std::string> names;
  };

  bool refuse(const std::string& what) {
    error_ = *source_ + ":" + std::to_string(position_->line) + ": " + what;
    return false;
  }
  Json* place(Json value) {
    value.line_ = position_->line;
    value.source_ = source_;
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.value->is_array()) return &level.value->as_array().emplace_back(std::move(value));
    return &level.value->as_object().emplace_back(std::move(level.key), std::move(value)).second;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (levels_.size() == depth_limit) return refuse("nesting is deeper than " + std::to_string(depth_limit) + " levels");
    levels_.push_back({place(std::move(value)), {}, {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  const std::string* source_;
  const TextPosition* position_;
  Json root_;
  std::vector<Level> levels_;
  std::string error_;
};

namespace {

nlohmann::ordered_json to_nlohmann(const Json& value) {
  using Out = nlohmann::ordered_json;
  if (value.is_null()) return nullptr;
  if (value.is_bool()) return value.as_bool();
  if (value.is_string()) return value.as_string();
  if (value.is_array()) {
    Out out = Out::array();
    auto& items = out.get_ref<Out::array_t&>();
    items.reserve(value.as_array().size());
    for (const Json& item : value.as_array()) items.push_back(to_nlohmann(item));
    return out;
  }
  if (value.is_object()) {
    Out out = Out::object();
    auto& members = out.get_ref<Out::object_t&>();
    members.reserve(value.as_object().size());
    for (const auto& [name, member] : value.as_object()) members.emplace_back(name, to_nlohmann(member));
    return out;
  }
  if (!value.is_integer()) return value.as_double();
  if (value.as_double() > 0x1p62) return value.as_uint();
  return value.as_int();
}

}  // namespace

bool Json::is_number() const noexcept { return is_integer() || std::holds_alternative<double>(value_); }

bool Json::is_integer() const noexcept {
  return std::holds_alternative<std::int64_t>(value_) || std::holds_alternative<std::uint64_t>(value_);
}

std::string_view Json::type_name() const noexcept {
  constexpr std::string_view names[] = {"null", "boolean", "integer", "integer", "number", "string", "array", "object"};
  return names[value_.index()];
}

namespace {

// What a value is, for a complaint: its text when it is short, else its type.
std::string shown(const Json& value) {
  if (value.is_null()) return "null";
  const std::string type =
      (value.is_integer() || value.is_array() || value.is_object() ? "an " : "a ") + std::string(value.type_name());
  return value.is_array() || value.is_object() ? type : type + " (" + shortened(value.dump()) + ")";
}

[[noreturn]] void wrong_type(const Json& value, std::string_view wanted) {
  throw Error(ErrorCode::invalid_input, value.where() + "expected " + std::string(wanted) + ", found " + shown(value));
}

}  // namespace

bool Json::as_bool() const {
  if (const auto* value = std::get_if<bool>(&value_)) return *value;
  wrong_type(*this, "true or false");
}

std::int64_t Json::as_int() const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return *value;
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) {
    if (std::in_range<std::int64_t>(*value)) return static_cast<std::int64_t>(*value);
    wrong_type(*this, "an integer below 2^63");
  }
  if (const auto* value = std::get_if<double>(&value_))
    if (*value >= -0x1p63 && *value < 0x1p63 && *value == std::floor(*value)) return static_cast<std::int64_t>(*value);
  wrong_type(*this, "an integer");
}

std::uint64_t Json::as_uint() const {
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_))
    if (*value >= 0) return static_cast<std::uint64_t>(*value);
  if (const auto* value = std::get_if<double>(&value_))
    if (*value >= 0 && *value < 0x1p64 && *value == std::floor(*value)) return static_cast<std::uint64_t>(*value);
  wrong_type(*this, "an integer of 0 or more");
}

double Json::as_double() const {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  wrong_type(*this, "a number");
}

const std::string& Json::as_string() const {
  if (const auto* value = std::get_if<std::string>(&value_)) return *value;
  wrong_type(*this, "a string");
}

const Json::Array& Json::as_array() const {
  if (const auto* value = std::get_if<Array>(&value_)) return *value;
  wrong_type(*this, "an array");
}

const Json::Object& Json::as_object() const {
  if (const auto* value = std::get_if<Object>(&value_)) return *value;
  wrong_type(*this, "an object");
}

Json::Array& Json::as_array() { return const_cast<Array&>(std::as_const(*this).as_array()); }
Json::Object& Json::as_object() { return const_cast<Object&>(std::as_const(*this).as_object()); }

const Json* Json::find(std::string_view key) const noexcept {
  const auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  for (const auto& [name, value] : *members)
    if (name == key) return &value;
  return nullptr;
}

Json* Json::find(std::string_view key) noexcept { return const_cast<Json*>(std::as_const(*this).find(key)); }

const Json& Json::at(std::string_view key) const {
  as_object();
  if (const Json* value = find(key)) return *value;
  throw Error(ErrorCode::invalid_input, where() + "'" + std::string(key) + "' is missing");
}

Json& Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object();
  auto& members = as_object();
  if (Json* present = find(key)) return *present = std::move(value);
  return members.emplace_back(std::string(key), std::move(value)).second;
}

Json& Json::push_back(Json value) {
  if (is_null()) value_ = Array();
  return as_array().emplace_back(std::move(value));
}

const std::string& Json::source() const noexcept {
  static const std::string none;
  return source_ == nullptr ? none : *source_;
}

std::string Json::where() const { return source_ == nullptr ? "" : *source_ + ":" + std::to_string(line_) + ": "; }

std::string Json::dump(int indent) const {
  return to_nlohmann(*this).dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Json Json::parse(std::string_view text, std::string_view source) {
  TextPosition position;
  JsonBuilder builder(intern(source), &position);
  const CountingIterator begin(text.data(), &position), end(text.data() + text.size(), &position);
  if (!nlohmann::json::sax_parse(begin, end, &builder)) throw Error(ErrorCode::invalid_input, builder.error());
  return builder.take();
}

Json Json::read_file(const std::string& path) { return parse(read_whole_file(path), path); }

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    return std::visit(
        [](const auto& x, const auto& y) {
          using X = std::decay_t<decltype(x)>;
          using Y = std::decay_t<decltype(y)>;
          if constexpr (std::is_arithmetic_v<X> && std::is_arithmetic_v<Y> && !std::is_same_v<X, bool> &&
                        !std::is_same_v<Y, bool>) {
            return equal_numbers(x, y);
          } else {
            return false;
          }
        },
        a.value_, b.value_);
  }
  if (a.is_object() && b.is_object()) {  // in any order
    const auto& members = a.as_object();
    if (members.size() != b.as_object().size()) return false;
    return std::all_of(members.begin(), members.end(), [&](const Json::Member& member) {
      const Json* other = b.find(member.first);
      return other != nullptr && *other == member.second;
    });
  }
  return a.value_ == b.value_;
}

}  // namespace misfire
