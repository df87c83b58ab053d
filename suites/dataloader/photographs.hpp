#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/json.hpp"
#include "harness/seed.hpp"

namespace misfire::dataloader {

/// Images to have, by class: 500 x 375, 1024 x 768 and (for heavy tails) 3000 x 2000, baseline JPEG, quality 92, 4:2:0.
struct PhotographSpec {
  int small = 96;
  int medium = 24;
  int large = 4;
  /// "auto": photographs of the installed packages, else synthetic ones; "photographs": refuse to do without; "synthetic".
  std::string origin = "auto";
  /// Where photographs are looked for, with all below: by default, where the packages put them.
  std::string photographs = "/usr/share/backgrounds";
};

/// A directory of images that is complete and fits its specification.
struct DataSet {
  std::string directory;
  std::string origin;                             ///< "photographs" or "synthetic"
  std::vector<std::string> small, medium, large;  ///< absolute paths, in order
  std::uint64_t bytes = 0;
  bool reused = false;  ///< it was there already
  Json manifest;        ///< manifest.json: specification, seed, source files, a hash per image
};

/// Makes the images once, from photographs that Debian packages ship (lomiri-wallpapers, mate-backgrounds), cut at random and
/// encoded again; where these are missing, synthetic images of like bytes per pixel and decode cost. A directory whose
/// manifest fits specification and seed is used as it is; one that does not fit is replaced. Safe when several processes
/// ask at once: the work is done under a lock, in a directory beside, and renamed into place.
/// @param progress called from this thread with what is being done and the share done so far, 0 to 1; may be empty
/// @throws Error{permission, no_space, io}; Error{unsupported} for origin "photographs" without the packages
DataSet prepare_photographs(const std::string& directory, const PhotographSpec& spec, Seed seed,
                            const std::function<void(std::string_view, double)>& progress = {});

}  // namespace misfire::dataloader
