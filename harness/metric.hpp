#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/unit.hpp"

namespace misfire {

/// One measured number or word of a trial. A metric that was not measured is absent from the record with a reason, never zero.
struct Metric {
  std::string name;
  Unit unit = Unit::none;
  std::variant<double, std::string> value;

  bool is_text() const noexcept { return std::holds_alternative<std::string>(value); }
  double number() const { return std::get<double>(value); }
  const std::string& text() const { return std::get<std::string>(value); }
};

/// A metric as a scenario declares it: what signatures may name.
struct MetricInfo {
  std::string_view name;
  Unit unit;
  std::string_view help;
};

}  // namespace misfire
