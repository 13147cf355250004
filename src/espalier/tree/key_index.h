// Finds keys among those of a dict under construction in constant time.
#ifndef ESPALIER_TREE_KEY_INDEX_H_
#define ESPALIER_TREE_KEY_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "espalier/key_path.h"

namespace espalier {

/// A hash table of the positions of keys, which it does not hold. Of equal keys, the first counts.
class KeyIndex {
 public:
  /// Fewer keys than this are as quickly compared one by one.
  static constexpr std::size_t kLeast = 16;

  /// The number of keys that it knows.
  std::size_t size() const { return size_; }
  /// Takes in the keys from number size() on; those before are the ones that it knows.
  void extend(std::span<const Key> keys);
  /// The position of a key among those that it knows.
  std::optional<std::size_t> find(std::span<const Key> keys, KeyView key) const;

 private:
  static constexpr std::uint32_t kFree = ~std::uint32_t{0};

  /// The slot of a key: that of its position, or the free one where it belongs.
  std::size_t slot_of(std::span<const Key> keys, KeyView key) const;

  std::vector<std::uint32_t> slots_;  // at most half full, a power of two
  std::size_t size_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_TREE_KEY_INDEX_H_
