#include "suites/dataloader/photographs.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "harness/error.hpp"
#include "harness/files.hpp"
#include "harness/text.hpp"
#include "suites/dataloader/jpeg.hpp"
#include "suites/dataloader/resize.hpp"
#include "suites/dataloader/synthetic.hpp"

namespace misfire::dataloader {
namespace {

namespace fs = std::filesystem;

constexpr int manifest_schema = 1;
constexpr int quality = 92;
constexpr int sources_max = 20;  // photographs opened: the cheapest to decode
constexpr std::uint64_t source_bytes_max = 5'000'000;
constexpr int working_width = 1600;  // of a photograph while small and medium images are cut from it

struct ImageClass {
  std::string_view name;
  int width, height;
  double area_min;  // share of the largest box of this ratio that a cut takes
  // Bytes per pixel of the photographs' cuts, measured over those of Debian 12's packages: what synthetic images aim at.
  double bytes_per_pixel, spread;  // mean, and sd of the logarithm
};
constexpr ImageClass classes[] = {
    {"small", 500, 375, 0.3, 0.181, 0.49}, {"medium", 1024, 768, 0.6, 0.142, 0.48}, {"large", 3000, 2000, 0.8, 0.102, 0.6}};
constexpr std::size_t large_sources = 4;  // however many images, so that their mean size does not depend on their number

struct Photograph {
  std::string path;
  std::uint64_t bytes = 0;
  JpegHeader header;
  std::uint64_t pixels() const { return static_cast<std::uint64_t>(header.width) * static_cast<std::uint64_t>(header.height); }
  // Progressive files have to be gone through several times.
  std::uint64_t cost() const { return pixels() * (header.progressive ? 4 : 1); }
};

std::string hash(std::string_view bytes) {  // FNV-1a, 64 bits
  std::uint64_t value = 14695981039346656037ULL;
  for (const char byte : bytes) value = (value ^ static_cast<std::uint8_t>(byte)) * 1099511628211ULL;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::span<const std::uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

bool is_jpeg_name(const fs::path& path) {
  const std::string extension = to_lower(path.extension().string());
  return extension == ".jpg" || extension == ".jpeg";
}

/// Photographs under a directory, by path. Drawings, tiny images and very large files are left out.
std::vector<Photograph> find_photographs(const std::string& directory) {
  std::vector<Photograph> found;
  JpegDecoder decoder;
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(directory, fs::directory_options::skip_permission_denied, ignored), end;
       entry != end; entry.increment(ignored)) {
    if (ignored) break;
    const std::string folder = entry->path().parent_path().filename().string();
    if (folder == "abstract" || folder == "desktop") continue;  // MATE's drawings
    if (!is_jpeg_name(entry->path()) || !entry->is_regular_file(ignored) || entry->is_symlink(ignored)) continue;
    Photograph photograph{.path = entry->path().string(), .bytes = entry->file_size(ignored), .header = {}};
    if (ignored || photograph.bytes > source_bytes_max) continue;
    std::string content;
    try {
      content = read_whole_file(photograph.path);
    } catch (const Error&) {
      continue;
    }
    if (!decoder.read_header(as_bytes(content), photograph.header) || photograph.header.components != 3) continue;
    if (photograph.header.width < 1200 || photograph.header.height < 900) continue;
    if (static_cast<double>(photograph.bytes) < 0.03 * static_cast<double>(photograph.pixels())) continue;  // flat colour
    found.push_back(std::move(photograph));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return found;
}

/// The cheapest `count` to decode, by path.
std::vector<Photograph> cheapest(std::vector<Photograph> photographs, std::size_t count) {
  std::stable_sort(photographs.begin(), photographs.end(), [](const auto& a, const auto& b) { return a.cost() < b.cost(); });
  if (photographs.size() > count) photographs.resize(count);
  std::sort(photographs.begin(), photographs.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return photographs;
}

/// A random box with the ratio of the class, of at least its share of the largest such box.
CropBox cut(Stream& stream, int width, int height, const ImageClass& kind) {
  const double ratio = static_cast<double>(kind.width) / kind.height;
  const double fit = std::min<double>(width, height * ratio);
  const double side = fit * std::sqrt(kind.area_min + (1 - kind.area_min) * stream.uniform());
  CropBox box;
  box.width = std::clamp(static_cast<int>(side), 1, width);
  box.height = std::clamp(static_cast<int>(side / ratio), 1, height);
  box.x = static_cast<int>(stream.below(static_cast<std::uint64_t>(width - box.width + 1)));
  box.y = static_cast<int>(stream.below(static_cast<std::uint64_t>(height - box.height + 1)));
  return box;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Writes the images of one data set into a directory, and its manifest last.
class Production {
 public:
  Production(std::string directory, const PhotographSpec& spec, Seed seed,
             const std::function<void(std::string_view, double)>& progress)
      : directory_(std::move(directory)),
        counts_{spec.small, spec.medium, spec.large},
        stream_(seed.stream("photographs")),
        progress_(progress) {
    for (int c = 0; c < 3; ++c) {
      total_ += counts_[c];
      images_[c].resize(static_cast<std::size_t>(counts_[c]));
      make_directories(directory_ + "/" + std::string(classes[c].name));
    }
  }

  void from_photographs(const std::vector<Photograph>& all) {
    const std::vector<Photograph> chosen = cheapest(all, sources_max);
    for (std::size_t s = 0; s < chosen.size(); ++s) cut_small_and_medium(chosen[s], s, chosen.size());
    std::vector<Photograph> big;
    for (const Photograph& photograph : all) {
      if (photograph.header.width >= classes[2].width && photograph.header.height >= classes[2].height) big.push_back(photograph);
    }
    // Where none is large enough, the largest there are stand in, enlarged.
    if (big.empty()) big = all;
    big = cheapest(big, large_sources);
    for (int i = 0; i < counts_[2]; ++i) cut_large(big[static_cast<std::size_t>(i) % big.size()], i);
  }

  void synthetic() {
    for (int c = 0; c < 3; ++c) {
      const ImageClass& kind = classes[c];
      // Sizes at even steps of a log-normal distribution, in shuffled order, scaled so that their mean is the class's.
      std::vector<double> sizes(static_cast<std::size_t>(counts_[c]));
      double sum = 0;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(sizes.size());
        sizes[i] = std::exp(kind.spread * (std::log(p / (1 - p)) / 1.702));  // the logistic curve stands in for the normal one
        sum += sizes[i];
      }
      Stream order = stream_.substream(kind.name).substream("order");
      for (std::size_t i = sizes.size(); i > 1; --i) std::swap(sizes[i - 1], sizes[order.below(i)]);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const double wanted = sizes[i] / sum * static_cast<double>(sizes.size()) * kind.bytes_per_pixel;
        make_synthetic_jpeg(stream_.substream(kind.name).substream(i),
                            {.width = kind.width, .height = kind.height, .bytes_per_pixel = wanted, .quality = quality}, jpeg_);
        store(c, static_cast<int>(i), Json::object({{"bytes_per_pixel_wanted", wanted}}));
      }
    }
  }

  void finish(Json manifest) {
    Json images = Json::array();
    for (const auto& of_class : images_) {
      for (const Json& image : of_class) images.push_back(image);
    }
    manifest.set("bytes", bytes_);
    manifest.set("sources", sources_);
    manifest.set("images", std::move(images));
    write(directory_ + "/manifest.json", manifest.dump(1) + "\n");
  }

 private:
  std::string load(const Photograph& photograph) {
    std::string content = read_whole_file(photograph.path);
    for (const Json& known : sources_.as_array()) {
      if (known.at("path").as_string() == photograph.path) return content;
    }
    sources_.push_back(Json::object({{"path", photograph.path},
                                     {"bytes", photograph.bytes},
                                     {"fnv1a64", hash(content)},
                                     {"width", photograph.header.width},
                                     {"height", photograph.header.height}}));
    return content;
  }

  // Decodes the photograph once, and cuts every images_[class][i] with i % sources == source out of it.
  void cut_small_and_medium(const Photograph& photograph, std::size_t source, std::size_t sources) {
    if (source >= static_cast<std::size_t>(std::max(counts_[0], counts_[1]))) return;
    const std::string content = load(photograph);
    const int width = std::min(working_width, photograph.header.width);
    const int height = static_cast<int>(static_cast<std::int64_t>(photograph.header.height) * width / photograph.header.width);
    const auto pixels = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
    rgb_.resize(pixels * 3);
    const DecodeResult result = decoder_.decode_crop(as_bytes(content), {0, 0, photograph.header.width, photograph.header.height},
                                                     width, height, false, rgb_);
    if (!result) throw Error(ErrorCode::invalid_input, "photograph '" + photograph.path + "': " + result.message);
    rgbx_.resize(pixels * 4);
    for (std::size_t i = 0; i < pixels; ++i) std::copy_n(rgb_.data() + i * 3, 3, rgbx_.data() + i * 4);
    for (int c = 0; c < 2; ++c) {
      for (int i = static_cast<int>(source); i < counts_[c]; i += static_cast<int>(sources)) {
        Stream stream = stream_.substream(classes[c].name).substream(static_cast<std::uint64_t>(i));
        const CropBox box = cut(stream, width, height, classes[c]);
        out_.resize(static_cast<std::size_t>(classes[c].width) * static_cast<std::size_t>(classes[c].height) * 3);
        resizer_.plan(
            {.begin = 0, .extent = static_cast<double>(box.width), .first = 0, .last = box.width, .out = classes[c].width},
            {.begin = 0, .extent = static_cast<double>(box.height), .first = 0, .last = box.height, .out = classes[c].height});
        const auto stride = static_cast<std::size_t>(width) * 4;
        resizer_.run(rgbx_.data() + static_cast<std::size_t>(box.y) * stride + static_cast<std::size_t>(box.x) * 4, stride,
                     out_.data());
        encode_jpeg(out_, classes[c].width, classes[c].height, quality, jpeg_);
        store(c, i, Json::object({{"source", photograph.path}}));
      }
    }
  }

  void cut_large(const Photograph& photograph, int index) {
    const ImageClass& kind = classes[2];
    const std::string content = load(photograph);
    Stream stream = stream_.substream(kind.name).substream(static_cast<std::uint64_t>(index));
    const CropBox box = cut(stream, photograph.header.width, photograph.header.height, kind);
    out_.resize(static_cast<std::size_t>(kind.width) * static_cast<std::size_t>(kind.height) * 3);
    const DecodeResult result = decoder_.decode_crop(as_bytes(content), box, kind.width, kind.height, false, out_);
    if (!result) throw Error(ErrorCode::invalid_input, "photograph '" + photograph.path + "': " + result.message);
    encode_jpeg(out_, kind.width, kind.height, quality, jpeg_);
    store(2, index, Json::object({{"source", photograph.path}}));
  }

  void store(int c, int index, Json image) {
    char name[64];
    std::snprintf(name, sizeof name, "%s/%05d.jpg", classes[c].name.data(), index);
    const std::string_view content(reinterpret_cast<const char*>(jpeg_.data()), jpeg_.size());
    write(directory_ + "/" + name, content);
    image.set("file", std::string(name));
    image.set("bytes", jpeg_.size());
    image.set("fnv1a64", hash(content));
    images_[c][static_cast<std::size_t>(index)] = std::move(image);
    bytes_ += jpeg_.size();
    ++done_;
    if (progress_) progress_("making images", static_cast<double>(done_) / total_);
  }

  static void write(const std::string& path, std::string_view content) {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) throw system_error("create", path, errno);
    while (!content.empty()) {
      const ssize_t written = ::write(file.get(), content.data(), content.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw system_error("write", path, errno);
      content.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  std::string directory_;
  int counts_[3];
  Stream stream_;
  const std::function<void(std::string_view, double)>& progress_;
  int total_ = 0, done_ = 0;
  std::uint64_t bytes_ = 0;
  Json sources_ = Json::array();
  std::vector<Json> images_[3];
  JpegDecoder decoder_;
  Resizer resizer_;
  std::vector<std::uint8_t> rgb_, rgbx_, out_, jpeg_;
};

Json wanted_manifest(const PhotographSpec& spec, Seed seed, std::string_view origin) {
  Json kinds = Json::array();
  const int counts[3] = {spec.small, spec.medium, spec.large};
  for (int c = 0; c < 3; ++c) {
    kinds.push_back(Json::object(
        {{"name", classes[c].name}, {"count", counts[c]}, {"width", classes[c].width}, {"height", classes[c].height}}));
  }
  return Json::object({{"schema", manifest_schema},
                       {"origin", origin},
                       {"seed", seed.value()},
                       {"quality", quality},
                       {"classes", std::move(kinds)}});
}

/// The data set in `directory`, when it is there, fits and is complete.
std::optional<DataSet> existing(const std::string& directory, const Json& wanted) {
  DataSet set;
  set.directory = directory;
  try {
    set.manifest = Json::read_file(directory + "/manifest.json");
    for (const auto& [key, value] : wanted.as_object()) {
      const Json* found = set.manifest.find(key);
      if (!found || !(*found == value)) return std::nullopt;
    }
    set.origin = set.manifest.at("origin").as_string();
    set.bytes = set.manifest.at("bytes").as_uint();
    for (const Json& image : set.manifest.at("images").as_array()) {
      const std::string& file = image.at("file").as_string();
      const std::string path = directory + "/" + file;
      struct stat status;
      if (::stat(path.c_str(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) != image.at("bytes").as_uint())
        return std::nullopt;
      (file.starts_with("small/") ? set.small : file.starts_with("medium/") ? set.medium : set.large).push_back(path);
    }
  } catch (const Error&) {  // not there, or not ours: made anew
    return std::nullopt;
  }
  set.reused = true;
  return set;
}

}  // namespace

DataSet prepare_photographs(const std::string& directory_given, const PhotographSpec& spec, Seed seed,
                            const std::function<void(std::string_view, double)>& progress) {
  if (spec.small < 0 || spec.medium < 0 || spec.large < 0 || spec.small + spec.medium + spec.large < 1) {
    throw Error(ErrorCode::invalid_input, "images to make: counts must not be negative, and at least one image is needed");
  }
  if (spec.origin != "auto" && spec.origin != "photographs" && spec.origin != "synthetic") {
    throw Error(ErrorCode::invalid_input, "origin of images: '" + spec.origin + "' is none of auto, photographs, synthetic");
  }
  fs::path absolute = fs::absolute(directory_given).lexically_normal();
  if (!absolute.has_filename()) absolute = absolute.parent_path();
  const std::string directory = absolute.string();

  if (spec.origin != "synthetic") {  // without a look at the photographs, which takes longer
    if (auto set = existing(directory, wanted_manifest(spec, seed, "photographs"))) return *std::move(set);
  }
  std::vector<Photograph> photographs;
  if (spec.origin != "synthetic") photographs = find_photographs(spec.photographs);
  if (spec.origin == "photographs" && photographs.empty()) {
    throw Error(ErrorCode::unsupported,
                "no photographs under '" + spec.photographs + "': install lomiri-wallpapers or mate-backgrounds");
  }
  const Json wanted = wanted_manifest(spec, seed, photographs.empty() ? "synthetic" : "photographs");
  if (auto set = existing(directory, wanted)) return *std::move(set);

  make_directories(absolute.parent_path().string());
  const std::string lock_path = directory + ".lock";
  const Descriptor lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.get() < 0) throw system_error("create lock", lock_path, errno);
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) throw system_error("lock", lock_path, errno);
  }
  if (auto set = existing(directory, wanted)) return *std::move(set);  // another process made it meanwhile

  // Only what Misfire made is ever replaced.
  std::error_code failed;
  if (fs::exists(directory, failed) && !fs::is_empty(directory, failed) && !fs::exists(directory + "/manifest.json", failed)) {
    throw Error(ErrorCode::invalid_input, "make images in '" + directory +
                                              "': it holds something else; name an empty directory or one that does not exist");
  }
  const std::string partial = directory + ".partial", old = directory + ".old";
  fs::remove_all(partial, failed);  // left behind by a process that was ended
  fs::remove_all(old, failed);
  try {
    Production production(partial, spec, seed, progress);
    if (photographs.empty()) {
      production.synthetic();
    } else {
      production.from_photographs(photographs);
    }
    production.finish(wanted);
    if (::rename(directory.c_str(), old.c_str()) != 0 && errno != ENOENT) throw system_error("move aside", directory, errno);
    if (::rename(partial.c_str(), directory.c_str()) != 0) throw system_error("move into place", directory, errno);
  } catch (...) {
    fs::remove_all(partial, failed);
    throw;
  }
  fs::remove_all(old, failed);
  auto set = existing(directory, wanted);
  if (!set) throw Error(ErrorCode::internal, "images just made in '" + directory + "' do not fit their own manifest");
  set->reused = false;
  return *std::move(set);
}

}  // namespace misfire::dataloader
