#include "harness/text.hpp"

#include <algorithm>

namespace misfire {
namespace {

char folded(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '-' ? '_' : c;
}

// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last = last;
    last = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const char x = folded(a[i - 1]), y = folded(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (x == y ? 0 : 1)});
      if (i > 1 && j > 1 && x == folded(b[j - 2]) && y == folded(a[i - 2])) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// Columns on a terminal, taking every code point for one.
int columns(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t longest = 256;  // longer ones are no misspelt names, and the distance is quadratic
  if (word.size() > longest) return "";
  std::string_view best;
  std::size_t best_distance = 0;
  for (std::string_view candidate : candidates) {
    if (candidate.size() > longest) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance * 3 > std::max(word.size(), candidate.size())) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string_view found = nearest(word, candidates);
  return found.empty() ? "" : " (did you mean '" + std::string(found) + "'?)";
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (std::size_t start = 0;;) {
    const std::size_t end = text.find(separator, start);
    parts.emplace_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::string wrap(std::string_view text, int width, int indent) {
  const std::string margin(static_cast<std::size_t>(std::max(indent, 0)), ' ');
  std::string result;
  for (const std::string& paragraph : split(text, '\n')) {
    std::string line;
    const auto finish = [&] {
      if (!result.empty()) result += '\n';
      if (!line.empty()) result += margin + line;
      line.clear();
    };
    for (const std::string& word : split(paragraph, ' ')) {
      if (word.empty()) continue;
      if (!line.empty() && indent + columns(line) + 1 + columns(word) > width) finish();
      if (!line.empty()) line += ' ';
      line += word;
    }
    finish();
  }
  return result;
}

std::string shell_quote(std::string_view word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:=,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string quoted = "'";
  for (char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string shell_quote(std::span<const std::string> words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_quote(std::string_view(word));
  }
  return line;
}

}  // namespace misfire
