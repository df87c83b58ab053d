#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace misfire::test {

/// Builds tar archives byte by byte, sound ones and others.
struct Tar {
  std::string bytes;

  /// A header with a right check sum. `change` may spoil it before the sum is taken.
  template <class Change>
  Tar& header(const std::string& name, std::uint64_t size, char type, Change change) {
    std::string block(512, '\0');
    name.copy(block.data(), 100);
    std::snprintf(block.data() + 100, 8, "%07o", 0644);
    std::snprintf(block.data() + 108, 8, "%07o", 0);
    std::snprintf(block.data() + 116, 8, "%07o", 0);
    std::snprintf(block.data() + 124, 12, "%011llo", static_cast<unsigned long long>(size));
    std::snprintf(block.data() + 136, 12, "%011o", 0);
    block[156] = type;
    std::memcpy(block.data() + 257, "ustar\00000", 8);
    change(block);
    std::memset(block.data() + 148, ' ', 8);
    unsigned sum = 0;
    for (const char byte : block) sum += static_cast<unsigned char>(byte);
    std::snprintf(block.data() + 148, 8, "%06o", sum);
    bytes += block;
    return *this;
  }
  Tar& header(const std::string& name, std::uint64_t size, char type = '0') {
    return header(name, size, type, [](std::string&) {});
  }
  Tar& data(const std::string& content) {
    bytes += content;
    bytes.append((512 - content.size() % 512) % 512, '\0');
    return *this;
  }
  Tar& file(const std::string& name, const std::string& content) { return header(name, content.size()).data(content); }
  Tar& end() {
    bytes.append(1024, '\0');
    return *this;
  }
};

}  // namespace misfire::test
