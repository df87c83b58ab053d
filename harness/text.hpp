#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace misfire {

/// The candidate nearest to `word` by edit distance (case ignored, '-' and '_' equal), or "" when none is near enough
/// to be a plausible misspelling (distance above a third of the longer word).
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

/// " (did you mean 'x'?)" or "": the tail of a complaint about an unknown name.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string to_lower(std::string_view text);

/// Breaks text at spaces into lines of at most `width` columns, each prefixed by `indent` spaces.
std::string wrap(std::string_view text, int width, int indent);

/// A word or command line quoted so that a POSIX shell reads it back unchanged.
std::string shell_quote(std::string_view word);
std::string shell_quote(std::span<const std::string> words);

}  // namespace misfire
