#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/trial.hpp"

namespace misfire::dataloader {

/// Seed of the shipped data set: the images are the same in every run, whatever the run's own seed.
inline constexpr std::uint64_t data_seed = 2026;

/// The DataLoader scenario: a loader of JPEG images feeding a training step.
const Scenario& scenario();

/// Whether this process was started (start method spawn) to be a worker of a loader, and its main function then.
bool is_loader_worker(const std::vector<std::string>& arguments);
int loader_worker(const std::vector<std::string>& arguments);

}  // namespace misfire::dataloader
