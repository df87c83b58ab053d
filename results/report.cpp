#include "results/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "harness/text.hpp"

namespace misfire {
namespace {

enum class Colour { none, good, bad, doubtful, faint, strong };

std::string painted(const std::string& text, Colour colour, bool on) {
  if (!on || colour == Colour::none) return text;
  constexpr const char* codes[] = {"", "32", "31", "33", "2", "1"};
  return std::string("\033[") + codes[static_cast<int>(colour)] + "m" + text + "\033[0m";
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

struct Cell {
  std::string text;
  Colour colour = Colour::none;
};
using Row = std::vector<Cell>;

// Columns as wide as their widest cell, two spaces between them.
std::string table(const std::vector<Row>& rows, int indent, bool colour) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], columns(row[i].text));
    }
  std::string text;
  for (const Row& row : rows) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += painted(row[i].text, row[i].colour, colour);
      if (i + 1 < row.size()) line += std::string(widths[i] - columns(row[i].text) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Colour colour_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::reproduced:
      return Colour::good;
    case VerdictKind::not_reproduced:
    case VerdictKind::leak:
    case VerdictKind::error:
      return Colour::bad;
    default:
      return Colour::doubtful;
  }
}

std::string spaced(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string seconds_text(double seconds) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f s", seconds);
  return buffer;
}

std::string percent(double share) {
  if (std::isinf(share)) return "none";
  return value_text(std::round(share * 1000) / 10, Unit::none) + "%";
}

// "yes" where the condition holds, "no", "?".
std::string answer(const ConditionResult& result) {
  if (result.presence == Presence::not_measurable) return "?";
  return result.presence == Presence::present ? "yes" : "no";
}

std::string signature_word(const SignatureResult& result) {
  if (result.undecided) return "undecided";
  std::string word = spaced(presence_name(result.presence));
  return result.partial && result.presence == Presence::present ? word + " (partial)" : word;
}

// What is expected of the arm: the colour says whether it is so.
Colour expectation(const Failure& failure, const SignatureResult& result) {
  for (const Arm& arm : failure.arms)
    if (arm.name == result.arm && result.dose.empty()) {
      if (result.presence == Presence::not_measurable) return Colour::doubtful;
      return (result.presence == Presence::present) == arm.expect_present ? Colour::good : Colour::bad;
    }
  return Colour::none;
}

std::string title(const SignatureResult& result) { return result.dose.empty() ? result.arm : result.arm + " at " + result.dose; }

std::vector<std::string> condition_titles(const Verdict& verdict) {
  std::vector<std::string> titles;
  if (!verdict.arms.empty())
    for (const ConditionResult& result : verdict.arms.front().conditions)
      titles.push_back(result.condition.describe() + (result.condition.optional ? " (optional)" : ""));
  return titles;
}

// The arms from `first` on that fit; at least one.
std::size_t fitting(const Verdict& verdict, std::size_t first, std::size_t label_width, int width) {
  std::size_t used = 2 + label_width, count = 0;
  for (std::size_t i = first; i < verdict.arms.size(); ++i) {
    std::size_t cell = std::max(columns(title(verdict.arms[i])), columns(signature_word(verdict.arms[i])));
    for (const ConditionResult& result : verdict.arms[i].conditions)
      cell = std::max(cell, columns(result.value_text() + "  " + answer(result)));
    used += 2 + cell;
    if (used > static_cast<std::size_t>(width) && count > 0) break;
    ++count;
  }
  return count;
}

std::string arms_table(const Failure& failure, const Verdict& verdict, const ReportStyle& style) {
  const std::vector<std::string> titles = condition_titles(verdict);
  std::size_t label_width = 9;
  for (const std::string& text : titles) label_width = std::max(label_width, columns(text));
  std::string text;
  for (std::size_t first = 0; first < verdict.arms.size();) {
    const std::size_t count = fitting(verdict, first, label_width, style.width);
    Row head{{std::string(first == 0 ? label_width : label_width, ' ')}}, foot{{"signature"}}, trials{{"trials"}};
    for (std::size_t i = first; i < first + count; ++i) {
      const SignatureResult& result = verdict.arms[i];
      head.push_back({title(result), Colour::strong});
      foot.push_back({signature_word(result), expectation(failure, result)});
      trials.push_back({std::to_string(result.trials), Colour::faint});
    }
    std::vector<Row> rows{head};
    for (std::size_t c = 0; c < titles.size(); ++c) {
      Row row{{titles[c]}};
      for (std::size_t i = first; i < first + count; ++i) {
        const ConditionResult& result = verdict.arms[i].conditions[c];
        row.push_back({result.value_text() + "  " + answer(result), answer(result) == "?" ? Colour::doubtful : Colour::none});
      }
      rows.push_back(row);
    }
    rows.push_back(foot);
    rows.push_back(trials);
    text += table(rows, 2, style.colour) + "\n";
    first += count;
  }
  return text;
}

std::string holds_word(const ConditionResult& result) {
  if (result.undecided) return "undecided";
  return result.presence == Presence::present ? "holds" : result.presence == Presence::absent ? "FAILS" : "not measurable";
}

Colour holds_colour(const ConditionResult& result) {
  return result.presence == Presence::present  ? Colour::good
         : result.presence == Presence::absent ? Colour::bad
                                               : Colour::doubtful;
}

std::string recovery_text(const Failure& failure, const Verdict& verdict) {
  std::string text = percent(verdict.recovery) + " of " + failure.recovery_metric;
  if (percent(verdict.recovery_low) != percent(verdict.recovery)) text += " (from " + percent(verdict.recovery_low) + ")";
  return text + ", wanted at least " + percent(failure.recovery_fraction);
}

std::string verdict_line(const Verdict& verdict) {
  std::string text = verdict.reason + ": " + verdict.explanation;
  if (!verdict.partial.empty()) text += " " + verdict.partial;
  return text;
}

// Wrapped beside a label; the command of a replay is never wrapped, so that it can be copied.
std::string labelled(const std::string& label, const std::string& text, int width) {
  constexpr int margin = 12;
  std::string body = width > 0 ? wrap(text, width, margin) : std::string(margin, ' ') + text;
  const std::string head = "  " + label;
  return head + body.substr(std::min(body.size(), head.size())) + "\n";
}

std::string xml(std::string_view text) {
  const Json valid = Json::parse(Json(text).dump(), "");  // as UTF-8: XML readers refuse anything else
  std::string escaped;
  for (char c : valid.as_string()) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return escaped;
}

std::string markdown_cell(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + markdown_cell(cell) + " |";
  return text + "\n";
}

std::string markdown_rule(std::size_t count) {
  std::string text = "|";
  for (std::size_t i = 0; i < count; ++i) text += "---|";
  return text + "\n";
}

std::string counts(std::span<const SummaryRow> rows, double seconds) {
  std::string text;
  for (VerdictKind kind : all_verdicts) {
    const auto count = std::count_if(rows.begin(), rows.end(), [&](const SummaryRow& row) { return row.kind == kind; });
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + spaced(verdict_name(kind));
  }
  return (text.empty() ? "nothing run" : text) + " in " + seconds_text(seconds);
}

}  // namespace

std::string verdict_word(VerdictKind kind, bool colour) {
  std::string word = spaced(verdict_name(kind));
  if (kind == VerdictKind::reproduced)
    for (char& c : word) c = static_cast<char>(c - 'a' + 'A');
  return painted(word, colour_of(kind), colour);
}

std::string verdict_text(const Failure& failure, const Verdict& verdict, const std::string& replay, const ReportStyle& style) {
  std::string text = painted(failure.name, Colour::strong, style.colour) + "\n" + wrap(failure.summary, style.width, 2) + "\n\n";
  text += arms_table(failure, verdict, style);
  if (!verdict.evidence.empty()) {
    std::vector<Row> rows{{{"evidence", Colour::strong}}};
    for (const ConditionResult& result : verdict.evidence)
      rows.push_back({{"  " + result.arm},
                      {result.condition.describe()},
                      {result.value_text()},
                      {holds_word(result), holds_colour(result)}});
    text += table(rows, 2, style.colour) + "\n";
  }
  if (verdict.recovery_known) text += labelled("recovered", recovery_text(failure, verdict), style.width);
  text += "  verdict   " + verdict_word(verdict.kind, style.colour) + "\n";
  text += labelled("reason", verdict_line(verdict), style.width);
  if (!replay.empty()) text += labelled("replay", replay, 0);
  return text;
}

std::string verdict_markdown(const Failure& failure, const Verdict& verdict, const std::string& replay) {
  std::string text = "### " + failure.name + ": " + spaced(verdict_name(verdict.kind)) + "\n\n" + failure.summary + "\n\n";
  std::vector<std::string> head{""}, foot{"signature"};
  for (const SignatureResult& result : verdict.arms) {
    head.push_back(title(result));
    foot.push_back("**" + signature_word(result) + "**");
  }
  if (!verdict.arms.empty()) {
    text += markdown_row(head) + markdown_rule(head.size());
    const std::vector<std::string> titles = condition_titles(verdict);
    for (std::size_t c = 0; c < titles.size(); ++c) {
      std::vector<std::string> row{titles[c]};
      for (const SignatureResult& result : verdict.arms)
        row.push_back(result.conditions[c].value_text() + " " + answer(result.conditions[c]));
      text += markdown_row(row);
    }
    text += markdown_row(foot) + "\n";
  }
  for (const ConditionResult& result : verdict.evidence)
    text += "- evidence in " + result.arm + ": " + result.explanation + " (" + holds_word(result) + ")\n";
  if (verdict.recovery_known) text += "- recovered: " + recovery_text(failure, verdict) + "\n";
  text += "- " + verdict_line(verdict) + "\n";
  if (!replay.empty()) text += "- replay: `" + replay + "`\n";
  return text;
}

std::string summary_text(std::span<const SummaryRow> rows, double seconds, const ReportStyle& style) {
  std::vector<Row> lines{
      {{"failure", Colour::strong}, {"verdict", Colour::strong}, {"time", Colour::strong}, {"reason", Colour::strong}}};
  for (const SummaryRow& row : rows) {
    std::string reason = row.kind == VerdictKind::skipped ? row.explanation : row.reason;
    if (!row.partial.empty()) reason += " " + row.partial;
    lines.push_back({{row.failure}, {verdict_word(row.kind, false), colour_of(row.kind)}, {seconds_text(row.seconds)}, {reason}});
  }
  return table(lines, 0, style.colour) + "\n" + counts(rows, seconds) + "\n";
}

std::string summary_markdown(std::span<const SummaryRow> rows, double seconds) {
  std::string text = markdown_row({"failure", "verdict", "time", "reason", "replay"}) + markdown_rule(5);
  for (const SummaryRow& row : rows)
    text += markdown_row({row.failure, spaced(verdict_name(row.kind)), seconds_text(row.seconds),
                          row.reason + ": " + row.explanation + (row.partial.empty() ? "" : " " + row.partial),
                          row.replay.empty() ? "" : "`" + row.replay + "`"});
  return text + "\n" + counts(rows, seconds) + "\n";
}

std::string summary_junit(std::span<const SummaryRow> rows, double seconds, const std::string& suite) {
  long failures = 0, errors = 0, skipped = 0;
  std::string cases;
  for (const SummaryRow& row : rows) {
    char time[32];
    std::snprintf(time, sizeof time, "%.3f", row.seconds);
    cases += "    <testcase classname=\"" + xml(suite) + "\" name=\"" + xml(row.failure) + "\" time=\"" + time + "\"";
    const std::string message = xml(row.reason + ": " + row.explanation),
                      details = xml(row.replay.empty() ? "" : "replay: " + row.replay);
    switch (row.kind) {
      case VerdictKind::reproduced:
        cases += row.partial.empty() ? "/>\n" : "><system-out>" + xml(row.partial) + "</system-out></testcase>\n";
        break;
      case VerdictKind::skipped:
        ++skipped;
        cases += "><skipped message=\"" + xml(row.explanation) + "\"/></testcase>\n";
        break;
      case VerdictKind::not_reproduced:
        ++failures;
        cases += "><failure type=\"" + xml(row.reason) + "\" message=\"" + message + "\">" + details + "</failure></testcase>\n";
        break;
      default:
        ++errors;
        cases += "><error type=\"" + std::string(verdict_name(row.kind)) + "\" message=\"" + message + "\">" + details +
                 "</error></testcase>\n";
    }
  }
  char time[32];
  std::snprintf(time, sizeof time, "%.3f", seconds);
  const std::string attributes = "tests=\"" + std::to_string(rows.size()) + "\" failures=\"" + std::to_string(failures) +
                                 "\" errors=\"" + std::to_string(errors) + "\" skipped=\"" + std::to_string(skipped) +
                                 "\" time=\"" + time + "\"";
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites " + attributes + ">\n  <testsuite name=\"" + xml(suite) +
         "\" " + attributes + ">\n" + cases + "  </testsuite>\n</testsuites>\n";
}

std::string matrix_text(const Matrix& matrix, const ReportStyle& style) {
  std::vector<Row> rows;
  Row head{{"trials of \\ signature of", Colour::strong}};
  for (std::size_t j = 0; j < matrix.names.size(); ++j) head.push_back({std::to_string(j + 1), Colour::strong});
  rows.push_back(head);
  for (std::size_t i = 0; i < matrix.names.size(); ++i) {
    Row row{{std::to_string(i + 1) + " " + matrix.names[i]}};
    for (std::size_t j = 0; j < matrix.cells[i].size(); ++j) {
      const SignatureResult& cell = matrix.cells[i][j];
      const bool problem = std::any_of(matrix.problems.begin(), matrix.problems.end(), [&](const Matrix::Problem& other) {
        return other.failure == matrix.names[i] && other.signature == matrix.names[j];
      });
      const char* mark = cell.presence == Presence::present ? "yes" : cell.presence == Presence::absent ? "." : "?";
      row.push_back({mark, problem ? Colour::bad : cell.presence == Presence::present ? Colour::good : Colour::faint});
    }
    rows.push_back(row);
  }
  std::string text = table(rows, 0, style.colour) + "\n";
  for (const Matrix::Problem& row : matrix.skipped) text += "skipped: " + row.failure + ": " + row.why + "\n";
  for (const Matrix::Problem& problem : matrix.problems)
    text += "problem: " + problem.failure + " by " + problem.signature + ": " + problem.why + "\n";
  if (matrix.diagonal())
    text += std::to_string(matrix.names.size() - matrix.skipped.size()) + " of " + std::to_string(matrix.names.size()) +
            " failures are recognised as themselves and only themselves\n";
  else
    text += std::to_string(matrix.problems.size()) + (matrix.problems.size() == 1 ? " problem\n" : " problems\n");
  return text;
}

}  // namespace misfire
