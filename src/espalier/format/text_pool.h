// Texts as numbers: the string pool of docs/format.md section 3 in the making.
#ifndef ESPALIER_FORMAT_TEXT_POOL_H_
#define ESPALIER_FORMAT_TEXT_POOL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "espalier/detail/catalog.h"
#include "espalier/format/owned_tables.h"

namespace espalier {

/// Numbers texts in order of arrival, and sorts them in the end. Every text must stay where it is
/// until finish(), and have fewer than 2^32 bytes.
class TextPool {
 public:
  /// Makes room for as many texts more.
  void reserve_more(std::size_t texts) {
    const std::size_t needed = texts_.size() + texts;
    // Growth by a factor keeps the copying linear.
    if (needed > texts_.capacity()) texts_.reserve(std::max(needed, texts_.size() * 3 / 2));
  }

  /// The provisional number of `text`. Most texts that come again get the same number.
  std::uint32_t add(std::string_view text);

  /// The same for a text that has most likely not come before: add() without the search.
  std::uint32_t add_new(std::string_view text) {
    const auto number = static_cast<std::uint32_t>(texts_.size());
    texts_.push_back({text.data(), static_cast<std::uint32_t>(text.size()), number});
    return number;
  }

  /// Writes the sorted pool, each text once. Do not add texts afterwards.
  void finish(OwnedTables& tables);

  /// The number in the sorted pool of a text with a provisional number.
  std::uint32_t final_number(std::uint32_t provisional) const { return final_[provisional]; }

 private:
  // Smaller than a std::string_view and a number: there may be millions.
  struct Text {
    const char* data;
    std::uint32_t size;
    std::uint32_t number;

    std::string_view view() const { return {data, size}; }
  };

  std::uint32_t* find_slot(std::string_view text);
  void grow();

  std::vector<Text> texts_;  // by number, until they are sorted
  // A hash table of text numbers with linear probing: names may be as many as tensors, and a node
  // of a std::unordered_set for each takes ten times the memory.
  std::vector<std::uint32_t> slots_;
  std::size_t used_slots_ = 0;
  std::vector<std::uint32_t> final_;
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_TEXT_POOL_H_
