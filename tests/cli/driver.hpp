#pragma once

#include <string>
#include <vector>

#include "harness/json.hpp"
#include "harness/process.hpp"

namespace misfire::test {

/// The driver, run to its end as a user runs it.
ProcessResult misfire(std::vector<std::string> arguments, std::vector<std::string> environment = {});

/// One of the failure files beside this file.
std::string canned(const std::string& name);

/// Everything it wrote to standard output, read as JSON.
Json json_of(const ProcessResult& result);

/// A directory for one test, gone with the program.
std::string scratch();

/// Compares with tests/golden/cli/<name>; with MISFIRE_UPDATE_GOLDEN in the environment writes it instead. Times, seeds, paths
/// and process ids are replaced first.
void golden(const std::string& name, std::string text);

}  // namespace misfire::test
