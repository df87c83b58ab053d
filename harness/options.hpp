#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/json.hpp"
#include "harness/unit.hpp"

namespace misfire {

/// One option, declared once: command line, JSON key, environment variable, --help, man page, completion, validation,
/// schema and record all come from it. It points at the variable that it sets; the variable's value at declaration is the
/// default.
struct Option {
  /// Where the value goes. A std::string with `choices` is an enumeration; a vector collects repeated uses.
  using Target =
      std::variant<bool*, int*, std::int64_t*, std::uint64_t*, double*, Duration*, std::string*, std::vector<std::string>*>;

  std::string_view
      name;  ///< snake_case: "--prefetch_factor" and "--prefetch-factor" on the command line, "prefetch_factor" in JSON
  Target target;
  std::string_view help;
  Unit unit = Unit::none;  ///< bytes: size suffixes are read; Duration targets read duration suffixes
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
  std::vector<std::string_view> choices = {};
  std::string_view value_name = {};  ///< shown in --help ("FILE"); derived from the unit when empty
  char letter = 0;                   ///< short form, 0 for none
};

/// The options of one part of the program, bound to its variables.
class OptionTable {
 public:
  OptionTable() = default;
  /// @param env_prefix "MISFIRE_DATALOADER": option `workers` is read from MISFIRE_DATALOADER_WORKERS; empty: no environment
  OptionTable(std::string_view env_prefix, std::vector<Option> options);

  /// Sets one option from text. @throws Error{usage} naming the option, the text, what is accepted, and the nearest name
  void set(std::string_view name, std::string_view text);
  /// Sets options from the members of a JSON object. @throws Error{invalid_input} with file, line and nearest key
  void set(const Json& object);
  /// Reads the environment. @throws Error{usage} naming the variable
  void read_environment();

  /// Reads "--name value", "--name=value", "-x value", "--flag", "--no-flag". Stops at "--".
  /// @param unknown if given, unknown options and their "=value" are put there instead of being an error
  /// @return the positional arguments
  /// @throws Error{usage}
  std::vector<std::string> parse(const std::vector<std::string>& arguments, std::vector<std::string>* unknown = nullptr);

  std::string help(int width = 100) const;  ///< one paragraph an option: form, meaning, range, default
  Json values() const;                      ///< present values in base units, for the record
  Json schema() const;                      ///< JSON Schema "properties" object
  const std::vector<Option>& options() const noexcept { return options_; }
  const Option* find(std::string_view name) const noexcept;
  std::vector<std::string_view> names() const;
  std::string default_text(const Option& option) const;  ///< the value at declaration, as a user would type it

 private:
  std::string env_prefix_;
  std::vector<Option> options_;
  std::vector<std::string> defaults_;
};

}  // namespace misfire
