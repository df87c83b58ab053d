#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/judge.hpp"

// Verdicts as text: for a terminal, for markdown, for JUnit readers. Pure: the same verdict gives the same text.
namespace misfire {

struct ReportStyle {
  int width = 100;      ///< columns; arms that do not fit beside each other go below
  bool colour = false;  ///< ANSI colours
};

/// The whole of one verdict: arms side by side with each condition's value and answer, the evidence, the recovery, the verdict
/// with its reason, and the command that replays it.
std::string verdict_text(const Failure& failure, const Verdict& verdict, const std::string& replay,
                         const ReportStyle& style = {});
/// The same for a pull request or a job summary.
std::string verdict_markdown(const Failure& failure, const Verdict& verdict, const std::string& replay);

/// One line of the table that ends a run over several failures.
struct SummaryRow {
  std::string failure;
  VerdictKind kind = VerdictKind::invalid;
  std::string reason, explanation, partial;
  double seconds = 0;
  std::string replay;
};
/// Failure, verdict, seconds, reason; and a last line that counts. @param seconds  of the whole run
std::string summary_text(std::span<const SummaryRow> rows, double seconds, const ReportStyle& style = {});
std::string summary_markdown(std::span<const SummaryRow> rows, double seconds);
/// JUnit XML: not reproduced is a failure; invalid, inconclusive, leak and error are errors; skipped is skipped.
/// @param suite  name of the test suite
std::string summary_junit(std::span<const SummaryRow> rows, double seconds, const std::string& suite);

/// Failures by signatures: which trials carry which signature, and what is wrong with that.
std::string matrix_text(const Matrix& matrix, const ReportStyle& style = {});

/// "REPRODUCED", "not reproduced", ... in the colour of how good that is.
std::string verdict_word(VerdictKind kind, bool colour);

}  // namespace misfire
