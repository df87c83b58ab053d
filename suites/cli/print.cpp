#include "suites/cli/print.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "harness/error.hpp"
#include "harness/progress.hpp"
#include "harness/text.hpp"

namespace misfire::cli {
namespace {

std::size_t width_of(std::string_view text) {
  const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts));
}

}  // namespace

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void check_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw system_error("write to standard output", "", errno != 0 ? errno : EIO);
}

std::string columns(const std::vector<std::vector<std::string>>& rows, int indent) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - width_of(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string field(std::string_view label, std::string_view text) {
  if (text.empty()) return "";
  constexpr std::size_t margin = 12;
  std::string body = wrap(text, page_width(), static_cast<int>(margin));
  std::string head = "  " + std::string(label);
  head.resize(std::max(head.size() + 1, margin), ' ');
  return head + body.substr(std::min(body.size(), margin)) + "\n";
}

std::string list_field(std::string_view label, const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += field(text.empty() ? label : "", item);
  return text;
}

int page_width() { return std::clamp(terminal_width(1), 60, 120); }
bool page_colour() { return colour_wanted(1); }

}  // namespace misfire::cli
