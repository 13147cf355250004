#include "espalier/foreign/onnx/placement.h"

#include <string>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/dtype.h"

namespace espalier {
namespace {

using Place = OnnxTensor::Place;
using How = OnnxPlacement::How;

Result<OnnxPlacement> check_length(const OnnxPlacement& placement, std::uint64_t has,
                                   std::uint64_t needs) {
  if (has == needs) return placement;
  return fail(ErrorCode::kForeignInvalid, "the tensor has " + counted(has, "byte") +
                                              ", and its shape and type need " +
                                              std::to_string(needs));
}

}  // namespace

Result<OnnxPlacement> place_onnx_tensor(const OnnxTensor& tensor,
                                        std::span<const std::uint64_t> shape) {
  const DType dtype = onnx_type(tensor.type).dtype;
  const std::uint32_t bits = dtype_bits(dtype);
  const auto elements = shape_elements(shape);
  const auto all_bits = elements ? checked_mul(*elements, bits) : std::nullopt;
  if (!all_bits) return fail(ErrorCode::kForeignInvalid, "the tensor has 2^61 bytes or more");
  const std::uint64_t bytes = *all_bits / 8 + (*all_bits % 8 != 0 ? 1 : 0);
  OnnxPlacement placement{.elements = *elements, .is_whole = *all_bits % 8 == 0};
  const bool is_float_data =
      tensor.numbers == OnnxNumbers::kFloats || tensor.numbers == OnnxNumbers::kDoubles;
  const bool is_raw = tensor.place == Place::kRaw || tensor.place == Place::kExternal;
  if (tensor.place == Place::kNowhere) {
    // There may be nothing that has to be anywhere.
    if (*elements == 0) placement.how = How::kInPlace;
    return placement;
  }
  if (is_raw && placement.is_whole) {
    placement.how = How::kInPlace;
    placement.bytes = {tensor.data.file, tensor.data.offset, bytes};
  } else if (is_raw) {
    placement.how = How::kMade;
    placement.made = {.from = {tensor.data.file, tensor.data.offset, bytes},
                      .count = bytes,
                      .dtype = dtype,
                      .to_bits = bits};
  } else if (tensor.is_packed && is_float_data) {
    placement.how = How::kInPlace;
    placement.bytes = tensor.packed;
    return check_length(placement, tensor.packed.length, bytes);
  } else {
    placement.how = How::kMade;
    placement.made = {.from = tensor.data,
                      .field = tensor.field,
                      .numbers = tensor.numbers,
                      .count = *elements,
                      .dtype = dtype,
                      .from_bits = bits,
                      .to_bits = bits};
    OnnxElements& made = placement.made;
    if (dtype == DType::kC64 || dtype == DType::kC128) {
      made.from_bits = made.to_bits = bits / 2;
      made.count = 2 * *elements;
    } else if (bits < 8) {
      // Elements of 2 and 4 bits share the bytes that are the numbers, those of 6 bits do not.
      if (bits < 6) made.from_bits = 8;
      if (bits < 6) made.count = bytes;
      if (placement.is_whole) made.to_bits = 8;
    }
    // Before anything is allocated for them.
    if (made.count > tensor.data.length) {
      return fail(ErrorCode::kForeignInvalid, "the tensor needs " + counted(made.count, "number") +
                                                  " and has only " +
                                                  counted(tensor.data.length, "byte") + " of them");
    }
    return placement;
  }
  if (!tensor.has_length) return placement;
  return check_length(placement, tensor.data.length, bytes);
}

}  // namespace espalier
