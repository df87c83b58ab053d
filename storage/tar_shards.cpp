// Images as members of plain tar archives ("shards"), read where they lie.
//
// Reads ustar, pax and GNU archives: long names, sizes beyond 8 GiB, pax path and size records. Members other than regular
// image files are passed over. Not compressed archives, and not GNU sparse members (their data is not the file's content).
// The index is built by going from header to header, so it costs a read of 512 bytes a member.
// @source POSIX.1-2017, pax interchange format; GNU tar manual, "Basic Tar Format"
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "harness/error.hpp"
#include "harness/text.hpp"
#include "storage/file.hpp"

namespace misfire {
namespace {

constexpr std::uint64_t block_bytes = 512;
constexpr std::uint64_t extension_bytes_max = 1 << 20;  // of a long name or a set of pax records
using Block = std::array<std::uint8_t, block_bytes>;

struct Member {
  std::string name;
  std::uint32_t shard;
  std::uint64_t offset, size;
};

class Scan {
 public:
  Scan(const File& file, std::uint32_t shard, std::vector<Member>& members)
      : file_(file), size_(file.size()), shard_(shard), members_(members) {}

  void run() {
    Block block;
    bool empty_before = false;
    for (std::uint64_t offset = 0;;) {
      if (offset == size_) break;  // without the two empty blocks that should end it: accepted, as tar does
      header_ = offset;
      if (size_ - offset < block_bytes) fail("the file ends inside a header");
      if (file_.read_at(offset, block) != block_bytes) fail("the file became shorter while it was read");
      offset += block_bytes;
      if (std::all_of(block.begin(), block.end(), [](std::uint8_t byte) { return byte == 0; })) {
        if (empty_before) break;
        empty_before = true;
        continue;
      }
      if (empty_before) fail("a member after an empty block");
      check_sum(block);
      offset = one_member(block, offset);
    }
    if (long_name_ || pax_name_ || pax_size_) fail("the file ends after an extended header");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::invalid_input, "read tar '" + file_.path() + "' at offset " + std::to_string(header_) + ": " + what);
  }

  static std::string text(const Block& block, std::size_t begin, std::size_t size) {
    const auto* from = reinterpret_cast<const char*>(block.data() + begin);
    return std::string(from, ::strnlen(from, size));
  }

  // Octal digits, or GNU's base 256 when the top bit of the first byte is set.
  std::uint64_t number(const Block& block, std::size_t begin, std::size_t size, const char* what) const {
    if (block[begin] & 0x80) {
      if (block[begin] != 0x80) fail(std::string(what) + " is negative or too large");
      std::uint64_t value = 0;
      for (std::size_t i = begin + 1; i < begin + size; ++i) {
        if (value >> 56) fail(std::string(what) + " is too large");
        value = value << 8 | block[i];
      }
      return value;
    }
    std::size_t i = begin;
    const std::size_t end = begin + size;
    while (i < end && block[i] == ' ') ++i;
    std::uint64_t value = 0;
    for (; i < end && block[i] >= '0' && block[i] <= '7'; ++i) value = value << 3 | static_cast<std::uint64_t>(block[i] - '0');
    for (; i < end; ++i) {
      if (block[i] != ' ' && block[i] != 0) fail(std::string(what) + " is not an octal number: not a tar header");
    }
    return value;  // 12 octal digits fit
  }

  void check_sum(const Block& block) const {
    std::uint64_t unsigned_sum = 0;
    std::int64_t signed_sum = 0;  // as some old archivers did
    for (std::size_t i = 0; i < block_bytes; ++i) {
      const std::uint8_t byte = i >= 148 && i < 156 ? ' ' : block[i];
      unsigned_sum += byte;
      signed_sum += static_cast<std::int8_t>(byte);
    }
    const std::uint64_t stored = number(block, 148, 8, "the check sum");
    if (stored != unsigned_sum && static_cast<std::int64_t>(stored) != signed_sum)
      fail("wrong check sum: not a tar header, or damaged");
  }

  std::uint64_t one_member(const Block& block, std::uint64_t offset) {
    const char type = static_cast<char>(block[156]);
    const bool extension = type == 'L' || type == 'K' || type == 'x' || type == 'X' || type == 'g';
    std::uint64_t size = number(block, 124, 12, "the member's size");
    if (!extension && pax_size_) size = *pax_size_;
    // Links, devices and directories have no data, whatever their size says.
    if (type >= '1' && type <= '6') size = 0;
    if (size > size_ - offset) {
      fail("a member of " + std::to_string(size) + " bytes, but the file ends after " + std::to_string(size_ - offset));
    }
    const std::uint64_t padded = (size + block_bytes - 1) / block_bytes * block_bytes;
    const std::uint64_t next = padded > size_ - offset ? size_ : offset + padded;  // the last padding may be missing
    if (extension) {
      extended_header(type, offset, size);
      return next;
    }
    if (type == '0' || type == '\0' || type == '7') {
      std::string name = long_name_ ? *long_name_ : pax_name_ ? *pax_name_ : plain_name(block);
      if (is_image_name(name)) members_.push_back({std::move(name), shard_, offset, size});
    }
    long_name_.reset();
    pax_name_.reset();
    pax_size_.reset();
    return next;
  }

  static std::string plain_name(const Block& block) {
    const std::string name = text(block, 0, 100);
    if (std::memcmp(block.data() + 257, "ustar\0", 6) != 0) return name;  // GNU and old archives have no prefix
    const std::string prefix = text(block, 345, 155);
    return prefix.empty() ? name : prefix + "/" + name;
  }

  void extended_header(char type, std::uint64_t offset, std::uint64_t size) {
    if (type == 'g' || type == 'K') return;  // defaults for all members, and link targets: nothing that we use
    if (size > extension_bytes_max) fail("an extended header of " + std::to_string(size) + " bytes");
    std::vector<std::uint8_t> bytes(size);
    if (file_.read_at(offset, bytes) != size) fail("the file became shorter while it was read");
    const std::string content(bytes.begin(), bytes.end());
    if (type == 'L') {
      long_name_ = content.substr(0, content.find('\0'));
      return;
    }
    // Records "<length> <key>=<value>\n", where the length counts itself.
    for (std::size_t at = 0; at < content.size() && content[at] != '\0';) {
      std::size_t length = 0;
      const char* const begin = content.data() + at;
      const auto [space, error] = std::from_chars(begin, content.data() + content.size(), length);
      const auto digits = static_cast<std::size_t>(space - begin);
      if (error != std::errc() || length > content.size() - at || length < digits + 2 || *space != ' ' ||
          begin[length - 1] != '\n') {
        fail("a damaged pax record");
      }
      const std::string_view record(space + 1, length - digits - 2);
      const std::size_t equals = record.find('=');
      if (equals == std::string_view::npos) fail("a pax record without '='");
      const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
      if (key == "path") pax_name_ = std::string(value);
      if (key.starts_with("GNU.sparse.")) fail("a sparse member; archive the files without --sparse");
      if (key == "size") {
        std::uint64_t bytes_of_member = 0;
        const auto [end, bad] = std::from_chars(value.data(), value.data() + value.size(), bytes_of_member);
        if (bad != std::errc() || end != value.data() + value.size()) fail("a pax size that is no number");
        pax_size_ = bytes_of_member;
      }
      at += length;
    }
  }

  const File& file_;
  std::uint64_t size_;
  std::uint32_t shard_;
  std::vector<Member>& members_;
  std::uint64_t header_ = 0;
  std::optional<std::string> long_name_, pax_name_;
  std::optional<std::uint64_t> pax_size_;
};

class TarShards final : public SampleSource {
 public:
  explicit TarShards(const std::string& path) {
    for (const std::string& shard : find_shards(path)) {
      files_.emplace_back(shard);
      Scan(files_.back(), static_cast<std::uint32_t>(files_.size() - 1), members_).run();
    }
    if (members_.empty())
      throw Error(ErrorCode::invalid_input, "open data set '" + path + "': no *.jpg or *.jpeg in its tar files");
  }

  std::size_t size() const noexcept override { return members_.size(); }
  std::string name(std::size_t index) const override {
    const Member& member = members_.at(index);
    return files_[member.shard].path() + "/" + member.name;
  }
  Locality locality(std::size_t index) const override {
    const Member& member = members_.at(index);
    return {.shard = member.shard, .offset = member.offset, .size = member.size};
  }
  std::size_t shards() const noexcept override { return files_.size(); }

  std::span<const std::uint8_t> read(std::size_t index, std::vector<std::uint8_t>& buffer) const override {
    const Member& member = members_.at(index);
    if (member.size > sample_bytes_max) {
      throw Error(ErrorCode::invalid_input,
                  "read '" + name(index) + "': " + std::to_string(member.size) + " bytes, more than an image may have");
    }
    if (buffer.size() < member.size) buffer.resize(member.size);
    const std::size_t count = files_[member.shard].read_at(member.offset, {buffer.data(), member.size});
    if (count != member.size) {
      throw Error(ErrorCode::io, "read '" + name(index) + "' at offset " + std::to_string(member.offset) +
                                     ": the archive was cut short since it was opened");
    }
    return {buffer.data(), count};
  }

 private:
  static std::vector<std::string> find_shards(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code failed;
    if (!fs::is_directory(path, failed)) return {path};
    std::vector<std::string> shards;
    for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed)) {
      const std::string name = entry->path().string();
      if (to_lower(name).ends_with(".tar")) shards.push_back(name);
    }
    if (failed) throw system_error("open data set", path, failed.value());
    if (shards.empty()) throw Error(ErrorCode::invalid_input, "open data set '" + path + "': no *.tar in it");
    std::sort(shards.begin(), shards.end());
    return shards;
  }

  std::vector<File> files_;
  std::vector<Member> members_;
};

}  // namespace

std::unique_ptr<SampleSource> open_tar_shards(const std::string& path) { return std::make_unique<TarShards>(path); }

}  // namespace misfire
