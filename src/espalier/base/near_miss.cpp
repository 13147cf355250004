#include "espalier/base/near_miss.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace espalier {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

std::size_t limit_of(std::size_t letters) {
  return letters < 2 ? 0 : std::max<std::size_t>(1, letters / 3);
}

}  // namespace

NearMiss::NearMiss(std::string_view word)
    : word_(in_lower_case(word)), limit_(limit_of(word.size())), best_(limit_ + 2) {}

bool NearMiss::offer(std::string_view candidate) {
  std::size_t found = distance(candidate);
  if (found > limit_) {
    const bool is_begun = word_.size() >= 2 && candidate.size() > word_.size() &&
                          in_lower_case(candidate.substr(0, word_.size())) == word_;
    if (!is_begun) return false;
    found = limit_ + 1;
  }
  if (found >= best_) return false;
  best_ = found;
  return true;
}

// The "optimal string alignment" distance by its three latest rows, or more than the limit.
std::size_t NearMiss::distance(std::string_view candidate) {
  const std::size_t width = word_.size();
  if (std::max(width, candidate.size()) - std::min(width, candidate.size()) > limit_) {
    return limit_ + 1;
  }
  work_ += (width + 1) * (candidate.size() + 1);
  auto& [row, above, above_that] = rows_;
  for (auto& r : rows_) r.resize(width + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  char previous = '\0';
  for (std::size_t i = 1; i <= candidate.size(); ++i) {
    std::swap(above_that, above);
    std::swap(above, row);
    const char letter = lower(candidate[i - 1]);
    row[0] = i;
    for (std::size_t j = 1; j <= width; ++j) {
      const std::size_t replaced = above[j - 1] + (letter == word_[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && letter == word_[j - 2] && previous == word_[j - 1]) {
        row[j] = std::min(row[j], above_that[j - 2] + 1);
      }
    }
    previous = letter;
  }
  return row[width];
}

std::optional<std::string> near_miss(std::string_view word,
                                     const std::vector<std::string>& candidates) {
  NearMiss search(word);
  std::optional<std::string> best;
  for (const std::string& candidate : candidates) {
    if (search.offer(candidate)) best = candidate;
  }
  return best;
}

std::string did_you_mean(const std::optional<std::string>& text) {
  return text ? "; did you mean '" + *text + "'?" : "";
}

}  // namespace espalier
