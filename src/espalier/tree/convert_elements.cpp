#include "espalier/tree/convert_elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "espalier/tree/elements.h"
#include "espalier/tree/encode_elements.h"

namespace espalier {
namespace {

// Elements that are converted at a time: their numbers stay in the nearest cache.
constexpr std::size_t kBlock = 1024;

bool is_integer(DType dtype) { return dtype >= DType::kI8 && dtype <= DType::kU64; }

// A double that rounds as `value` does to any type of at most 51 bits: beyond its own 53 bits, what
// is cut off sets the last one ("round to odd"), so that rounding again sees it.
template <class T>
double for_rounding(T value) {
  const bool is_negative = value < 0;
  const std::uint64_t magnitude =
      is_negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const int cut = std::max(0, static_cast<int>(std::bit_width(magnitude)) - 53);
  const std::uint64_t lost = magnitude & ((std::uint64_t{1} << cut) - 1);
  const double kept = static_cast<double>(magnitude >> cut | (lost != 0 ? 1 : 0));
  return std::ldexp(is_negative ? -kept : kept, cut);
}

template <class To>
void store(MutableByteSpan out, std::size_t i, To value) {
  std::memcpy(out.data() + i * sizeof(To), &value, sizeof(To));
}

tl::unexpected<Error> no_integer(std::uint64_t i, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument,
              "element " + std::to_string(i) + " is " + what +
                  ", which no integer of that type is; read it as a floating-point type");
}

template <class To, class From>
Result<void> to_integers(std::span<const From> values, MutableByteSpan out, std::uint64_t first) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const From value = values[i];
    if constexpr (std::is_integral_v<From>) {
      if (!std::in_range<To>(value)) return no_integer(first + i, std::to_string(value));
    } else {
      // Both bounds are exact: 2^63 and the like, the upper one beyond the last.
      constexpr double kEnd =
          2.0 * static_cast<double>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1));
      constexpr double kBegin = std::is_signed_v<To> ? -kEnd : 0.0;
      if (!(value >= kBegin && value < kEnd) || value != std::trunc(value)) {
        return no_integer(first + i, std::isnan(value) ? "NaN" : std::to_string(value));
      }
    }
    store(out, i, static_cast<To>(value));
  }
  return {};
}

template <class From>
Result<void> to_integers_of(DType to, std::span<const From> values, MutableByteSpan out,
                            std::uint64_t first) {
  switch (to) {
    case DType::kI8:
      return to_integers<std::int8_t>(values, out, first);
    case DType::kU8:
      return to_integers<std::uint8_t>(values, out, first);
    case DType::kI16:
      return to_integers<std::int16_t>(values, out, first);
    case DType::kU16:
      return to_integers<std::uint16_t>(values, out, first);
    case DType::kI32:
      return to_integers<std::int32_t>(values, out, first);
    case DType::kU32:
      return to_integers<std::uint32_t>(values, out, first);
    case DType::kI64:
      return to_integers<std::int64_t>(values, out, first);
    default:
      return to_integers<std::uint64_t>(values, out, first);
  }
}

template <class From>
Result<void> convert_block(DType to, std::span<const From> values, MutableByteSpan out,
                           std::uint64_t first) {
  if (is_integer(to)) return to_integers_of(to, values, out, first);
  if (to == DType::kF64) {
    // One rounding, by the processor: to nearest, as the standard library leaves it.
    for (std::size_t i = 0; i < values.size(); ++i) store(out, i, static_cast<double>(values[i]));
    return {};
  }
  if constexpr (std::is_same_v<From, double>) {
    encode_elements(to, values, out);
  } else {
    std::array<double, kBlock> numbers;
    std::transform(values.begin(), values.end(), numbers.begin(),
                   [](From value) { return for_rounding(value); });
    encode_elements(to, std::span(numbers).first(values.size()), out);
  }
  return {};
}

template <class From>
Result<void> convert(DType from, ByteSpan packed, DType to, MutableByteSpan out,
                     std::uint64_t first) {
  const std::size_t width = dtype_bits(to) / 8;
  std::array<From, kBlock> values;
  for (std::size_t begin = 0; begin * width < out.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, out.size() / width - begin);
    const auto block = std::span(values).first(count);
    decode_elements<From>(from, packed, begin, block);
    auto ok =
        convert_block<From>(to, block, out.subspan(begin * width, count * width), first + begin);
    if (!ok) return ok;
  }
  return {};
}

}  // namespace

bool can_convert(DType from, DType to) {
  const ElementType type = element_type(from);
  return type != ElementType::kComplex128 && type != ElementType::kNone &&
         (can_encode(to) || to == DType::kF64 || is_integer(to));
}

Result<void> convert_elements(DType from, ByteSpan packed, DType to, MutableByteSpan out,
                              std::uint64_t first) {
  if (!can_convert(from, to)) {
    return fail(ErrorCode::kInvalidArgument, "elements of " + std::string(dtype_name(from)) +
                                                 " are not converted to " +
                                                 std::string(dtype_name(to)));
  }
  const std::size_t width = dtype_bits(to) / 8;
  if (out.size() % width != 0 ||
      elements_in(packed.size(), dtype_bits(from)) != out.size() / width) {
    return fail(ErrorCode::kInvalidArgument, "the memory is for another number of elements");
  }
  switch (element_type(from)) {
    case ElementType::kInt64:
      return convert<std::int64_t>(from, packed, to, out, first);
    case ElementType::kUint64:
      return convert<std::uint64_t>(from, packed, to, out, first);
    default:
      return convert<double>(from, packed, to, out, first);
  }
}

}  // namespace espalier
