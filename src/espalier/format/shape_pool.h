// Shapes as numbers, most of the repetitions removed as they come.
#ifndef ESPALIER_FORMAT_SHAPE_POOL_H_
#define ESPALIER_FORMAT_SHAPE_POOL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "espalier/base/merge_sort.h"
#include "espalier/bytes.h"
#include "espalier/codec/hash.h"

namespace espalier {

/// Numbers shapes from 0. A million tensors share a few shapes: a small cache finds them again. A
/// shape that it misses gets a second number, so that no choice of shapes can make a lookup slow;
/// canonical() removes the rest.
class ShapePool {
 public:
  /// A number for `shape`; axes() must stay below 2^32.
  std::uint32_t intern(std::span<const std::uint64_t> shape) {
    const std::uint64_t hash = hash64(std::as_bytes(shape));
    std::uint32_t& slot = cache_[hash % cache_.size()];
    if (slot != 0 && equal((*this)[slot - 1], shape)) return slot - 1;
    dims_.insert(dims_.end(), shape.begin(), shape.end());
    ends_.push_back(static_cast<std::uint32_t>(dims_.size()));
    slot = static_cast<std::uint32_t>(ends_.size());
    return slot - 1;
  }

  std::span<const std::uint64_t> operator[](std::uint32_t number) const {
    const std::uint32_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::span(dims_).subspan(begin, ends_[number] - begin);
  }

  /// Axes of all shapes with numbers.
  std::size_t axes() const { return dims_.size(); }

  /// The pool of docs/format.md section 3, and the number in it of each number given out here.
  struct Canonical {
    std::vector<std::uint32_t> ends;
    std::vector<std::uint64_t> dims;
    std::vector<std::uint32_t> numbers;
  };
  Canonical canonical() const {
    std::vector<std::uint32_t> sorted(ends_.size());
    for (std::uint32_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
    merge_sort_runs(sorted, [this](std::uint32_t a, std::uint32_t b) {
      const auto left = (*this)[a];
      const auto right = (*this)[b];
      if (left.size() != right.size()) return left.size() < right.size();
      return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end());
    });
    Canonical pool;
    pool.numbers.resize(sorted.size());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const auto shape = (*this)[sorted[i]];
      if (i == 0 || !equal((*this)[sorted[i - 1]], shape)) {
        pool.dims.insert(pool.dims.end(), shape.begin(), shape.end());
        pool.ends.push_back(static_cast<std::uint32_t>(pool.dims.size()));
      }
      pool.numbers[sorted[i]] = static_cast<std::uint32_t>(pool.ends.size() - 1);
    }
    return pool;
  }

 private:
  static bool equal(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

  std::vector<std::uint32_t> ends_;
  std::vector<std::uint64_t> dims_;
  // Shape numbers plus one; 0 is an empty slot.
  std::array<std::uint32_t, 1024> cache_ = {};
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_SHAPE_POOL_H_
