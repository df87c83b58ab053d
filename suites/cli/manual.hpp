#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "suites/cli/command.hpp"

// Texts made from the command table: manual pages, and what shells need to complete command lines.
namespace misfire::cli {

/// One option as --help shows it.
struct OptionText {
  std::string form, meaning;
};
std::vector<OptionText> option_texts(const OptionTable& options);

/// misfire(1), in troff.
std::string program_page();
/// misfire-<command>(1).
std::string command_page(const Command& command);

/// @param shell  bash, zsh or fish. @throws Error{usage}
std::string completion(std::string_view shell);

}  // namespace misfire::cli
