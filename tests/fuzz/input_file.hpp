#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

namespace misfire::fuzz {

/// A file that holds what the fuzzer made, for readers that take a path. One a process, in memory where /dev/shm is.
inline std::string input_file(const std::uint8_t* data, std::size_t size, const char* extension) {
  static const std::string folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  static const struct File {
    std::string path;
    ~File() { unlink(path.c_str()); }
  } file{folder + "/misfire-fuzz-" + std::to_string(getpid()) + extension};
  std::ofstream(file.path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  return file.path;
}

}  // namespace misfire::fuzz
