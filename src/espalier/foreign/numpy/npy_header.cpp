#include "espalier/foreign/numpy/npy_header.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "espalier/base/little_endian.h"
#include "espalier/bytes.h"

namespace espalier {
namespace {

// The magic, two bytes of version, and the u16 length of the rest.
constexpr std::size_t kFixedBytes = 10;
constexpr std::size_t kAlignment = 64;
// NumPy leaves room for the longest first axis, so that programs can append to the file.
constexpr std::size_t kLongestAxis = 21;

// NumPy's name of a dtype; empty if it has none.
std::string_view descr(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kI8:
      return "|i1";
    case DType::kU8:
      return "|u1";
    case DType::kI16:
      return "<i2";
    case DType::kU16:
      return "<u2";
    case DType::kI32:
      return "<i4";
    case DType::kU32:
      return "<u4";
    case DType::kI64:
      return "<i8";
    case DType::kU64:
      return "<u8";
    case DType::kF16:
      return "<f2";
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
    case DType::kC64:
      return "<c8";
    case DType::kC128:
      return "<c16";
    default:
      return "";
  }
}

// A Python tuple: (), (3,), (4, 3).
std::string tuple_text(std::span<const std::uint64_t> shape) {
  std::string text = "(";
  for (const std::uint64_t axis : shape) text += std::to_string(axis) + ", ";
  if (shape.size() == 1) text.pop_back();
  if (shape.size() > 1) text.resize(text.size() - 2);
  return text + ")";
}

}  // namespace

Result<std::vector<std::byte>> npy_header(DType dtype, std::span<const std::uint64_t> shape) {
  const std::string_view type = descr(dtype);
  if (type.empty()) {
    return fail(ErrorCode::kUnrepresentable,
                "NumPy has no dtype " + std::string(dtype_name(dtype)));
  }
  std::string text = "{'descr': '" + std::string(type) +
                     "', 'fortran_order': False, 'shape': " + tuple_text(shape) + ", }";
  if (!shape.empty()) text.append(kLongestAxis - std::to_string(shape[0]).size(), ' ');
  // NumPy pads by a whole block where the text and its newline would fill one already.
  const std::size_t used = kFixedBytes + text.size() + 1;
  text.append(kAlignment - used % kAlignment, ' ');
  text += '\n';

  std::vector<std::byte> header(kFixedBytes + text.size());
  std::copy_n(as_bytes(kNpyMagic).begin(), kNpyMagic.size(), header.begin());
  header[kNpyMagic.size()] = std::byte{1};
  // Even 64 axes of 20 digits leave the length far below 2^16.
  store_le(header.data() + kNpyMagic.size() + 2, static_cast<std::uint16_t>(text.size()));
  std::copy_n(as_bytes(text).begin(), text.size(), header.begin() + kFixedBytes);
  return header;
}

}  // namespace espalier
