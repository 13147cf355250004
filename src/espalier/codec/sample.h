// Predicts from a small sample how a chunk compresses.
#ifndef ESPALIER_CODEC_SAMPLE_H_
#define ESPALIER_CODEC_SAMPLE_H_

#include <array>

#include "espalier/bytes.h"
#include "espalier/codec/codec.h"

namespace espalier {

/// Size in bytes of a plane's part that is worth a separate entropy code, if its values differ from
/// the others.
inline constexpr int kLocalBytes = 32 << 10;

/// Predictions for a chunk. Computed in integer arithmetic, so they are the same on every machine.
struct ChunkSample {
  /// Whether elements, words of 8 bytes or bytes of mantissas repeat, so that a search for matches
  /// may pay. In trained or random numbers it costs time and finds none.
  bool repeats = false;
  /// By plane: whether some values are more frequent than others, so that an entropy code helps.
  /// Otherwise the plane is noise.
  std::array<bool, kMaxElementWidth> uneven = {};
  /// By plane: whether all of the sample is one value.
  std::array<bool, kMaxElementWidth> constant = {};
  /// By plane: whether its values differ so much that 8 bytes repeat only for a reason.
  std::array<bool, kMaxElementWidth> varied = {};
  /// By plane: whether its parts of kLocalBytes have different frequent values, so that several
  /// entropy codes may be shorter than one.
  std::array<bool, kMaxElementWidth> local = {};

  bool any_uneven() const {
    for (const bool plane : uneven) {
      if (plane) return true;
    }
    return false;
  }
};

/// Samples up to 2,048 elements and up to 3,905 words of `logical`, which holds whole elements.
ChunkSample take_sample(ByteSpan logical, ElementLayout layout);

}  // namespace espalier

#endif  // ESPALIER_CODEC_SAMPLE_H_
