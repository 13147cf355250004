// How a tensor of an ONNX model becomes one of ours.
#ifndef ESPALIER_FOREIGN_ONNX_PLACEMENT_H_
#define ESPALIER_FOREIGN_ONNX_PLACEMENT_H_

#include <cstdint>
#include <span>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/onnx/element_maker.h"
#include "espalier/foreign/onnx/model.h"

namespace espalier {

struct OnnxPlacement {
  enum class How : std::uint8_t { kNowhere, kInPlace, kMade };

  How how = How::kNowhere;
  std::uint64_t elements = 0;
  /// Whether the elements fill whole bytes. Otherwise they have none of our dtypes, and each is
  /// made a byte of its own.
  bool is_whole = true;
  /// Of kInPlace, all of its bytes.
  Extent bytes = {};
  OnnxElements made = {};
};

/// kForeignInvalid, with a sentence, if what the model has does not fit shape and type.
[[nodiscard]] Result<OnnxPlacement> place_onnx_tensor(const OnnxTensor& tensor,
                                                      std::span<const std::uint64_t> shape);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ONNX_PLACEMENT_H_
