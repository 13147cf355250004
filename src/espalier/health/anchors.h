// Places of a tensor that its content chooses, so that bytes which stand twice have the same.
#ifndef ESPALIER_HEALTH_ANCHORS_H_
#define ESPALIER_HEALTH_ANCHORS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/bytes.h"

namespace espalier {

struct Anchor {
  /// Of the eight elements that begin there.
  std::uint64_t hash = 0;
  std::uint64_t at = 0;
};

/// Takes elements in order and finds their anchors: where a hash of eight successive elements is 0
/// modulo 64, or modulo 1,024 in a tensor of more than 2^20 elements, as in content-defined
/// chunking (Muthitacharoen et al., SOSP 2001). None where elements are equal. Not thread-safe.
class AnchorFinder {
 public:
  /// `width` is the size of an element in bytes: 2, 4 or 8. `elements` is how many come.
  AnchorFinder(std::size_t width, std::uint64_t elements);

  /// Adds whole elements, at most kMostAtOnce.
  void add(ByteSpan packed);
  const std::vector<Anchor>& anchors() const { return anchors_; }
  std::vector<Anchor> take() { return std::move(anchors_); }

  static constexpr std::size_t kMostAtOnce = 4096;

 private:
  static constexpr std::size_t kWindow = 8;

  template <class Bits>
  void fold(ByteSpan packed);

  std::size_t width_;
  unsigned shift_;              // leaves the bits of a hash that must be 0
  std::uint64_t elements_ = 0;  // before those in `folded_`
  std::size_t kept_ = 0;        // elements in front, of the last call
  std::vector<std::uint32_t> folded_;
  std::vector<std::uint32_t> mixed_;
  std::vector<Anchor> anchors_;
};

}  // namespace espalier

#endif  // ESPALIER_HEALTH_ANCHORS_H_
