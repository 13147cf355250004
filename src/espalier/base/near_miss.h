// Finds what the user may have meant by a misspelt word.
#ifndef ESPALIER_BASE_NEAR_MISS_H_
#define ESPALIER_BASE_NEAR_MISS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

/// The best of several candidates for a misspelt word. A candidate is similar if few letters differ
/// (inserted, left out, replaced or swapped; A to Z count as a to z): one in words of 2 to 5
/// letters, and one more for each 3. Less similar is a candidate that begins with the word.
class NearMiss {
 public:
  explicit NearMiss(std::string_view word);

  /// Considers one more candidate; true if it is the best so far. Of equals, the first wins. Takes
  /// time proportional to the product of both lengths, and none for candidates of very different
  /// length.
  bool offer(std::string_view candidate);

  /// The work done so far: compared pairs of letters.
  std::uint64_t work() const { return work_; }

 private:
  std::size_t distance(std::string_view candidate);

  std::string word_;  // in lower case
  std::size_t limit_;
  std::size_t best_;
  std::uint64_t work_ = 0;
  std::vector<std::size_t> rows_[3];  // scratch
};

/// The candidate that `word` was meant to be, if one is similar.
std::optional<std::string> near_miss(std::string_view word,
                                     const std::vector<std::string>& candidates);

/// "; did you mean 'TEXT'?", or nothing.
std::string did_you_mean(const std::optional<std::string>& text);

}  // namespace espalier

#endif  // ESPALIER_BASE_NEAR_MISS_H_
