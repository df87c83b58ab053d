#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace misfire {

/// Why our own program could not do its work. An injected failure doing its work is never an Error: it is a value in the
/// record (see trial.hpp).
enum class ErrorCode {
  usage,          ///< the command line is wrong
  invalid_input,  ///< a file or value given to us is wrong (bad JSON, wrong type, impossible number, wrong version)
  not_found,      ///< a named thing does not exist
  permission,     ///< the operating system refused
  no_space,       ///< no room on a device, or a quota is used up
  unsupported,    ///< this machine or build cannot do it
  io,             ///< any other refusal of the operating system
  internal,       ///< a bug of ours
};

/// The one exception type. The message is one line that says what was tried, on what, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Exit codes, the same for every command and every scenario executable.
enum class Exit : int {
  success = 0,       ///< pass, reproduced
  failure = 1,       ///< regression, not reproduced
  inconclusive = 2,  ///< the evidence does not decide
  invalid = 3,       ///< the evidence cannot be used: fault not observed, control not clean, data missing
  leak = 4,          ///< something that we put on the machine was left behind
  usage = 64,        ///< the command line or a given file is wrong
  internal = 70,     ///< our own error
  skipped = 77,      ///< a capability is missing (ctest's SKIP_RETURN_CODE)
};

/// The exit code for an Error that reached main: usage, invalid_input and not_found are the caller's (64), the rest ours (70).
Exit exit_for(ErrorCode code) noexcept;

/// An Error for a failed system call: "<action> '<subject>': <strerror>", with the code that fits errno_value.
Error system_error(std::string_view action, std::string_view subject, int errno_value);

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace misfire

/// A condition that only a bug of ours can break. On in every build.
#define MISFIRE_ASSERT(expression) \
  ((expression) ? static_cast<void>(0) : ::misfire::assertion_failed(#expression, __FILE__, __LINE__))
