#pragma once

#include "harness/error.hpp"
#include "harness/process.hpp"
#include "tests/check.hpp"

namespace misfire {

/// For tests that start their own program again. Under an emulator of another architecture the kernel cannot.
inline void skip_unless_this_program_starts() {
  try {
    run_process({.argv = {self_executable(), "--list"}});
  } catch (const Error& error) {
    SKIP(std::string("this program cannot start itself: ") + error.what());
  }
}

}  // namespace misfire
