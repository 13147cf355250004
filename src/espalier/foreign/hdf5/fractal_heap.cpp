#include "espalier/foreign/hdf5/fractal_heap.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <limits>

#include "espalier/base/checked.h"
#include "espalier/base/little_endian.h"
#include "espalier/foreign/hdf5/checksums.h"
#include "espalier/foreign/hdf5/trees.h"

namespace espalier {
namespace {

constexpr std::uint32_t kMostHeapDepth = 16;
constexpr std::uint64_t kMostBlockBytes = std::uint64_t{1} << 32;

}  // namespace

Hdf5FractalHeap::Hdf5FractalHeap(Hdf5Reading& reading, std::uint64_t address)
    : reading_(reading), address_(address) {
  read_header();
}

void Hdf5FractalHeap::read_header() {
  const std::uint32_t lengths = 12u * reading_.length_bytes();
  const std::uint32_t addresses = 3u * reading_.address_bytes();
  const ByteSpan front = reading_.at(address_, 9, 256);
  if (front.empty()) return;
  Hdf5Cursor first(reading_, front, address_);
  if (!first.begins("FRHP", 0)) return;
  id_bytes_ = first.u16();
  if (first.u16() != 0) {
    return reading_.refuse("its names or attributes stand in a compressed heap, which is not read");
  }
  const ByteSpan header = reading_.summed_at(address_, 26 + lengths + addresses);
  if (header.empty()) return;
  Hdf5Cursor cursor(reading_, header, address_);
  cursor.skip(9);
  has_sums_ = (cursor.u8() & 2) != 0;
  const std::uint64_t largest_managed = cursor.u32();
  cursor.length();  // next ID
  huge_tree_ = cursor.address();
  cursor.length();  // free space
  cursor.address();
  for (int i = 0; i < 8; ++i) cursor.length();
  width_ = cursor.u16();
  start_ = cursor.length();
  largest_ = cursor.length();
  const std::uint32_t bits = cursor.u16();
  cursor.skip(2);
  const std::uint64_t root = cursor.address();
  const std::uint16_t rows = cursor.u16();
  if (!cursor.ok()) return;
  if (id_bytes_ < 2 || !std::has_single_bit(width_) || !std::has_single_bit(start_) ||
      !std::has_single_bit(largest_) || start_ > largest_ || largest_ > kMostBlockBytes ||
      bits < 8 || bits > 64) {
    return cursor.bad("the header of a heap contradicts itself");
  }
  offset_bytes_ = (bits + 7) / 8;
  length_width_ = std::min(hdf5_width(largest_), hdf5_width(largest_managed));
  if (root == kHdf5Undefined) return;
  if (rows == 0) {
    read_direct(root, start_, 0);
  } else {
    read_indirect(root, rows, 0, 0);
  }
}

void Hdf5FractalHeap::read_direct(std::uint64_t address, std::uint64_t size, std::uint64_t offset) {
  if (!reading_.ok()) return;
  if (blocks_.contains(offset)) return reading_.bad("two blocks of a heap overlap", address);
  Block& block = blocks_[offset];
  block.size = size;
  const ByteSpan bytes = reading_.at(address, size);
  if (bytes.empty()) return;
  Hdf5Cursor cursor(reading_, bytes, address);
  if (!cursor.begins("FHDB", 0)) return;
  if (cursor.address() != address_ || cursor.number(offset_bytes_) != offset) {
    return cursor.bad("a block of a heap belongs to another one");
  }
  if (has_sums_) {
    // Over the whole block, with the field itself as zero.
    const std::size_t at = cursor.place();
    const std::uint32_t sum = cursor.u32();
    if (!cursor.ok()) return;
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    store_le(copy.data() + at, std::uint32_t{0});
    if (lookup3(copy) != sum) {
      return cursor.bad("a structure does not match its checksum; copy or download the file again");
    }
  }
  if (!cursor.ok()) return;
  block.head = cursor.place();
  block.bytes = bytes;
}

// It recurses only into blocks of fewer rows.
void Hdf5FractalHeap::read_indirect(std::uint64_t address, std::uint32_t rows, std::uint64_t offset,
                                    std::uint32_t depth) {
  if (!reading_.ok()) return;
  const auto start_bits = static_cast<std::uint32_t>(std::countr_zero(start_));
  const auto width_bits = static_cast<std::uint32_t>(std::countr_zero(width_));
  if (depth > kMostHeapDepth || rows == 0 || rows + start_bits + width_bits > 64) {
    return reading_.bad("a heap has more rows than it can", address);
  }
  const std::uint64_t bytes = 5 + reading_.address_bytes() + offset_bytes_ +
                              std::uint64_t{rows} * width_ * reading_.address_bytes() + 4;
  const ByteSpan block = reading_.summed_at(address, bytes);
  if (block.empty()) return;
  Hdf5Cursor cursor(reading_, block, address);
  if (!cursor.begins("FHIB", 0)) return;
  if (cursor.address() != address_ || cursor.number(offset_bytes_) != offset) {
    return cursor.bad("a block of a heap belongs to another one");
  }
  const std::uint32_t direct_rows =
      static_cast<std::uint32_t>(std::countr_zero(largest_)) - start_bits + 2;
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::uint64_t size = start_ << (row == 0 ? 0 : row - 1);
    for (std::uint32_t i = 0; i < width_ && reading_.ok(); ++i, offset += size) {
      const std::uint64_t child = cursor.address();
      if (child == kHdf5Undefined) continue;
      if (row < direct_rows) {
        read_direct(child, size, offset);
      } else {
        const auto size_bits = static_cast<std::uint32_t>(std::countr_zero(size));
        if (size_bits < start_bits + width_bits) {
          return cursor.bad("a heap has rows that are too short");
        }
        const std::uint32_t below = size_bits - start_bits - width_bits + 1;
        if (below >= rows) return cursor.bad("a heap has rows that are too long");
        read_indirect(child, below, offset, depth + 1);
      }
    }
  }
}

ByteSpan Hdf5FractalHeap::get(ByteSpan id) {
  if (!reading_.ok() || id.size() != id_bytes_ || id_bytes_ < 2) return {};
  Hdf5Cursor cursor(reading_, id, address_);
  const std::uint8_t first = cursor.u8();
  if (first >> 6 == 0) {
    switch (first >> 4 & 3) {
      case 0:
        return get_managed(cursor);
      case 1:
        return get_huge(cursor);
      case 2: {
        std::uint64_t length = (first & 15u) + 1;
        if (id_bytes_ > 17) length = ((first & 15u) << 8 | cursor.u8()) + 1;
        return cursor.take(length);
      }
      default:
        break;
    }
  }
  cursor.bad("an ID names no object of a heap");
  return {};
}

ByteSpan Hdf5FractalHeap::get_managed(Hdf5Cursor cursor) {
  if (offset_bytes_ == 0) return {};  // of a heap whose header is not there yet
  const std::uint64_t offset = cursor.number(offset_bytes_);
  const std::uint64_t length = cursor.number(length_width_);
  if (!cursor.ok()) return {};
  const auto after = blocks_.upper_bound(offset);
  if (after != blocks_.begin()) {
    const auto& [begin, block] = *std::prev(after);
    const std::uint64_t at = offset - begin;
    if (at < block.size) {
      if (block.bytes.empty()) return {};
      if (length > 0 && at >= block.head && range_fits(at, length, block.bytes.size())) {
        return block.bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(length));
      }
    }
  }
  if (reading_.is_complete()) cursor.bad("an ID names no object of a heap");
  return {};
}

ByteSpan Hdf5FractalHeap::get_huge(Hdf5Cursor cursor) {
  const std::uint32_t direct = reading_.address_bytes() + reading_.length_bytes();
  if (id_bytes_ - 1 >= direct) {
    const std::uint64_t address = cursor.address();
    return reading_.at(address, cursor.length());
  }
  if (!is_huge_read_) {
    is_huge_read_ = true;
    if (huge_tree_ == kHdf5Undefined) {
      cursor.bad("an ID names no object of a heap");
      return {};
    }
    read_tree2(reading_, huge_tree_, 1, [&](ByteSpan record) {
      Hdf5Cursor field(reading_, record, huge_tree_);
      const std::uint64_t address = field.address();
      const std::uint64_t length = field.length();
      huge_[field.length()] = {address, length};
    });
  }
  const auto found = huge_.find(cursor.number(std::min(id_bytes_ - 1, 8u)));
  if (found != huge_.end()) return reading_.at(found->second.address, found->second.length);
  if (reading_.is_complete()) cursor.bad("an ID names no object of a heap");
  return {};
}

}  // namespace espalier
