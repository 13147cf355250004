// What a small sample of a chunk tells about how to compress it.
#ifndef ESPALIER_CODEC_SAMPLE_H_
#define ESPALIER_CODEC_SAMPLE_H_

#include <array>

#include "espalier/base/bytes.h"
#include "espalier/codec/codec.h"

namespace espalier {

/// Bytes of a plane that are worth an entropy code of their own, if they differ from the others.
inline constexpr int kLocalBytes = 32 << 10;

/// What to expect of a chunk. Integer arithmetic alone leads to it, so it is the same everywhere.
struct ChunkSample {
  /// Whether eight bytes are often the same as others: then looking for matches may pay. Between
  /// numbers that were trained or drawn, it costs time and finds none.
  bool repeats = false;
  /// By plane: whether some values are more frequent than others, so that an entropy code may be
  /// shorter. A plane without this is noise.
  std::array<bool, kMaxElementWidth> uneven = {};
  /// By plane: whether other values are frequent in one part of it than in another, so that several
  /// entropy codes may be shorter than one. Parts have kLocalBytes.
  std::array<bool, kMaxElementWidth> local = {};

  bool any_uneven() const {
    for (const bool plane : uneven) {
      if (plane) return true;
    }
    return false;
  }
};

/// Looks at up to 2,048 elements and 1,024 words of `logical`, which holds whole elements.
ChunkSample take_sample(ByteSpan logical, ElementLayout layout);

}  // namespace espalier

#endif  // ESPALIER_CODEC_SAMPLE_H_
