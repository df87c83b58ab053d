// misfire-dataloader: one trial when --failure or --case is given (the driver's way in), otherwise a Google Benchmark program
// whose benchmarks are every arm of every failure and the healthy cases, each run as a child trial.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "faults/catalog.hpp"
#include "harness/files.hpp"
#include "harness/process.hpp"
#include "harness/text.hpp"
#include "harness/trial.hpp"
#include "results/record_reader.hpp"
#include "suites/catalog.hpp"
#include "suites/dataloader/loading.hpp"
#include "suites/dataloader/photographs.hpp"

namespace {

using namespace misfire;

struct Command {
  TrialOptions trial;
  std::string healthy_case;
  bool prepare = false;
  bool help = false;
  OptionTable table() {
    std::vector<Option> options = trial.table().options();
    options.push_back({.name = "case",
                       .target = &healthy_case,
                       .help = "run one healthy case of cases.json as a trial",
                       .unit = Unit::text,
                       .value_name = "NAME"});
    options.push_back({.name = "prepare", .target = &prepare, .help = "make the data set in --data and exit"});
    options.push_back({.name = "help", .target = &help, .help = "show this text", .letter = 'h'});
    return OptionTable("", std::move(options));
  }
};

Json healthy_cases() { return Json::read_file(shipped_file("suites/dataloader/cases.json")); }

TrialPlan plan_of_case(const std::string& name) {
  const Json file = healthy_cases();
  const Json* chosen = file.at("cases").find(name);
  if (!chosen) {
    std::vector<std::string_view> names;
    for (const auto& [key, value] : file.at("cases").as_object()) names.push_back(key);
    throw Error(ErrorCode::not_found, "no healthy case is named '" + name + "'" + did_you_mean(name, names));
  }
  TrialPlan plan;
  plan.workload = file.at("common");
  for (const auto& [key, value] : chosen->as_object()) plan.workload.set(key, value);
  return plan;
}

int prepare(const std::string& directory) {
  const auto data =
      dataloader::prepare_photographs(directory, {}, Seed(dataloader::data_seed), [](std::string_view what, double share) {
        std::fprintf(stderr, "data: %.*s %3.0f %%\n", static_cast<int>(what.size()), what.data(), share * 100);
      });
  std::printf("%s: %zu small, %zu medium, %zu large images from %s%s\n", data.directory.c_str(), data.small.size(),
              data.medium.size(), data.large.size(), data.origin.c_str(), data.reused ? " (there already)" : "");
  return 0;
}

/// Runs one child trial and turns its record into the benchmark's time and counters.
void run_as_benchmark(benchmark::State& state, const std::vector<std::string>& arguments, const std::string& data) {
  std::uint64_t seed = 1;
  for (auto _ : state) {
    const TemporaryDirectory directory;
    const std::string record = directory.path() + "/trial.jsonl";
    std::vector<std::string> command{self_executable()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::string>>{
             {"--record", record}, {"--data", data}, {"--seed", std::to_string(seed++)}}) {
      command.emplace_back(name);
      command.push_back(value);
    }
    command.emplace_back("--no-raw");
    const ProcessResult result = run_process({.argv = command});
    if (result.exit_code == static_cast<int>(Exit::skipped)) return state.SkipWithError(("skipped: " + result.err).c_str());
    if (result.exit_code != 0) return state.SkipWithError(("trial failed: " + result.err).c_str());
    const auto trials = read_trial_records(record);
    if (trials.empty() || !trials.front().complete) return state.SkipWithError("the trial left no complete record");
    const TrialRecord& trial = trials.front();
    const Json* elapsed = trial.outcome.find("elapsed_seconds");
    state.SetIterationTime(elapsed ? elapsed->as_double() : to_seconds(result.elapsed));
    const auto counter = [&](const char* name, const char* metric) {
      if (const Metric* found = trial.metric(metric)) state.counters[name] = found->number();
    };
    counter("images_per_second", "images_per_second");
    counter("data_wait_fraction", "data_wait_fraction");
    counter("bytes_read", "bytes_read");
    counter("worker_signal", "worker_signal");
    const Metric* outcome = trial.metric("outcome");
    state.counters["ok"] = outcome && outcome->text() == "ok";
    state.SetLabel(outcome ? outcome->text() : "no outcome");
  }
}

int benchmarks(int argc, char** argv, const std::string& data) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return static_cast<int>(Exit::usage);
  const auto add = [&](const std::string& name, std::vector<std::string> arguments) {
    benchmark::RegisterBenchmark(name.c_str(), [arguments = std::move(arguments),
                                                data](benchmark::State& state) { run_as_benchmark(state, arguments, data); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(1);
  };
  for (const auto& [name, options] : healthy_cases().at("cases").as_object()) add("healthy/" + name, {"--case", name});
  for (const std::string& path : shipped_failures("dataloader")) {
    const Failure failure = read_failure(path, vocabulary());
    for (const Arm& arm : failure.arms) add(failure.name + "/" + arm.name, {"--failure", failure.name, "--arm", arm.name});
  }
  prepare(data);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

int run(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (dataloader::is_loader_worker(arguments)) return dataloader::loader_worker(arguments);

  Command command;
  OptionTable table = command.table();
  std::vector<std::string> foreign;  // Google Benchmark's own
  const std::vector<std::string> rest = table.parse(arguments, &foreign);
  if (!rest.empty()) throw Error(ErrorCode::usage, "unexpected argument '" + rest.front() + "'; see --help");
  if (command.help) {
    std::cout << "misfire-dataloader: the DataLoader scenario\n\n"
                 "Without options: a Google Benchmark program (--benchmark_filter=..., --benchmark_list_tests, ...).\n"
                 "With --failure or --case: one trial, as the driver `misfire` starts it.\n\n"
              << table.help();
    return 0;
  }
  if (command.trial.data.empty()) command.trial.data = "misfire-out/data";
  if (command.prepare) return prepare(command.trial.data);
  // The workload reads its data directory as any of its options; the trial's processes inherit it.
  setenv("MISFIRE_DATALOADER_DATA", command.trial.data.c_str(), 0);

  const Scenario& scenario = dataloader::scenario();
  if (!command.healthy_case.empty())
    return static_cast<int>(run_planned_trial(scenario, fault_catalog(), plan_of_case(command.healthy_case), command.trial));
  if (!command.trial.failure.empty()) return static_cast<int>(run_trial(scenario, fault_catalog(), vocabulary(), command.trial));

  std::vector<char*> benchmark_arguments{argv[0]};
  for (std::string& argument : foreign) benchmark_arguments.push_back(argument.data());
  return benchmarks(static_cast<int>(benchmark_arguments.size()), benchmark_arguments.data(), command.trial.data);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const misfire::Error& error) {
    std::fprintf(stderr, "misfire-dataloader: %s\n", error.what());
    return static_cast<int>(misfire::exit_for(error.code()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "misfire-dataloader: internal error: %s\n", error.what());
    return static_cast<int>(misfire::Exit::internal);
  }
}
