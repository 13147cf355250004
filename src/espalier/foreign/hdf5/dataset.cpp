#include "espalier/foreign/hdf5/dataset.h"

#include <algorithm>
#include <string_view>

#include "espalier/base/checked.h"

namespace espalier {
namespace {

constexpr std::uint32_t kMostHdf5Rank = 32;
constexpr std::uint32_t kMostFilters = 32;
constexpr std::uint64_t kMostChunkBytes = (std::uint64_t{1} << 32) - 1;

struct FilterName {
  std::uint16_t id;
  std::string_view name;
};
constexpr FilterName kFilterNames[] = {
    {4, "szip"},    {5, "nbit"},      {6, "scaleoffset"}, {307, "bzip2"},
    {32000, "lzf"}, {32001, "blosc"}, {32004, "lz4"},     {32008, "bitshuffle"},
    {32013, "zfp"}, {32015, "zstd"},  {32026, "blosc2"},
};

class DatasetReader {
 public:
  DatasetReader(Hdf5Reading& reading, const std::vector<Hdf5Message>& messages)
      : reading_(reading), messages_(messages) {}

  Hdf5Dataset run() {
    const Hdf5Message* layout = find_message(messages_, Hdf5MessageType::kLayout);
    const auto type = body_of(Hdf5MessageType::kDatatype);
    const auto space = body_of(Hdf5MessageType::kDataspace);
    const auto filters = body_of(Hdf5MessageType::kFilters);
    if (!reading_.is_complete()) return {};
    if (type.empty() || space.empty() || layout == nullptr) {
      reading_.bad("an array has no type, no shape or no layout");
      return {};
    }
    found_.space = read_hdf5_space(reading_, space);
    found_.type = read_hdf5_type(reading_, type);
    if (!reading_.ok()) return {};
    measure();
    if (find_message(messages_, Hdf5MessageType::kExternalFiles) != nullptr) {
      reading_.refuse(
          "its elements are in external files, which are not opened; load it with h5py "
          "and save it in the file itself");
    }
    read_filters(filters);
    read_fill();
    read_layout(*layout);
    // What is refused has its type and its shape all the same.
    return std::move(found_);
  }

 private:
  ByteSpan body_of(Hdf5MessageType type) {
    const Hdf5Message* message = find_message(messages_, type);
    return message == nullptr ? ByteSpan()
                              : shared_body(reading_, type, message->is_shared, message->body);
  }

  void measure() {
    if (found_.space.shape.size() + found_.type.axes.size() > kMaxRank) {
      return reading_.refuse("it has more than " + std::to_string(kMaxRank) + " axes");
    }
    const auto axes = shape_elements(found_.type.axes);
    const auto one = axes ? checked_mul(*axes, found_.type.bytes) : std::nullopt;
    const auto elements = shape_elements(found_.space.shape);
    const auto bytes = one && elements ? checked_mul(*elements, *one) : std::nullopt;
    if (!bytes || *one == 0 || *bytes > kMaxTensorBytes) {
      return reading_.bad("an array has more bytes than it can, or elements of none");
    }
    found_.element_bytes = *one;
    found_.bytes = *bytes;
  }

  void read_filters(ByteSpan body) {
    if (body.empty() || !reading_.ok()) return;
    Hdf5Cursor cursor(reading_, body);
    const std::uint8_t version = cursor.u8();
    const std::uint8_t count = cursor.u8();
    if (version == 0 || version > 2 || count > kMostFilters) {
      return cursor.bad("an array has an unknown list of filters");
    }
    if (version == 1) cursor.skip(6);
    for (std::uint32_t i = 0; i < count && cursor.ok(); ++i) {
      Hdf5Filter filter;
      filter.id = cursor.u16();
      const std::uint16_t name = version == 1 || filter.id >= 256 ? cursor.u16() : std::uint16_t{0};
      cursor.skip(2);
      const std::uint16_t values = cursor.u16();
      cursor.skip(name);
      if (values > cursor.left() / 4) return cursor.bad("a filter has more values than it can");
      for (std::uint32_t k = 0; k < values; ++k) filter.values.push_back(cursor.u32());
      if (version == 1 && values % 2 != 0) cursor.skip(4);
      if (cursor.ok() && filter.id != kHdf5Deflate && filter.id != kHdf5Shuffle &&
          filter.id != kHdf5Fletcher32) {
        return refuse_filter(filter.id);
      }
      if (filter.id == kHdf5Shuffle && (filter.values.empty() || filter.values[0] == 0)) {
        filter.values = {static_cast<std::uint32_t>(found_.element_bytes)};
      }
      found_.filters.push_back(std::move(filter));
    }
  }

  void refuse_filter(std::uint16_t id) {
    const auto* known = std::find_if(std::begin(kFilterNames), std::end(kFilterNames),
                                     [&](const FilterName& name) { return name.id == id; });
    const std::string name =
        known == std::end(kFilterNames) ? "number " + std::to_string(id) : std::string(known->name);
    reading_.refuse("it is compressed with the filter " + name +
                    ", which is not read; write the file again with h5repack -f GZIP=4, or load it "
                    "with h5py");
  }

  void read_fill() {
    ByteSpan value;
    if (const auto* fill = find_message(messages_, Hdf5MessageType::kFillValue)) {
      const ByteSpan body =
          shared_body(reading_, Hdf5MessageType::kFillValue, fill->is_shared, fill->body);
      if (!reading_.is_complete()) return;
      Hdf5Cursor cursor(reading_, body, fill->address);
      const std::uint8_t version = cursor.u8();
      if (version == 3) {
        if ((cursor.u8() & 0x20) != 0) value = cursor.take(cursor.u32());
      } else if (version == 1 || version == 2) {
        cursor.skip(2);
        const bool is_defined = cursor.u8() != 0;
        if (version == 1 || is_defined) value = cursor.take(cursor.u32());
      } else {
        return cursor.bad("a fill value has an unknown version");
      }
    } else if (const auto* old = find_message(messages_, Hdf5MessageType::kOldFillValue)) {
      Hdf5Cursor cursor(reading_, old->body, old->address);
      value = cursor.take(cursor.u32());
    }
    if (std::all_of(value.begin(), value.end(), [](std::byte b) { return b == std::byte{0}; })) {
      return;
    }
    if (found_.type.is_variable()) {
      return reading_.refuse("it has a fill value of variable length, which is not read");
    }
    if (value.size() != found_.element_bytes) {
      return reading_.bad("a fill value has another size than the elements");
    }
    found_.fill.assign(value.begin(), value.end());
  }

  void read_layout(const Hdf5Message& message) {
    if (!reading_.is_complete()) return;
    Hdf5Cursor cursor(reading_, message.body, message.address);
    const std::uint8_t version = cursor.u8();
    if (version == 1 || version == 2) {
      const std::uint8_t rank = cursor.u8();
      const std::uint8_t layout = cursor.u8();
      cursor.skip(5);
      const std::uint64_t address = layout == 0 ? kHdf5Undefined : cursor.address();
      if (layout == 2) return read_chunks(cursor, rank + 1u, 4, address);
      cursor.skip(4u * rank);
      if (layout == 0) return set_compact(cursor, message, cursor.u32());
      return set_contiguous(address, found_.bytes);
    }
    if (version < 3 || version > 5) {
      if (cursor.ok()) reading_.refuse("its elements lie in an unknown layout");
      return;
    }
    const std::uint8_t layout = cursor.u8();
    if (layout == 0) return set_compact(cursor, message, cursor.u16());
    if (layout == 1) {
      const std::uint64_t address = cursor.address();
      return set_contiguous(address, cursor.length());
    }
    if (layout == 3) {
      return reading_.refuse(
          "it is a virtual dataset, made of others, which is not read; load it "
          "with h5py and save what it shows");
    }
    if (layout != 2) {
      if (cursor.ok()) reading_.refuse("its elements lie in an unknown layout");
      return;
    }
    found_.chunking.version = version;
    if (version == 3) {
      const std::uint8_t rank = cursor.u8();
      const std::uint64_t address = cursor.address();
      return read_chunks(cursor, rank, 4, address);
    }
    const std::uint8_t flags = cursor.u8();
    const std::uint8_t rank = cursor.u8();
    const std::uint8_t width = cursor.u8();
    if (width == 0 || width > 8) return cursor.bad("the chunks of an array have no shape");
    read_chunks(cursor, rank, width, kHdf5Undefined);
    read_index(cursor, flags);
  }

  void set_compact(Hdf5Cursor& cursor, const Hdf5Message& message, std::uint64_t bytes) {
    const std::size_t at = cursor.place();
    cursor.take(bytes);
    if (bytes != found_.bytes) cursor.bad("a compact array has another size than its shape");
    check_unfiltered();
    found_.place = Hdf5Dataset::Place::kCompact;
    found_.address = message.address + at;
  }

  void set_contiguous(std::uint64_t address, std::uint64_t bytes) {
    if (!reading_.ok()) return;
    check_unfiltered();
    found_.address = address;
    if (address == kHdf5Undefined || found_.bytes == 0) return;
    if (bytes < found_.bytes)
      return reading_.bad("an array has fewer bytes than its shape", address);
    if (!range_fits(address, found_.bytes, reading_.layout().end)) {
      reading_.bad("an array lies beyond the end of the file; copy or download it again", address);
    }
  }

  void check_unfiltered() {
    if (!found_.filters.empty()) reading_.bad("an array has filters and no chunks");
  }

  // The last of `rank` axes is the size of an element.
  void read_chunks(Hdf5Cursor& cursor, std::uint32_t rank, std::uint32_t width,
                   std::uint64_t address) {
    Hdf5Chunking& chunking = found_.chunking;
    found_.place = Hdf5Dataset::Place::kChunked;
    chunking.address = address;
    if (rank < 2 || rank - 1 != found_.space.shape.size()) {
      return cursor.bad("the chunks of an array have another rank than the array");
    }
    std::uint64_t bytes = 1;
    for (std::uint32_t i = 0; i < rank && cursor.ok(); ++i) {
      const std::uint64_t axis = cursor.number(width);
      const auto product = checked_mul(bytes, axis);
      if (!product || axis == 0 || *product > kMostChunkBytes) {
        return cursor.bad("the chunks of an array have an axis of 0, or are larger than 4 GiB");
      }
      bytes = *product;
      if (i + 1 < rank) {
        chunking.shape.push_back(axis);
      } else if (axis != found_.element_bytes) {
        cursor.bad("the chunks of an array have elements of another size");
      }
    }
    chunking.bytes = bytes;
  }

  void read_index(Hdf5Cursor& cursor, std::uint8_t flags) {
    Hdf5Chunking& chunking = found_.chunking;
    chunking.are_edges_unfiltered = (flags & 1) != 0;
    const std::uint8_t index = cursor.u8();
    if (!cursor.ok()) return;
    if (index == 0 || index > static_cast<std::uint8_t>(Hdf5ChunkIndex::kTree2)) {
      return reading_.refuse("its chunks have an unknown kind of index");
    }
    chunking.index = static_cast<Hdf5ChunkIndex>(index);
    if (chunking.index == Hdf5ChunkIndex::kSingle && (flags & 2) != 0) {
      chunking.is_single_filtered = true;
      chunking.single_bytes = cursor.length();
      chunking.single_mask = cursor.u32();
    }
    // Parameters that the index has, too.
    if (chunking.index == Hdf5ChunkIndex::kFixedArray) cursor.skip(1);
    if (chunking.index == Hdf5ChunkIndex::kExtensibleArray) cursor.skip(5);
    if (chunking.index == Hdf5ChunkIndex::kTree2) cursor.skip(6);
    chunking.address = cursor.address();
  }

  Hdf5Reading& reading_;
  const std::vector<Hdf5Message>& messages_;
  Hdf5Dataset found_;
};

}  // namespace

Hdf5Space read_hdf5_space(Hdf5Reading& reading, ByteSpan body) {
  Hdf5Space space;
  Hdf5Cursor cursor(reading, body);
  const std::uint8_t version = cursor.u8();
  const std::uint8_t rank = cursor.u8();
  const std::uint8_t flags = cursor.u8();
  std::uint8_t kind = cursor.u8();
  if (version == 1) {
    cursor.skip(4);
    kind = 1;
  }
  if (!cursor.ok()) return space;
  if (version == 0 || version > 2 || rank > kMostHdf5Rank || kind > 2 || (kind == 0 && rank != 0)) {
    cursor.bad("a shape is malformed");
    return space;
  }
  space.is_null = kind == 2;
  if (space.is_null) return space;
  for (std::uint32_t i = 0; i < rank; ++i) space.shape.push_back(cursor.length());
  space.most = space.shape;
  if ((flags & 1) == 0) return space;
  for (std::uint64_t& most : space.most) {
    most = cursor.length();
    if (most == ~std::uint64_t{0} >> (64 - 8 * reading.length_bytes())) most = kHdf5Undefined;
  }
  for (std::size_t i = 0; i < space.shape.size() && cursor.ok(); ++i) {
    if (space.most[i] < space.shape[i]) cursor.bad("a shape is larger than it may grow");
  }
  return space;
}

Hdf5Dataset read_hdf5_dataset(Hdf5Reading& reading, const std::vector<Hdf5Message>& messages) {
  return DatasetReader(reading, messages).run();
}

}  // namespace espalier
