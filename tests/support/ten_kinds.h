// Small tensors of the ten kinds that checkpoints hold, the same in every run.
#ifndef ESPALIER_TESTS_SUPPORT_TEN_KINDS_H_
#define ESPALIER_TESTS_SUPPORT_TEN_KINDS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "espalier/codec/codec.h"

namespace espalier::testing {

struct KindOfTensor {
  /// "<kind>: <tensor>".
  std::string name;
  ElementLayout layout;
  /// At most one chunk.
  std::vector<std::byte> bytes;
};

/// Weights, moments, sines, masks, ids, embeddings, codes, images, counters and text, several of
/// each. bench/data/kinds.py makes larger ones, and real ones.
std::vector<KindOfTensor> ten_kinds();

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_TEN_KINDS_H_
