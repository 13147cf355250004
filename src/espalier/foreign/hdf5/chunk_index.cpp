#include "espalier/foreign/hdf5/chunk_index.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "espalier/base/checked.h"
#include "espalier/foreign/hdf5/trees.h"

namespace espalier {
namespace {

constexpr std::uint64_t kMostChunks = std::uint64_t{1} << 24;
constexpr std::uint32_t kMostPageBits = 31;

constexpr std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

class IndexReader {
 public:
  IndexReader(Hdf5Reading& reading, const Hdf5Dataset& dataset)
      : reading_(reading),
        dataset_(dataset),
        chunking_(dataset.chunking),
        rank_(chunking_.shape.size()),
        grid_(chunk_grid(dataset)),
        scaled_(rank_),
        is_filtered_(!dataset.filters.empty()),
        skipped_((std::uint64_t{1} << dataset.filters.size()) - 1) {
    if (!is_filtered_) return;
    // Version 4 has as many bytes for the size of a chunk as it takes, and one more.
    const auto bits = static_cast<std::uint32_t>(std::bit_width(chunking_.bytes)) - 1;
    size_width_ = chunking_.version >= 5 ? 8 : std::min(8u, 1 + (bits + 8) / 8);
  }

  std::vector<Hdf5Chunk> run() {
    if (chunking_.address == kHdf5Undefined || dataset_.bytes == 0) return {};
    switch (chunking_.index) {
      case Hdf5ChunkIndex::kTree1:
        read_old_tree();
        break;
      case Hdf5ChunkIndex::kSingle:
        read_single();
        break;
      case Hdf5ChunkIndex::kImplicit:
        read_implicit();
        break;
      case Hdf5ChunkIndex::kFixedArray:
        read_fixed_array();
        break;
      case Hdf5ChunkIndex::kExtensibleArray:
        read_extensible_array();
        break;
      case Hdf5ChunkIndex::kTree2:
        read_new_tree();
        break;
    }
    if (reading_.is_complete()) check();
    return reading_.is_complete() ? std::move(chunks_) : std::vector<Hdf5Chunk>();
  }

 private:
  // Adds the chunk at the place `scaled_`, unless the array was made smaller since.
  void add(std::uint64_t address, std::uint64_t bytes, std::uint32_t mask) {
    if (address == kHdf5Undefined) return;
    std::uint64_t number = 0;
    bool is_edge = false;
    for (std::size_t i = 0; i < rank_; ++i) {
      if (scaled_[i] >= grid_[i]) return;
      number = number * grid_[i] + scaled_[i];
      is_edge = is_edge || (scaled_[i] + 1) * chunking_.shape[i] > dataset_.space.shape[i];
    }
    if (is_edge && chunking_.are_edges_unfiltered) mask = static_cast<std::uint32_t>(skipped_);
    if (!range_fits(address, bytes, reading_.layout().end) || bytes == 0) {
      return reading_.bad("a chunk lies beyond the end of the file; copy or download it again",
                          std::min(address, reading_.layout().end));
    }
    if (chunks_.size() == kMostChunks) return reading_.bad("an array has too many chunks");
    chunks_.push_back({address, bytes, number, mask});
  }

  void read_old_tree() {
    const auto key_bytes = static_cast<std::uint32_t>(8 + 8 * (rank_ + 1));
    read_tree1(reading_, chunking_.address, 1, key_bytes, [&](ByteSpan key, std::uint64_t child) {
      Hdf5Cursor cursor(reading_, key, chunking_.address);
      const std::uint32_t bytes = cursor.u32();
      const std::uint32_t mask = cursor.u32();
      for (std::size_t i = 0; i < rank_; ++i) {
        const std::uint64_t offset = cursor.number(8);
        if (offset % chunking_.shape[i] != 0)
          return cursor.bad("a chunk begins within another one");
        scaled_[i] = offset / chunking_.shape[i];
      }
      add(child, bytes, mask);
    });
  }

  void read_new_tree() {
    const std::uint8_t type = is_filtered_ ? 11 : 10;
    read_tree2(reading_, chunking_.address, type, [&](ByteSpan record) {
      Hdf5Cursor cursor(reading_, record, chunking_.address);
      const std::uint64_t address = cursor.address();
      std::uint64_t bytes = chunking_.bytes;
      std::uint32_t mask = 0;
      if (is_filtered_) {
        const std::size_t fixed = reading_.address_bytes() + 4 + 8 * rank_;
        if (record.size() <= fixed || record.size() - fixed > 8) {
          return cursor.bad("a chunk has a wrong record");
        }
        bytes = cursor.number(static_cast<std::uint32_t>(record.size() - fixed));
        mask = cursor.u32();
      }
      for (std::uint64_t& place : scaled_) place = cursor.number(8);
      if (cursor.ok()) add(address, bytes, mask);
    });
  }

  void read_single() {
    for (const std::uint64_t count : grid_) {
      if (count != 1) return reading_.bad("an array of several chunks has the index of one");
    }
    const bool has_size = chunking_.is_single_filtered;
    add(chunking_.address, has_size ? chunking_.single_bytes : chunking_.bytes,
        has_size ? chunking_.single_mask : static_cast<std::uint32_t>(skipped_));
  }

  void read_implicit() {
    if (is_filtered_ || !read_maximal_grid(kNoAxis)) {
      return reading_.bad("an array with filters, or that may grow, has no index of its chunks");
    }
    std::uint64_t total = 1;
    for (const std::uint64_t count : grid_) {
      const auto product = checked_mul(total, count);
      if (!product || *product > kMostChunks) return reading_.bad("an array has too many chunks");
      total = *product;
    }
    for (std::uint64_t i = 0; i < total && reading_.ok(); ++i) {
      std::uint64_t rest = i;
      for (std::size_t axis = rank_; axis-- > 0;) {
        scaled_[axis] = rest % grid_[axis];
        rest /= grid_[axis];
      }
      std::uint64_t number = 0;
      bool fits = true;
      for (std::size_t axis = 0; axis < rank_; ++axis) {
        const auto row = checked_mul(number, maximal_[axis]);
        const auto sum = row ? checked_add(*row, scaled_[axis]) : std::nullopt;
        fits = fits && sum;
        number = sum.value_or(0);
      }
      const auto offset = checked_mul(number, chunking_.bytes);
      const auto address = offset ? checked_add(chunking_.address, *offset) : std::nullopt;
      if (!fits || !address) return reading_.bad("a chunk lies beyond the end of the file");
      add(*address, chunking_.bytes, 0);
    }
  }

  static constexpr std::size_t kNoAxis = ~std::size_t{0};

  // How many chunks the array may have along each axis; 0 along `growing`. False if another axis
  // has no bound.
  bool read_maximal_grid(std::size_t growing) {
    maximal_.assign(rank_, 0);
    for (std::size_t i = 0; i < rank_; ++i) {
      if (i == growing) continue;
      if (dataset_.space.most[i] == kHdf5Undefined) return false;
      maximal_[i] = divide_up(dataset_.space.most[i], chunking_.shape[i]);
    }
    return true;
  }

  // Sets `scaled_` for chunk `number` of an array index, which counts by rows, `growing` first.
  void place(std::uint64_t number, std::size_t growing) {
    for (std::size_t axis = rank_; axis-- > 0;) {
      if (axis == growing) continue;
      scaled_[axis] = maximal_[axis] == 0 ? 0 : number % maximal_[axis];
      number = maximal_[axis] == 0 ? 0 : number / maximal_[axis];
    }
    if (growing != kNoAxis) {
      scaled_[growing] = number;
    } else if (number != 0) {
      reading_.bad("an index has more chunks than its array");
    }
  }

  std::uint32_t element_bytes() const {
    return reading_.address_bytes() + (is_filtered_ ? size_width_ + 4 : 0);
  }

  // The next element of an array index, for chunk `number`.
  void add_element(Hdf5Cursor& cursor, std::uint64_t number, std::size_t growing) {
    const std::uint64_t address = cursor.address();
    const std::uint64_t bytes = is_filtered_ ? cursor.number(size_width_) : chunking_.bytes;
    const std::uint32_t mask = is_filtered_ ? cursor.u32() : 0;
    if (!cursor.ok() || address == kHdf5Undefined) return;
    place(number, growing);
    add(address, bytes, mask);
  }

  // Pages of elements, each with a checksum: those from `first` on of the bits of `bitmap`, the
  // first bit highest. Pages that were never written are not read.
  void read_pages(std::uint64_t address, std::uint64_t count, std::uint64_t page_elements,
                  ByteSpan bitmap, std::uint64_t first, std::uint64_t number, std::uint64_t limit,
                  std::size_t growing) {
    for (std::uint64_t page = 0; page * page_elements < count && reading_.ok(); ++page) {
      const std::uint64_t elements = std::min(page_elements, count - page * page_elements);
      const std::uint64_t bit = first + page;
      if (bit / 8 >= bitmap.size()) return reading_.bad("a bitmap of pages is too short", address);
      const auto byte = std::to_integer<std::uint32_t>(bitmap[static_cast<std::size_t>(bit / 8)]);
      if ((byte >> (7 - bit % 8) & 1) != 0) {
        const ByteSpan bytes = reading_.summed_at(address, elements * element_bytes() + 4);
        Hdf5Cursor cursor(reading_, bytes, address);
        for (std::uint64_t i = 0; i < elements && !bytes.empty(); ++i) {
          const std::uint64_t at = number + page * page_elements + i;
          if (at >= limit) break;
          add_element(cursor, at, growing);
        }
      }
      address += page_elements * element_bytes() + 4;
    }
  }

  bool begins(Hdf5Cursor& cursor, std::string_view letters) {
    if (!cursor.begins(letters, 0)) return false;
    if (cursor.u8() == (is_filtered_ ? 1 : 0)) return cursor.ok();
    cursor.bad("the index of chunks belongs to an array of another kind");
    return false;
  }

  bool belongs(Hdf5Cursor& cursor) {
    if (cursor.address() == chunking_.address) return cursor.ok();
    cursor.bad("a part of the index of chunks belongs to another one");
    return false;
  }

  void read_fixed_array() {
    if (!read_maximal_grid(kNoAxis)) {
      return reading_.bad("an array that may grow has an index of a fixed size");
    }
    const ByteSpan header = reading_.summed_at(
        chunking_.address, 12u + reading_.length_bytes() + reading_.address_bytes());
    if (header.empty()) return;
    Hdf5Cursor head(reading_, header, chunking_.address);
    if (!begins(head, "FAHD")) return;
    const std::uint8_t element = head.u8();
    const std::uint8_t bits = head.u8();
    const std::uint64_t count = head.length();
    const std::uint64_t address = head.address();
    if (!head.ok() || address == kHdf5Undefined) return;
    if (element != element_bytes() || bits > kMostPageBits || count > kMostChunks) {
      return head.bad("the index of chunks contradicts itself");
    }
    const std::uint64_t page = std::uint64_t{1} << bits;
    const std::uint64_t pages = count > page ? divide_up(count, page) : 0;
    const std::uint64_t bytes =
        6u + reading_.address_bytes() + (pages > 0 ? divide_up(pages, 8) : count * element) + 4;
    const ByteSpan block = reading_.summed_at(address, bytes);
    if (block.empty()) return;
    Hdf5Cursor cursor(reading_, block, address);
    if (!begins(cursor, "FADB") || !belongs(cursor)) return;
    if (pages > 0) {
      return read_pages(address + bytes, count, page, cursor.rest(), 0, 0, count, kNoAxis);
    }
    for (std::uint64_t i = 0; i < count && reading_.ok(); ++i) add_element(cursor, i, kNoAxis);
  }

  void read_extensible_array() {
    const auto unbounded =
        std::find(dataset_.space.most.begin(), dataset_.space.most.end(), kHdf5Undefined);
    growing_ = static_cast<std::size_t>(unbounded - dataset_.space.most.begin());
    if (growing_ == rank_ || !read_maximal_grid(growing_)) {
      return reading_.bad("an array that does not grow along one axis has an index that does");
    }
    const ByteSpan header = reading_.summed_at(
        chunking_.address, 16u + 6u * reading_.length_bytes() + reading_.address_bytes());
    if (header.empty()) return;
    Hdf5Cursor head(reading_, header, chunking_.address);
    if (!begins(head, "EAHD")) return;
    const std::uint8_t element = head.u8();
    const std::uint8_t bits = head.u8();
    const std::uint8_t in_block = head.u8();
    least_ = head.u8();
    const std::uint8_t pointers = head.u8();
    const std::uint8_t page_bits = head.u8();
    head.skip(4u * reading_.length_bytes());
    limit_ = head.length();
    head.length();
    const std::uint64_t address = head.address();
    if (!head.ok() || address == kHdf5Undefined) return;
    if (element != element_bytes() || bits == 0 || bits > 64 || page_bits > kMostPageBits ||
        !std::has_single_bit(least_) || !std::has_single_bit(pointers) || limit_ > kMostChunks) {
      return head.bad("the index of chunks contradicts itself");
    }
    page_ = std::uint64_t{1} << page_bits;
    offset_bytes_ = (bits + 7u) / 8;
    const std::uint32_t least_bits = static_cast<std::uint32_t>(std::countr_zero(least_));
    if (least_bits > bits) return head.bad("the index of chunks contradicts itself");
    const std::uint32_t supers = 1 + bits - least_bits;
    const std::uint32_t inner = 2 * static_cast<std::uint32_t>(std::countr_zero(pointers));
    if (inner > supers) return head.bad("the index of chunks contradicts itself");
    const std::uint64_t addresses = 2 * (pointers - 1u) + supers - inner;
    const ByteSpan index = reading_.summed_at(address, 10u + reading_.address_bytes() +
                                                           std::uint64_t{in_block} * element +
                                                           addresses * reading_.address_bytes());
    if (index.empty()) return;
    Hdf5Cursor cursor(reading_, index, address);
    if (!begins(cursor, "EAIB") || !belongs(cursor)) return;
    std::uint64_t number = 0;
    for (; number < in_block; ++number) {
      if (number < limit_) {
        add_element(cursor, number, growing_);
      } else {
        cursor.skip(element);
      }
    }
    for (std::uint32_t super = 0; super < supers && number < limit_ && reading_.ok(); ++super) {
      const std::uint64_t blocks = std::uint64_t{1} << super / 2;
      const std::uint64_t elements = (std::uint64_t{1} << (super + 1) / 2) * least_;
      if (super >= inner) {
        read_super_block(cursor.address(), blocks, elements, number);
        number += blocks * elements;
        continue;
      }
      for (std::uint64_t i = 0; i < blocks; ++i, number += elements) {
        read_data_block(cursor.address(), elements, number, {}, 0);
      }
    }
  }

  void read_super_block(std::uint64_t address, std::uint64_t blocks, std::uint64_t elements,
                        std::uint64_t number) {
    if (address == kHdf5Undefined || !reading_.ok()) return;
    const std::uint64_t pages = elements > page_ ? elements / page_ : 0;
    const std::uint64_t bitmap = divide_up(pages, 8);
    const ByteSpan super =
        reading_.summed_at(address, 10u + reading_.address_bytes() + offset_bytes_ +
                                        blocks * (bitmap + reading_.address_bytes()));
    if (super.empty()) return;
    Hdf5Cursor cursor(reading_, super, address);
    if (!begins(cursor, "EASB") || !belongs(cursor)) return;
    cursor.skip(offset_bytes_);
    const ByteSpan bits = cursor.take(blocks * bitmap);
    for (std::uint64_t i = 0; i < blocks && number < limit_ && reading_.ok(); ++i) {
      // Each block has whole bytes of the bitmap, but the bits count through all blocks.
      read_data_block(cursor.address(), elements, number, bits, i * pages);
      number += elements;
    }
  }

  void read_data_block(std::uint64_t address, std::uint64_t elements, std::uint64_t number,
                       ByteSpan bitmap, std::uint64_t first) {
    if (address == kHdf5Undefined || number >= limit_ || !reading_.ok()) return;
    const bool is_paged = elements > page_;
    const std::uint64_t bytes = 10u + reading_.address_bytes() + offset_bytes_ +
                                (is_paged ? 0 : elements * element_bytes());
    const ByteSpan block = reading_.summed_at(address, bytes);
    if (block.empty()) return;
    Hdf5Cursor cursor(reading_, block, address);
    if (!begins(cursor, "EADB") || !belongs(cursor)) return;
    cursor.skip(offset_bytes_);
    if (is_paged) {
      return read_pages(address + bytes, elements, page_, bitmap, first, number, limit_, growing_);
    }
    for (std::uint64_t i = 0; i < elements && number + i < limit_ && reading_.ok(); ++i) {
      add_element(cursor, number + i, growing_);
    }
  }

  // Each element of the array has one value.
  void check() {
    std::sort(chunks_.begin(), chunks_.end(),
              [](const Hdf5Chunk& a, const Hdf5Chunk& b) { return a.number < b.number; });
    for (std::size_t i = 1; i < chunks_.size(); ++i) {
      if (chunks_[i].number == chunks_[i - 1].number) {
        return reading_.bad("two chunks have the same place in an array", chunks_[i].address);
      }
    }
    std::sort(chunks_.begin(), chunks_.end(),
              [](const Hdf5Chunk& a, const Hdf5Chunk& b) { return a.address < b.address; });
    for (std::size_t i = 1; i < chunks_.size(); ++i) {
      if (chunks_[i].address < chunks_[i - 1].address + chunks_[i - 1].bytes) {
        return reading_.bad("two chunks of an array overlap", chunks_[i].address);
      }
    }
  }

  Hdf5Reading& reading_;
  const Hdf5Dataset& dataset_;
  const Hdf5Chunking& chunking_;
  const std::size_t rank_;
  const std::vector<std::uint64_t> grid_;
  std::vector<std::uint64_t> scaled_;  // the place of a chunk, in chunks
  const bool is_filtered_;
  const std::uint64_t skipped_;  // a mask of all filters
  std::uint32_t size_width_ = 0;
  std::vector<std::uint64_t> maximal_;
  std::vector<Hdf5Chunk> chunks_;
  // Of an extensible array.
  std::size_t growing_ = 0;
  std::uint8_t least_ = 1;
  std::uint64_t limit_ = 0;
  std::uint64_t page_ = 1;
  std::uint32_t offset_bytes_ = 0;
};

}  // namespace

std::vector<Hdf5Chunk> read_chunk_index(Hdf5Reading& reading, const Hdf5Dataset& dataset) {
  return IndexReader(reading, dataset).run();
}

std::vector<std::uint64_t> chunk_grid(const Hdf5Dataset& dataset) {
  std::vector<std::uint64_t> grid;
  for (std::size_t i = 0; i < dataset.chunking.shape.size(); ++i) {
    grid.push_back(divide_up(dataset.space.shape[i], dataset.chunking.shape[i]));
  }
  return grid;
}

}  // namespace espalier
