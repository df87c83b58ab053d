// Goal: files for build servers are well-formed whatever the texts in them hold, and a terminal's width is kept while commands
// stay whole. Method: a checker of XML's nesting and escapes over hostile names; narrow widths.

#include "results/report.hpp"

#include "harness/text.hpp"
#include "tests/check.hpp"
#include "tests/results/trials.hpp"

using namespace misfire;
using namespace misfire::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (const std::string& line : split(text, '\n')) widest = std::max(widest, line.size());
  return widest;
}

/// Whether every element that opens closes, in order; no bare '&' or '<' and no control character is left in a text.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size(); ++at) {
    if (static_cast<unsigned char>(xml[at]) < 0x20 && xml[at] != '\n' && xml[at] != '\t') return false;
    if (xml[at] == '&') {
      const std::string entity = xml.substr(at, xml.find(';', at) - at + 1);
      if (entity != "&lt;" && entity != "&gt;" && entity != "&amp;" && entity != "&quot;") return false;
    }
    if (xml[at] != '<') continue;
    const auto end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (contains(tag, "<")) return false;
    at = end;
    if (tag[0] == '?' || tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back("/" + tag.substr(0, tag.find(' ')));
    } else if (open.empty() || open.back() != tag) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

std::vector<SummaryRow> every_verdict() {
  std::vector<SummaryRow> rows;
  for (VerdictKind kind : all_verdicts) {
    const std::string name(verdict_name(kind));
    rows.push_back(
        {"failure-" + name, kind, "reason_" + name, "because of " + name, "", 1.25, "misfire reproduce failure-" + name});
  }
  return rows;
}

}  // namespace

TEST("the checker of XML refuses what is broken") {
  CHECK(well_formed("<a><b c=\"&lt;\"/>text &amp; more</a>"));
  for (const char* broken : {"<a>", "<a></b>", "</a>", "<a>&</a>", "<a>\x01</a>", "<a b=\"<\"></a>", "<a", "<a><b></a></b>"})
    CHECK(!well_formed(broken));
}

TEST("each verdict is the element that build servers count") {
  const std::string text = summary_junit(every_verdict(), 9.5, "misfire.dataloader");
  CHECK(well_formed(text));
  CHECK(contains(text, R"(<testsuites tests="7" failures="1" errors="4" skipped="1" time="9.500">)"));
  CHECK(contains(text, R"(<testcase classname="misfire.dataloader" name="failure-reproduced" time="1.250"/>)"));
  CHECK(contains(text, R"(<failure type="reason_not_reproduced" message="reason_not_reproduced: because of not_reproduced">)"));
  for (const char* error : {"inconclusive", "invalid", "leak", "error"})
    CHECK(contains(text, "<error type=\"" + std::string(error) + "\""));
  CHECK(contains(text, R"(<skipped message="because of skipped"/>)"));
  CHECK(contains(text, "replay: misfire reproduce failure-leak"));
  CHECK(well_formed(summary_junit({}, 0, "empty")));
}

TEST("JUnit stays well-formed whatever the texts hold") {
  auto rows = every_verdict();
  for (SummaryRow& row : rows) {
    row.failure = "<&>\"'";
    row.reason = "\x01\x1b[31m";
    row.explanation = "bad \xff\xfe UTF-8 ]]>\n";
    row.partial = "<partial>";
    row.replay = "a && b < c > d";
  }
  const std::string text = summary_junit(rows, 1, "a\"b");
  CHECK(well_formed(text));
  CHECK(!contains(text, "\xff"));
  CHECK(contains(text, "a &amp;&amp; b &lt; c &gt; d"));
}

TEST("bars and line ends in texts do not break a table of markdown") {
  auto rows = every_verdict();
  rows[1].explanation = "a | b\nc";
  const std::string text = summary_markdown(rows, 1);
  CHECK(contains(text, "a \\| b c"));
  CHECK_EQ(count(text, "\n|"), 8);  // the rule and seven rows
}

TEST("a narrow terminal gets narrow tables, and whole commands") {
  const Failure failure = slow_step_failure();
  const Verdict verdict = judge(failure, slow_step_trials(failure, 5, {.deeper = 2, .other = 1}));
  const std::string replay =
      "misfire reproduce slow-step --seed 18446744073709551615 -o /a/long/directory/that/does/not/fit/in/it";
  const std::string wide = verdict_text(failure, verdict, replay, {.width = 200});
  CHECK_EQ(count(wide, "step_seconds / control >= 1.5"), 1);
  for (int width : {60, 70, 80, 100}) {
    const std::string narrow = verdict_text(failure, verdict, replay, {.width = width});
    for (const char* arm : {"control", "faulty", "remedied", "deeper", "other"}) CHECK(contains(narrow, arm));
    CHECK(contains(narrow, replay));
    const std::string tables = narrow.substr(0, narrow.find("  evidence"));
    CHECK(widest_line(tables) <= static_cast<std::size_t>(width));
  }
}

TEST("a verdict without trials is still a report") {
  const Failure failure = invariant_failure();
  const std::string text = verdict_text(failure, judge(failure, {}), "misfire reproduce example-failure");
  CHECK(contains(text, "no_trials"));
  CHECK(contains(text, "misfire reproduce example-failure"));
}

TEST("a sweep shows one column a dose") {
  const Failure failure = slow_step_failure();
  std::vector<TrialRecord> trials;
  for (int block = 0; block < 5; ++block) {
    add_block(trials, failure, block, {.faulty = 0, .remedied = 0});
    for (const auto& [dose, seconds] : {std::pair{"0ms", 1.0}, {"1ms", 2.0}, {"4ms", 5.0}}) {
      std::vector<TrialRecord> one;
      add_block(one, failure, block, {.faulty = seconds, .remedied = 0});
      one.back().dose = dose;
      trials.push_back(one.back());
    }
  }
  const std::string text = verdict_text(failure, judge(failure, trials), "");
  for (const char* dose : {"faulty at 0ms", "faulty at 1ms", "faulty at 4ms"}) CHECK(contains(text, dose));
  CHECK(contains(text, "dose_response_as_stated"));
}
