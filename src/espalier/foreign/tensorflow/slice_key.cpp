#include "espalier/foreign/tensorflow/slice_key.h"

#include <cstddef>
#include <limits>

#include "espalier/base/checked.h"

namespace espalier {
namespace {

class OrderedReader {
 public:
  explicit OrderedReader(std::string_view key) : key_(key) {}

  bool is_at_end() const { return at_ == key_.size(); }

  // Its number of bytes, and these, the highest first.
  bool number(std::uint64_t& value) {
    std::uint8_t bytes = 0;
    return next(bytes) && bytes <= sizeof(value) && big_endian(bytes, 0, value);
  }

  // Up to a zero and a one; zeros and 0xFF in it are escaped.
  bool text(std::string& value) {
    for (std::uint8_t byte = 0; next(byte);) {
      if (byte != 0 && byte != 0xFF) {
        value += static_cast<char>(byte);
        continue;
      }
      std::uint8_t escape = 0;
      if (!next(escape)) return false;
      if (byte == 0 && escape == 1) return true;
      if (escape != (byte == 0 ? 0xFF : 0)) return false;
      value += static_cast<char>(byte);
    }
    return false;
  }

  // As many ones as it has bytes, a zero, and the number; a negative one with all bits inverted.
  // Below 64, that is one byte.
  bool signed_number(std::int64_t& value) {
    std::uint8_t first = 0;
    if (!next(first)) return false;
    const bool is_negative = first < 0x80;
    const std::uint8_t flip = is_negative ? 0xFF : 0;
    first ^= flip;
    std::size_t ones = 0;
    while (ones < 8 && (first >> (7 - ones) & 1) != 0) ++ones;
    std::uint64_t bits = 0;
    std::size_t more = ones - 1;
    if (ones < 8) {
      bits = first & ((1u << (7 - ones)) - 1);
    } else {
      // The ones go on in the second byte: of a number of eight bytes that has a zero there, or of
      // one of nine bytes.
      std::uint8_t second = 0;
      if (!next(second)) return false;
      second ^= flip;
      if ((second & 0x80) == 0) {
        bits = second & 0x7Fu;
        more = 6;
      } else if ((second & 0x40) == 0) {
        bits = second & 0x3Fu;
        more = 7;
      } else if ((second & 0x20) == 0) {
        bits = second & 0x1Fu;
        more = 8;
      } else {
        return false;
      }
    }
    if (!big_endian(more, flip, bits) || bits >> 63 != 0) return false;
    value = static_cast<std::int64_t>(is_negative ? ~bits : bits);
    return true;
  }

 private:
  bool next(std::uint8_t& byte) {
    if (at_ == key_.size()) return false;
    byte = static_cast<std::uint8_t>(key_[at_++]);
    return true;
  }

  bool big_endian(std::size_t bytes, std::uint8_t flip, std::uint64_t& value) {
    if (key_.size() - at_ < bytes) return false;
    for (std::size_t i = 0; i < bytes; ++i) {
      const auto byte = static_cast<std::uint8_t>(static_cast<std::uint8_t>(key_[at_++]) ^ flip);
      if (value >> 56 != 0) return false;
      value = (value << 8) | byte;
    }
    return true;
  }

  std::string_view key_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<SliceBox> spell_out(const SliceBox& box, std::span<const std::uint64_t> shape) {
  if (box.size() != shape.size()) return std::nullopt;
  SliceBox whole = box;
  for (std::size_t axis = 0; axis < box.size(); ++axis) {
    auto& [start, length] = whole[axis];
    if (length == SliceExtent::kWhole) {
      if (start != 0) return std::nullopt;
      length = static_cast<std::int64_t>(shape[axis]);
    }
    if (start < 0 || length < 0 ||
        !range_fits(static_cast<std::uint64_t>(start), static_cast<std::uint64_t>(length),
                    shape[axis])) {
      return std::nullopt;
    }
  }
  return whole;
}

std::optional<SliceKey> read_slice_key(std::string_view key) {
  OrderedReader reader(key);
  SliceKey slice;
  std::uint64_t zero = 0;
  std::uint64_t rank = 0;
  if (!reader.number(zero) || zero != 0 || !reader.text(slice.name) || !reader.number(rank)) {
    return std::nullopt;
  }
  // Each has two bytes at least.
  if (rank > key.size()) return std::nullopt;
  for (std::uint64_t axis = 0; axis < rank; ++axis) {
    SliceExtent extent;
    if (!reader.signed_number(extent.start) || !reader.signed_number(extent.length)) {
      return std::nullopt;
    }
    slice.box.push_back(extent);
  }
  if (!reader.is_at_end()) return std::nullopt;
  return slice;
}

}  // namespace espalier
