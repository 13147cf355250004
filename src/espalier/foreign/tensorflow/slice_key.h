// The keys of parts of tensors, in TensorFlow's ordered code: it sorts as the numbers in it do.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_SLICE_KEY_H_
#define ESPALIER_FOREIGN_TENSORFLOW_SLICE_KEY_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

/// A part of an axis.
struct SliceExtent {
  static constexpr std::int64_t kWhole = -1;
  std::int64_t start = 0;
  /// kWhole stands for all of the axis.
  std::int64_t length = kWhole;

  friend bool operator==(const SliceExtent&, const SliceExtent&) = default;
  friend bool operator<(const SliceExtent& a, const SliceExtent& b) {
    return a.start != b.start ? a.start < b.start : a.length < b.length;
  }
};

/// For each axis.
using SliceBox = std::vector<SliceExtent>;

/// `box` with the lengths of whole axes. Nothing if it does not lie within `shape`.
std::optional<SliceBox> spell_out(const SliceBox& box, std::span<const std::uint64_t> shape);

struct SliceKey {
  std::string name;
  SliceBox box;
};

/// Reads a key, all of it. Nothing if it is none.
std::optional<SliceKey> read_slice_key(std::string_view key);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_SLICE_KEY_H_
