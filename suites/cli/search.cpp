#include "suites/cli/search.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/text.hpp"

namespace misfire::cli {
namespace {

constexpr double least_score = 0.5;
constexpr double least_share_of_best = 0.6;
constexpr double full_phrase = 3.0;  // weight from which a search term identifies by itself

using Words = std::set<std::string>;

/// A word without its ending, so that "grows", "growing" and "growth" are one.
std::string stem(std::string word) {
  for (const std::string_view ending : {"ing", "th", "ed", "es", "s"})
    if (word.ends_with(ending) && word.size() >= ending.size() + 4) {
      word.resize(word.size() - ending.size());
      break;
    }
  if (word.ends_with('e') && word.size() >= 5) word.pop_back();
  return word;
}

/// Words in small letters, without endings; long numbers and hexadecimal addresses are what differs from one occurrence to the
/// next.
Words words_of(std::string_view text) {
  static const Words silent = {"a",  "an", "and", "as", "at",  "be", "by",   "for",  "from", "if",   "in",  "is",  "it",
                               "of", "on", "or",  "so", "the", "to", "than", "that", "this", "with", "was", "not", "will"};
  Words words;
  std::string word;
  const auto finish = [&] {
    const bool number = std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!word.empty() && !silent.contains(word) && !(number && word.size() > 2) && !word.starts_with("0x"))
      words.insert(stem(word));
    word.clear();
  };
  for (const char c : text) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_') {
      word += c;
    } else if (c >= 'A' && c <= 'Z') {
      word += static_cast<char>(c - 'A' + 'a');
    } else if (c != '\'') {  // "dataloader's" is one word, with or without the apostrophe
      finish();
    }
  }
  finish();
  return words;
}

/// One text of a failure: how much it says about the failure when it matches.
struct Passage {
  const std::string* text;
  Words words;
  double trust;
  bool phrase;  ///< a search term: it may be found in the line, not only the line in it
};

std::vector<Passage> passages_of(const Failure& failure) {
  std::vector<Passage> passages;
  const auto add = [&](const std::string& text, double trust, bool phrase) {
    passages.push_back({&text, words_of(text), trust, phrase});
  };
  for (const std::string& term : failure.search_for) add(term, 1, true);
  add(failure.name, 1, true);
  add(failure.summary, 1, false);
  add(failure.cause, 0.8, false);
  add(failure.remedy, 0.6, false);
  add(failure.action, 0.6, false);
  add(failure.said, 0.6, false);
  return passages;
}

class Weights {
 public:
  explicit Weights(const std::vector<std::vector<Passage>>& documents) : count_(static_cast<double>(documents.size())) {
    for (const auto& passages : documents) {
      Words all;
      for (const Passage& passage : passages) all.insert(passage.words.begin(), passage.words.end());
      for (const std::string& word : all) ++in_[word];
    }
  }
  /// A word of every failure weighs next to nothing, one of a single failure much; one that no failure knows speaks against all.
  double of(const std::string& word) const {
    const auto found = in_.find(word);
    return std::log((count_ + 1) / ((found == in_.end() ? 0.45 : found->second) + 0.25));
  }
  double of(const Words& words) const {
    double sum = 0;
    for (const std::string& word : words) sum += of(word);
    return sum;
  }

 private:
  double count_;
  std::map<std::string, double> in_;
};

Words common(const Words& a, const Words& b) {
  Words both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
  return both;
}

}  // namespace

std::vector<Match> search(std::span<const Failure> failures, std::string_view text) {
  std::vector<std::vector<Passage>> documents;
  for (const Failure& failure : failures) documents.push_back(passages_of(failure));
  const Weights weights(documents);

  std::vector<Match> matches(failures.size());
  for (std::size_t i = 0; i < matches.size(); ++i) matches[i].index = i;
  for (const std::string& line : split(text, '\n')) {
    const Words words = words_of(line);
    const double line_weight = weights.of(words);
    if (line_weight <= 0) continue;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      double found = 0;  // of the line, anywhere in this failure
      Words left = words;
      double best = 0;
      const std::string* because = nullptr;
      const auto credit = [&](double score, const Passage& passage) {
        if (score > best) {
          best = score;
          because = passage.text;
        }
      };
      for (const Passage& passage : documents[i]) {
        const Words both = common(words, passage.words);
        if (both.empty()) continue;
        const double shared = weights.of(both);
        credit(passage.trust * shared / line_weight, passage);
        if (passage.phrase) {
          const double whole = weights.of(passage.words);
          if (whole > 0) credit(shared / whole * std::min(1.0, shared / full_phrase), passage);
        }
        for (const std::string& word : common(left, passage.words)) {
          found += passage.trust * weights.of(word);
          left.erase(word);
        }
      }
      if (because != nullptr) best = std::max(best, found / line_weight);
      if (best > matches[i].score) matches[i] = {i, best, *because};
    }
  }

  std::stable_sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) { return a.score > b.score; });
  const double least = matches.empty() ? 0 : std::max(least_score, least_share_of_best * matches.front().score);
  std::erase_if(matches, [&](const Match& match) { return match.score < least; });
  return matches;
}

}  // namespace misfire::cli
