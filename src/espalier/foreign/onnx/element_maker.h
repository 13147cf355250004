// Makes the elements of a tensor of an ONNX model that stand there in another form.
#ifndef ESPALIER_FOREIGN_ONNX_ELEMENT_MAKER_H_
#define ESPALIER_FOREIGN_ONNX_ELEMENT_MAKER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "espalier/bytes.h"
#include "espalier/dtype.h"
#include "espalier/foreign/onnx/types.h"
#include "espalier/format/file_maker.h"

namespace espalier {

/// Where numbers are, and what becomes of them.
struct OnnxElements {
  /// The bytes of the numbers, or fields of a message with some of others among them.
  Extent from = {};
  /// The number of the fields that count; 0 if `from` has nothing but numbers of a byte each.
  std::uint32_t field = 0;
  OnnxNumbers numbers = OnnxNumbers::kNone;
  /// How many there are.
  std::uint64_t count = 0;
  DType dtype = DType::kF32;
  /// What each number has, and what is made of them: the low bits come first. Elements of more than
  /// 8 bits are made of numbers of as many.
  std::uint32_t from_bits = 8;
  std::uint32_t to_bits = 8;
};

/// Immutable; const use is thread-safe. finish() and feed() give kForeignInvalid if the numbers are
/// fewer or more, or one does not fit its element, as 300 in an i8.
class OnnxElementMaker final : public FileMaker {
 public:
  explicit OnnxElementMaker(const OnnxElements& elements) : elements_(elements) {}

  std::unique_ptr<MakingMachine> start(MutableByteSpan out) const override;

 private:
  OnnxElements elements_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ONNX_ELEMENT_MAKER_H_
