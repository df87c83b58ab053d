#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/failure.hpp"

namespace misfire::cli {

/// A failure whose texts resemble what was looked for.
struct Match {
  std::size_t index = 0;     ///< into the failures given
  double score = 0;          ///< 0 to 1
  std::string because = {};  ///< the text of the failure that matched best
};

/// Finds failures by symptom. The text may be a few words or a whole log: its lines are looked at one by one, and what differs
/// from one occurrence to the next (numbers, addresses) does not count. A line matches when it has most of the weight of one of a
/// failure's search terms, or when most of its own weight is found in the failure's texts; words weigh the more the fewer
/// failures have them.
/// @return best first; empty when nothing resembles it
/// @source weights: inverse document frequency, Sparck Jones (1972)
std::vector<Match> search(std::span<const Failure> failures, std::string_view text);

}  // namespace misfire::cli
