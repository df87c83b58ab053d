#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/failure.hpp"
#include "harness/progress.hpp"
#include "results/judge.hpp"
#include "results/record_reader.hpp"

// One run of one failure: its blocks of trials, each trial a process, the record of all of them, the verdict.
namespace misfire::cli {

/// One arm at one dose: what each block has a trial of.
struct Cell {
  std::string arm;
  std::string dose;  ///< empty: the file's own
};

/// The arms that decide: every control, faulty and remedied one; with `all` also popular advice and look-alikes.
std::vector<Cell> cells_of_arms(const Failure& failure, bool all, const std::string& dose = "");
/// Control and faulty alone: for the neutral dose, and for the confusion matrix.
std::vector<Cell> control_and_faulty(const Failure& failure, const std::string& dose = "");
/// The faulty arm at every dose, with its control: one for all where the dose does not reach it. @throws Error{usage} without a
/// dose
std::vector<Cell> cells_of_sweep(const Failure& failure);

/// The failure with another number of blocks. @throws Error{usage} for an invariant or a number that files may not have either
Failure with_blocks(const Failure& failure, int blocks, const Vocabulary& vocabulary);

struct RunPlan {
  Failure failure;
  std::string argument;  ///< how a trial is told which failure: a shipped name, or an absolute path
  std::vector<Cell> cells;
  std::uint64_t seed = 0;
  std::string directory;                  ///< for record.jsonl and the trials' own records; made
  std::string data;                       ///< prepared data
  std::string sabotage = "none";          ///< none, condition, misuse (of the faulty trial), signature (of the judgement)
  Duration deadline{};                    ///< of a trial; 0: the file's
  std::string command = {}, replay = {};  ///< as typed; what runs it again
  bool judged = true;                     ///< false: `blocks` of trials without a verdict
  int blocks = 1;
};

struct RunResult {
  Verdict verdict;  ///< meaningless when interrupted or not judged, except for error, leak and skipped
  bool interrupted = false;
  double seconds = 0;
  std::string record;
  std::vector<TrialRecord> trials;
};

/// Runs the blocks, in each its cells in an order drawn from the seed, until the judge has seen enough. The record is whole at
/// every moment; the verdict is its last line.
/// @throws Error{no_space, permission, io} when the record cannot be written; Error{usage} for what a trial refuses
RunResult run_failure(const RunPlan& plan, Progress& progress);

/// The verdict that a run's record gives, whoever asks. @throws Error{invalid_input}
Verdict judge_run(const RunRecord& run, const Vocabulary& vocabulary);
/// The failure embedded in a run's record. @throws Error{invalid_input} when there is none
Failure failure_of(const RunRecord& run, const Vocabulary& vocabulary);

/// Has the scenario's executable make its data, if it is not there. @throws Error
void prepare_data(std::string_view scenario, const std::string& directory, Progress& progress);

/// Path of a scenario's executable, beside this one. @throws Error{not_found}
std::string scenario_executable(std::string_view scenario);

/// Where a command writes: held for as long as it writes there.
class OutputDirectory {
 public:
  /// @param given  -o, or empty for misfire-out/<name>-<time>. @throws Error{permission, no_space, io}; Error{usage} when another
  ///               misfire is writing there
  OutputDirectory(const std::string& given, const std::string& name);
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;
  ~OutputDirectory();
  const std::string& path() const noexcept { return path_; }
  /// Prepared data: `given` if not empty; below an output directory that was given; shared in misfire-out otherwise.
  std::string data(const std::string& given) const;

 private:
  std::string path_;
  bool own_;  ///< the name was ours to choose
  int handle_ = -1;
};

/// Now, in UTC: "2026-05-04T12:30:00Z".
std::string utc_now();

}  // namespace misfire::cli
