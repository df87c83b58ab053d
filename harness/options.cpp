#include "harness/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "harness/error.hpp"
#include "harness/text.hpp"

namespace misfire {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // clang before 17 does not deduce aggregates

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x == '-' ? '_' : x) == (y == '-' ? '_' : y); });
}

// The shortest text that reads back as the same double.
std::string number_text(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

// The largest unit that divides it: what a user would type, and reads back exactly.
std::string size_text(std::uint64_t bytes) {
  constexpr const char* suffixes[] = {"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t power = 0;
  while (bytes != 0 && bytes % 1024 == 0 && power < 4) {
    bytes /= 1024;
    ++power;
  }
  return std::to_string(bytes) + suffixes[power];
}

std::string duration_text(Duration duration) {
  const std::int64_t count = duration.count();
  if (count % 1'000'000'000 == 0) return std::to_string(count / 1'000'000'000) + "s";
  if (count % 1'000'000 == 0) return std::to_string(count / 1'000'000) + "ms";
  if (count % 1'000 == 0) return std::to_string(count / 1'000) + "us";
  return std::to_string(count) + "ns";
}

bool is_duration(const Option& option) { return std::holds_alternative<Duration*>(option.target); }
bool is_flag(const Option& option) { return std::holds_alternative<bool*>(option.target); }

// A number as a user would type it for this option.
std::string amount_text(const Option& option, double value) {
  if (is_duration(option) && value >= 0 && value < 9e9) return duration_text(from_seconds(value));
  if (option.unit == Unit::bytes && value >= 0 && value < 0x1p63 && value == std::floor(value))
    return size_text(static_cast<std::uint64_t>(value));
  return number_text(value);
}

std::string current_text(const Option& option) {
  return std::visit(
      Overloaded{[](const bool* value) { return std::string(*value ? "true" : "false"); },
                 [&](const double* value) { return amount_text(option, *value); },
                 [](const Duration* value) { return duration_text(*value); }, [](const std::string* value) { return *value; },
                 [](const std::vector<std::string>* value) { return join(*value, ","); },
                 [&](const auto* value) {
                   return option.unit == Unit::bytes && *value > 0 ? size_text(static_cast<std::uint64_t>(*value))
                                                                   : std::to_string(*value);
                 }},
      option.target);
}

// "1 or more", "at most 5", "0 to 1", or "" without bounds.
std::string range_text(const Option& option) {
  if (std::holds_alternative<std::string*>(option.target) || std::holds_alternative<std::vector<std::string>*>(option.target))
    return "";
  const bool low = option.min > std::numeric_limits<double>::lowest(), high = option.max < std::numeric_limits<double>::max();
  if (low && high) return amount_text(option, option.min) + " to " + amount_text(option, option.max);
  if (low) return amount_text(option, option.min) + " or more";
  if (high) return "at most " + amount_text(option, option.max);
  return "";
}

std::string choices_text(const Option& option) {
  std::string text;
  for (std::string_view choice : option.choices) text.append(text.empty() ? "" : ", ").append(choice);
  return text;
}

// What an option accepts, for complaints.
std::string accepted(const Option& option) {
  if (!option.choices.empty()) return "one of " + choices_text(option);
  std::string kind;
  if (is_flag(option)) {
    kind = "true or false";
  } else if (is_duration(option)) {
    kind = "a duration such as 200ms";
  } else if (option.unit == Unit::bytes) {
    kind = "a size such as 16MiB";
  } else if (std::holds_alternative<double*>(option.target)) {
    kind = "a number";
  } else if (std::holds_alternative<std::string*>(option.target) ||
             std::holds_alternative<std::vector<std::string>*>(option.target)) {
    kind = "text";
  } else {
    kind = "an integer";
  }
  const std::string range = range_text(option);
  return range.empty() ? kind : kind + ", " + range;
}

// Thrown while a value is read; the caller adds which option, and from where it came.
struct Refused {
  std::string why;
};

void check_range(const Option& option, double value) {
  if (!(value >= option.min && value <= option.max)) throw Refused{"is out of range"};
}

void check_choice(const Option& option, std::string_view value) {
  if (option.choices.empty() || std::find(option.choices.begin(), option.choices.end(), value) != option.choices.end()) return;
  throw Refused{"is none of the choices" + did_you_mean(value, option.choices)};
}

template <class T>
T read_integer(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) throw Refused{"is out of range"};
  if (error != std::errc() || end != text.data() + text.size()) throw Refused{"is not an integer"};
  return value;
}

template <class T>
void assign_integer(const Option& option, T* target, std::string_view text) {
  T value{};
  if (option.unit == Unit::bytes) {
    const std::uint64_t bytes = parse_size(text);
    if (!std::in_range<T>(bytes)) throw Refused{"is out of range"};
    value = static_cast<T>(bytes);
  } else {
    value = read_integer<T>(text);
  }
  check_range(option, static_cast<double>(value));
  *target = value;
}

/// Sets the variable from text. @throws Refused, Error; the variable is then as before
void assign(const Option& option, std::string_view text) {
  std::visit(Overloaded{[&](bool* target) {
                          const std::string word = to_lower(text);
                          if (word == "true" || word == "1" || word == "yes" || word == "on") {
                            *target = true;
                          } else if (word == "false" || word == "0" || word == "no" || word == "off") {
                            *target = false;
                          } else {
                            throw Refused{"is neither true nor false"};
                          }
                        },
                        [&](double* target) {
                          double value = 0;
                          const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
                          if (option.unit == Unit::bytes && end != text.data() + text.size()) {
                            value = static_cast<double>(parse_size(text));
                          } else if (error == std::errc::result_out_of_range) {
                            throw Refused{"is out of range"};
                          } else if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
                            throw Refused{"is not a number"};
                          }
                          check_range(option, value);
                          *target = value;
                        },
                        [&](Duration* target) {
                          const Duration value = parse_duration(text);
                          check_range(option, to_seconds(value));
                          *target = value;
                        },
                        [&](std::string* target) {
                          check_choice(option, text);
                          *target = text;
                        },
                        [&](std::vector<std::string>* target) {
                          check_choice(option, text);
                          target->emplace_back(text);
                        },
                        [&](auto* target) { assign_integer(option, target, text); }},
             option.target);
}

/// Sets the variable from JSON: a number in base units, or text as on the command line where there are suffixes.
void assign_json(const Option& option, const Json& json) {
  const bool suffixes = is_duration(option) || option.unit == Unit::bytes;
  if (json.is_string() && suffixes) return assign(option, json.as_string());
  std::visit(Overloaded{[&](bool* target) { *target = json.as_bool(); },
                        [&](double* target) {
                          check_range(option, json.as_double());
                          *target = json.as_double();
                        },
                        [&](Duration* target) {
                          const Duration value = from_seconds(json.as_double());
                          check_range(option, to_seconds(value));
                          *target = value;
                        },
                        [&](std::string* target) {
                          check_choice(option, json.as_string());
                          *target = json.as_string();
                        },
                        [&](std::vector<std::string>* target) {
                          std::vector<std::string> values;
                          if (json.is_string()) {
                            values.push_back(json.as_string());
                          } else {
                            for (const Json& item : json.as_array()) values.push_back(item.as_string());
                          }
                          for (const std::string& value : values) check_choice(option, value);
                          *target = std::move(values);
                        },
                        [&](std::uint64_t* target) {
                          check_range(option, static_cast<double>(json.as_uint()));
                          *target = json.as_uint();
                        },
                        [&](auto* target) {
                          const std::int64_t value = json.as_int();
                          if (!std::in_range<std::remove_pointer_t<decltype(target)>>(value)) throw Refused{"is out of range"};
                          check_range(option, static_cast<double>(value));
                          *target = static_cast<std::remove_pointer_t<decltype(target)>>(value);
                        }},
             option.target);
}

std::string placeholder(const Option& option) {
  if (!option.value_name.empty()) return std::string(option.value_name);
  if (is_flag(option)) return "";
  if (is_duration(option)) return "TIME";
  if (option.unit == Unit::bytes) return "SIZE";
  if (!option.choices.empty()) return "WORD";
  if (std::holds_alternative<std::string*>(option.target) || std::holds_alternative<std::vector<std::string>*>(option.target))
    return "TEXT";
  return "N";
}

std::string dashed(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

/// Sets an option from text and says what is wrong in a user's words. @param written how the user named it
void assign_or_explain(const Option& option, std::string_view text, const std::string& written) {
  std::string why;
  try {
    assign(option, text);
    return;
  } catch (const Refused& refused) {
    why = "'" + std::string(text) + "' " + refused.why;
  } catch (const Error& error) {
    why = error.what();
  }
  throw Error(ErrorCode::usage, written + ": " + why + "; it takes " + accepted(option));
}

}  // namespace

OptionTable::OptionTable(std::string_view env_prefix, std::vector<Option> options)
    : env_prefix_(env_prefix), options_(std::move(options)) {
  for (const Option& option : options_) defaults_.push_back(current_text(option));
}

const Option* OptionTable::find(std::string_view name) const noexcept {
  for (const Option& option : options_)
    if (same_name(option.name, name)) return &option;
  return nullptr;
}

std::vector<std::string_view> OptionTable::names() const {
  std::vector<std::string_view> all;
  for (const Option& option : options_) all.push_back(option.name);
  return all;
}

void OptionTable::set(std::string_view name, std::string_view text) {
  const Option* option = find(name);
  if (option == nullptr)
    throw Error(ErrorCode::usage, "unknown option '" + std::string(name) + "'" + did_you_mean(name, names()));
  assign_or_explain(*option, text, std::string(option->name));
}

void OptionTable::set(const Json& object) {
  for (const auto& [name, value] : object.as_object()) {
    const auto known = std::find_if(options_.begin(), options_.end(), [&](const Option& option) { return option.name == name; });
    if (known == options_.end())
      throw Error(ErrorCode::invalid_input, value.where() + "unknown option '" + name + "'" + did_you_mean(name, names()));
    std::string why;
    try {
      assign_json(*known, value);
      continue;
    } catch (const Refused& refused) {
      why = value.dump() + " " + refused.why;
    } catch (const Error& error) {
      why = error.what();
      if (why.starts_with(value.where())) why.erase(0, value.where().size());
    }
    throw Error(ErrorCode::invalid_input, value.where() + name + ": " + why + "; it takes " + accepted(*known));
  }
}

void OptionTable::read_environment() {
  if (env_prefix_.empty()) return;
  for (const Option& option : options_) {
    std::string variable = env_prefix_ + "_";
    for (char c : option.name) variable += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    const char* text = std::getenv(variable.c_str());
    if (text == nullptr) continue;
    if (auto* const* list = std::get_if<std::vector<std::string>*>(&option.target)) {
      (*list)->clear();
      for (const std::string& part : split(text, ',')) assign_or_explain(option, part, "environment variable " + variable);
    } else {
      assign_or_explain(option, text, "environment variable " + variable);
    }
  }
}

std::vector<std::string> OptionTable::parse(const std::vector<std::string>& arguments, std::vector<std::string>* unknown) {
  std::vector<std::string> positional;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      positional.insert(positional.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      positional.push_back(argument);
      continue;
    }
    const Option* option = nullptr;
    bool negated = false, has_value = false;
    std::string written, value;
    if (argument[1] == '-') {
      const std::size_t equals = argument.find('=');
      written = argument.substr(0, equals);
      has_value = equals != std::string::npos;
      if (has_value) value = argument.substr(equals + 1);
      const std::string_view name = std::string_view(written).substr(2);
      option = find(name);
      if (option == nullptr && name.starts_with("no") && name.size() > 3 && (name[2] == '-' || name[2] == '_')) {
        option = find(name.substr(3));
        if (option != nullptr && !is_flag(*option)) option = nullptr;
        negated = option != nullptr;
      }
    } else {  // -x value, -xvalue, -x=value
      written = argument.substr(0, 2);
      has_value = argument.size() > 2;
      if (has_value) value = argument.substr(argument[2] == '=' ? 3 : 2);
      for (const Option& candidate : options_)
        if (candidate.letter == argument[1]) option = &candidate;
      if (option != nullptr && is_flag(*option) && has_value && argument[2] != '=')
        throw Error(ErrorCode::usage, "option " + written + " takes no value: '" + argument + "'");
    }
    if (option == nullptr) {
      if (unknown != nullptr) {
        unknown->push_back(argument);
        continue;
      }
      const std::string_view name = std::string_view(written).substr(written.starts_with("--") ? 2 : 1);
      std::string hint;
      if (const std::string_view near = nearest(name, names()); !near.empty()) hint = " (did you mean '--" + dashed(near) + "'?)";
      throw Error(ErrorCode::usage, "unknown option '" + written + "'" + hint);
    }
    if (negated) {
      if (has_value) throw Error(ErrorCode::usage, "option " + written + " takes no value: '" + argument + "'");
      value = "false";
    } else if (is_flag(*option)) {
      if (!has_value) value = "true";
    } else if (!has_value) {
      if (i + 1 == arguments.size()) throw Error(ErrorCode::usage, "option " + written + " needs a value: " + accepted(*option));
      value = arguments[++i];
    }
    assign_or_explain(*option, value, "option " + written);
  }
  return positional;
}

std::string OptionTable::help(int width) const {
  std::string text;
  for (const Option& option : options_) {
    std::string form = "  ";
    if (option.letter != 0) form.append("-").append(1, option.letter).append(", ");
    form += "--" + dashed(option.name);
    if (const std::string value = placeholder(option); !value.empty()) form += " " + value;
    std::vector<std::string> facts;
    if (!option.choices.empty()) facts.push_back(choices_text(option));
    if (std::string range = range_text(option); !range.empty()) facts.push_back(std::move(range));
    if (const std::string present = default_text(option); !present.empty() && !(is_flag(option) && present == "false"))
      facts.push_back("default " + present);
    std::string meaning(option.help);
    if (!facts.empty()) meaning += " [" + join(facts, "; ") + "]";
    text += form + "\n" + wrap(meaning, width, 6) + "\n";
  }
  return text;
}

Json OptionTable::values() const {
  Json object = Json::object();
  for (const Option& option : options_)
    object.set(option.name, std::visit(Overloaded{[](const Duration* value) { return Json(to_seconds(*value)); },
                                                  [](const std::vector<std::string>* value) {
                                                    Json list = Json::array();
                                                    for (const std::string& item : *value) list.push_back(item);
                                                    return list;
                                                  },
                                                  [](const auto* value) { return Json(*value); }},
                                       option.target));
  return object;
}

Json OptionTable::schema() const {
  Json properties = Json::object();
  for (const Option& option : options_) {
    Json property = Json::object({{"description", option.help}});
    const bool suffixes = is_duration(option) || option.unit == Unit::bytes;
    const std::string_view number =
        std::visit(Overloaded{[](const bool*) -> std::string_view { return "boolean"; },
                              [](const std::string*) -> std::string_view { return "string"; },
                              [](const std::vector<std::string>*) -> std::string_view { return "array"; },
                              [](const double*) -> std::string_view { return "number"; },
                              [](const Duration*) -> std::string_view { return "number"; },
                              [](const auto*) -> std::string_view { return "integer"; }},
                   option.target);
    property.set("type", suffixes ? Json::array({Json(number), Json("string")}) : Json(number));
    Json choices = Json::array();
    for (std::string_view choice : option.choices) choices.push_back(choice);
    if (number == "array") {
      Json items = Json::object({{"type", "string"}});
      if (!option.choices.empty()) items.set("enum", choices);
      property.set("items", items);
    } else if (!option.choices.empty()) {
      property.set("enum", choices);
    }
    if (option.min > std::numeric_limits<double>::lowest()) property.set("minimum", option.min);
    if (option.max < std::numeric_limits<double>::max()) property.set("maximum", option.max);
    const std::string present = default_text(option);
    if (number == "array") {
      Json list = Json::array();
      for (const std::string& item : split(present, ',')) list.push_back(item);
      property.set("default", list);
    } else {
      property.set("default", suffixes || number == "string" ? Json(present) : Json::parse(present, "default"));
    }
    properties.set(option.name, property);
  }
  return properties;
}

std::string OptionTable::default_text(const Option& option) const {
  for (std::size_t i = 0; i < options_.size(); ++i)
    if (options_[i].name == option.name) return defaults_[i];
  return "";
}

}  // namespace misfire
