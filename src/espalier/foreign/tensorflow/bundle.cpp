#include "espalier/foreign/tensorflow/bundle.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/merge_sort.h"
#include "espalier/foreign/common/varint.h"
#include "espalier/foreign/tensorflow/slice_key.h"
#include "espalier/foreign/tensorflow/sorted_table.h"
#include "espalier/foreign/tensorflow/wire.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

constexpr std::uint64_t kKnownVersion = 1;
// Slices of one tensor. More are no model, and each pair may overlap.
constexpr std::size_t kMostSlices = 65'536;

constexpr std::string_view kVersion1 =
    "the file is a checkpoint of TensorFlow's first version, which is not read; restore it with "
    "tf.compat.v1.train.Saver and save it with write_version=V2";

// Whether the value of the first key is SavedTensorSlices, as that of a checkpoint of the first
// version.
bool is_version_1(ByteSpan value, std::uint64_t length) {
  std::size_t at = 0;
  WireField field;
  return read_wire_field(value, at, field) == WireResult::kField && field.number == 1 &&
         field.type == WireType::kBytes && field.length <= length - field.begin;
}

struct BundleHeader {
  std::uint64_t shard_count = 0;
  std::uint64_t endianness = 0;
  std::uint64_t producer = 0;
  std::uint64_t min_consumer = 0;
};

bool read_header(ByteSpan bytes, BundleHeader& header, std::uint64_t& unknown) {
  return read_fields(bytes, 0, unknown, [&](const WireField& field, ByteSpan contents) {
    switch (field.number) {
      case 1:
        return take_number(field, header.shard_count);
      case 2:
        return take_number(field, header.endianness);
      case 3: {
        if (field.type != WireType::kBytes) return FieldUse::kBad;
        constexpr std::uint64_t kBadConsumers = 1 << 3;
        const bool is_read =
            read_fields(contents, kBadConsumers, unknown, [&](const WireField& inner, ByteSpan) {
              if (inner.number == 1) return take_number(inner, header.producer);
              if (inner.number == 2) return take_number(inner, header.min_consumer);
              return inner.number == 3 ? FieldUse::kTaken : FieldUse::kUnknown;
            });
        return is_read ? FieldUse::kTaken : FieldUse::kBad;
      }
      default:
        return FieldUse::kUnknown;
    }
  });
}

// An entry as it is stored.
struct RawEntry {
  std::uint64_t type = 0;
  std::vector<std::uint64_t> shape = {};
  bool is_unknown_rank = false;
  BundlePiece piece = {};
  std::vector<SliceBox> slices = {};
};

class EntryReader {
 public:
  explicit EntryReader(std::uint64_t& unknown) : unknown_(unknown) {}

  bool read(ByteSpan bytes, RawEntry& entry) {
    constexpr std::uint64_t kSlices = 1 << 7;
    return read_fields(bytes, kSlices, unknown_, [&](const WireField& field, ByteSpan contents) {
      switch (field.number) {
        case 1:
          return take_number(field, entry.type);
        case 2:
          return take_message(field, read_shape(contents, entry));
        case 3:
          if (field.value > std::numeric_limits<std::uint32_t>::max()) return FieldUse::kBad;
          return take_number(field, entry.piece.shard);
        case 4:
          return take_number(field, entry.piece.offset);
        case 5:
          return take_number(field, entry.piece.size);
        case 6: {
          std::uint32_t masked = 0;
          const FieldUse use = take_number(field, masked, WireType::kFixed32);
          entry.piece.crc = unmask_crc32c(masked);
          return use;
        }
        case 7:
          return take_message(field, read_slice(contents, entry));
        default:
          return FieldUse::kUnknown;
      }
    });
  }

 private:
  static FieldUse take_message(const WireField& field, bool is_read) {
    return field.type == WireType::kBytes && is_read ? FieldUse::kTaken : FieldUse::kBad;
  }

  bool read_shape(ByteSpan bytes, RawEntry& entry) {
    constexpr std::uint64_t kAxes = 1 << 2;
    return read_fields(bytes, kAxes, unknown_, [&](const WireField& field, ByteSpan contents) {
      if (field.number == 3) return take_number(field, entry.is_unknown_rank);
      if (field.number != 2) return FieldUse::kUnknown;
      std::uint64_t size = 0;
      const bool is_read =
          read_fields(contents, 0, unknown_, [&](const WireField& inner, ByteSpan) {
            // A name may stand beside it.
            if (inner.number == 2) return FieldUse::kTaken;
            return inner.number == 1 ? take_number(inner, size) : FieldUse::kUnknown;
          });
      entry.shape.push_back(size);
      // Negative ones have the highest bit.
      return take_message(field, is_read && size >> 63 == 0);
    });
  }

  bool read_slice(ByteSpan bytes, RawEntry& entry) {
    SliceBox box;
    constexpr std::uint64_t kExtents = 1 << 1;
    const bool is_slice =
        read_fields(bytes, kExtents, unknown_, [&](const WireField& field, ByteSpan contents) {
          if (field.number != 1) return FieldUse::kUnknown;
          SliceExtent extent;
          const bool is_read =
              read_fields(contents, 0, unknown_, [&](const WireField& inner, ByteSpan) {
                if (inner.number == 1) return take_number(inner, extent.start);
                return inner.number == 2 ? take_number(inner, extent.length) : FieldUse::kUnknown;
              });
          box.push_back(extent);
          return take_message(field, is_read);
        });
    entry.slices.push_back(std::move(box));
    return is_slice;
  }

  std::uint64_t& unknown_;
};

std::string path_of_name(std::string_view name) {
  std::string path;
  append_path(path, KeyView::of(name), DigitMark::kNever);
  return path;
}

tl::unexpected<Error> bad_entry(std::string_view what, std::string_view name) {
  return fail(ErrorCode::kForeignInvalid, what, Error::kNoOffset, path_of_name(name));
}

class BundleReader {
 public:
  explicit BundleReader(const SortedTable& table) : table_(table) {}

  Result<Bundle> run() {
    auto entries = table_.entries();
    if (entries.empty() || !entries.front().key.empty()) {
      return fail(ErrorCode::kForeignInvalid,
                  "the index has no header, so it is no TensorFlow checkpoint");
    }
    if (auto ok = take_header(entries.front().value); !ok) return propagate(ok);
    entries = entries.subspan(1);
    bundle_.entries.reserve(entries.size());
    for (const SortedTable::Entry& entry : entries) {
      auto ok = entry.key.front() == '\0' ? take_slice(entry) : take_entry(entry);
      if (!ok) return propagate(ok);
    }
    for (const auto& [name, boxes] : cut_) {
      BundleEntry& entry = bundle_.entries[name];
      entry.problem = join(entry, boxes);
      if (!entry.problem.empty()) entry.slices.clear();
    }
    for (const auto& [name, slices] : stored_) bundle_.unused_slices += slices.size();
    bundle_.unused_slices -= used_slices_;
    if (auto ok = check_overlaps(); !ok) return propagate(ok);
    return std::move(bundle_);
  }

 private:
  Result<void> take_header(ByteSpan value) {
    if (is_version_1(value, value.size())) {
      return fail(ErrorCode::kUnsupportedVersion, kVersion1, 0);
    }
    BundleHeader header;
    if (!read_header(value, header, bundle_.unknown_fields)) {
      return fail(ErrorCode::kForeignInvalid,
                  "the header of the index is damaged; copy or download it again");
    }
    if (header.endianness != 0) {
      return fail(ErrorCode::kUnsupportedVersion,
                  "the checkpoint was written on a big-endian machine, and those of little-endian "
                  "ones are read; restore it there and save it with espalier.save()");
    }
    if (header.min_consumer > kKnownVersion) {
      return fail(ErrorCode::kUnsupportedVersion,
                  "the checkpoint is for readers of version " +
                      std::to_string(header.min_consumer) + ", and version " +
                      std::to_string(kKnownVersion) + " is known; use a newer Espalier");
    }
    if (header.shard_count > std::numeric_limits<std::int32_t>::max()) {
      return fail(ErrorCode::kForeignInvalid, "the header of the index claims " +
                                                  std::to_string(header.shard_count) + " files");
    }
    bundle_.shard_count = static_cast<std::uint32_t>(header.shard_count);
    bundle_.producer = header.producer;
    bundle_.min_consumer = header.min_consumer;
    return {};
  }

  Result<void> check_piece(const BundlePiece& piece, std::string_view name) const {
    if (piece.shard >= bundle_.shard_count) {
      return bad_entry("the tensor lies in file " + std::to_string(piece.shard) + " of the " +
                           std::to_string(bundle_.shard_count) + " that the checkpoint has",
                       name);
    }
    if (!range_fits(piece.offset, piece.size, kMaxTensorBytes)) {
      return bad_entry("the tensor lies beyond 2^63 bytes", name);
    }
    return {};
  }

  Result<void> take_entry(const SortedTable::Entry& stored) {
    RawEntry& raw = raw_;
    raw.shape.clear();
    raw = {.shape = std::move(raw.shape)};
    if (!EntryReader(bundle_.unknown_fields).read(stored.value, raw) || raw.is_unknown_rank) {
      return bad_entry("the entry of the tensor in the index is damaged; copy or download it again",
                       stored.key);
    }
    BundleEntry entry{.name = stored.key,
                      .type_number = raw.type,
                      .type = tensorflow_type(raw.type),
                      .first_axis = static_cast<std::uint32_t>(bundle_.axes.size()),
                      .rank = static_cast<std::uint32_t>(raw.shape.size()),
                      .piece = raw.piece};
    if (entry.type.storage == TensorFlowType::Storage::kRefused) {
      return fail(ErrorCode::kUnsupportedFeature,
                  "the tensor is of the type " + std::string(entry.type.name) + " (" +
                      std::to_string(raw.type) + "), of which nothing can be stored",
                  Error::kNoOffset, path_of_name(stored.key));
    }
    const auto elements = shape_elements(raw.shape);
    if (!elements) return bad_entry("the shape has 2^64 elements or more", stored.key);
    entry.elements = *elements;
    bundle_.axes.insert(bundle_.axes.end(), raw.shape.begin(), raw.shape.end());
    if (!raw.slices.empty()) {
      // What it says of its place is that of one of them.
      entry.piece = {};
      cut_.emplace_back(static_cast<std::uint32_t>(bundle_.entries.size()), std::move(raw.slices));
    } else if (auto ok = check_whole(entry); !ok) {
      return ok;
    }
    bundle_.entries.push_back(std::move(entry));
    return {};
  }

  Result<void> check_whole(const BundleEntry& entry) const {
    if (auto ok = check_piece(entry.piece, entry.name); !ok) return ok;
    const std::uint64_t size = entry.piece.size;
    bool fits = true;
    switch (entry.type.storage) {
      case TensorFlowType::Storage::kPlain:
      case TensorFlowType::Storage::kNarrow:
        fits = checked_mul(entry.elements, entry.type.width) == size;
        break;
      case TensorFlowType::Storage::kText:  // a length each, and a CRC
        fits = size >= sizeof(std::uint32_t) && entry.elements <= size - sizeof(std::uint32_t);
        break;
      case TensorFlowType::Storage::kVariant:
        fits = entry.elements <= size / (1 + sizeof(std::uint32_t));
        break;
      case TensorFlowType::Storage::kRefused:
      case TensorFlowType::Storage::kUnknown:
        break;
    }
    if (fits) return {};
    return bad_entry("the tensor has " + counted(size, "byte") +
                         ", which do not fit its shape and its type " +
                         std::string(entry.type.name),
                     entry.name);
  }

  Result<void> take_slice(const SortedTable::Entry& stored) {
    auto key = read_slice_key(stored.key);
    RawEntry raw;
    if (!key || !EntryReader(bundle_.unknown_fields).read(stored.value, raw) ||
        raw.is_unknown_rank || !raw.slices.empty()) {
      return fail(ErrorCode::kForeignInvalid,
                  "a part of a tensor has a damaged entry in the index; copy or download it again");
    }
    if (auto ok = check_piece(raw.piece, key->name); !ok) return ok;
    stored_[std::move(key->name)].emplace(std::move(key->box), std::move(raw));
    return {};
  }

  // The boxes of a tensor that was cut, and where they lie; or why they are not to be had.
  std::string join(BundleEntry& entry, const std::vector<SliceBox>& boxes) {
    if (boxes.size() > kMostSlices) return "it was cut into more than 65536 parts";
    if (entry.type.storage != TensorFlowType::Storage::kPlain) {
      return "it was cut, and its type is " + (entry.type.name.empty()
                                                   ? std::to_string(entry.type_number)
                                                   : std::string(entry.type.name));
    }
    const auto found = stored_.find(std::string(entry.name));
    const auto shape = bundle_.shape(entry);
    if (found == stored_.end()) return "the index does not say where its parts lie";
    for (const SliceBox& box : boxes) {
      const auto whole = spell_out(box, shape);
      if (!whole) return "a part of it reaches beyond its shape";
      const RawEntry* const raw = find_spelled(found->second, box, *whole, shape);
      if (raw == nullptr) return "the index does not say where a part of it lies";
      BundleSlice slice{.piece = raw->piece};
      for (const SliceExtent& extent : *whole) {
        slice.start.push_back(static_cast<std::uint64_t>(extent.start));
        slice.length.push_back(static_cast<std::uint64_t>(extent.length));
      }
      const auto elements = shape_elements(slice.length);
      if (raw->type != entry.type_number || raw->shape != slice.length || !elements ||
          checked_mul(*elements, entry.type.width) != slice.piece.size) {
        return "a part of it has another type or shape than the index says of the whole";
      }
      ++used_slices_;
      entry.slices.push_back(std::move(slice));
    }
    return {};
  }

  // The part with this box. Its key may have the length of an axis where the entry of the tensor
  // says that it is all of it, and the other way round.
  static const RawEntry* find_spelled(const std::map<SliceBox, RawEntry>& stored,
                                      const SliceBox& box, const SliceBox& whole,
                                      std::span<const std::uint64_t> shape) {
    SliceBox shortened = whole;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (static_cast<std::uint64_t>(whole[axis].length) == shape[axis]) {
        shortened[axis].length = SliceExtent::kWhole;
      }
    }
    for (const SliceBox* const each : {&box, &whole, static_cast<const SliceBox*>(&shortened)}) {
      if (const auto found = stored.find(*each); found != stored.end()) return &found->second;
    }
    return nullptr;
  }

  // Two entries with the same bytes: a file of 1 KB could claim terabytes.
  Result<void> check_overlaps() const {
    std::vector<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t, std::uint32_t>> places;
    const auto add = [&](const BundlePiece& piece, std::size_t entry) {
      if (piece.size == 0) return;
      places.emplace_back(piece.shard, piece.offset, piece.size, static_cast<std::uint32_t>(entry));
    };
    for (std::size_t i = 0; i < bundle_.entries.size(); ++i) {
      add(bundle_.entries[i].piece, i);
      for (const BundleSlice& slice : bundle_.entries[i].slices) add(slice.piece, i);
    }
    // Writers go through the names in the same order as through the bytes.
    merge_sort_runs(places, std::less<>());
    for (std::size_t i = 1; i < places.size(); ++i) {
      const auto& [shard, offset, size, entry] = places[i - 1];
      if (std::get<0>(places[i]) != shard || std::get<1>(places[i]) - offset >= size) continue;
      return bad_entry("the bytes of the tensor overlap those of another",
                       bundle_.entries[std::get<3>(places[i])].name);
    }
    return {};
  }

  const SortedTable& table_;
  Bundle bundle_;
  RawEntry raw_;                                                      // of the entry that is read
  std::vector<std::pair<std::uint32_t, std::vector<SliceBox>>> cut_;  // by entry
  std::map<std::string, std::map<SliceBox, RawEntry>> stored_;        // slices by name
  std::uint64_t used_slices_ = 0;
};

}  // namespace

const BundleEntry* Bundle::find(std::string_view name) const {
  const auto found = std::lower_bound(
      entries.begin(), entries.end(), name,
      [](const BundleEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return found == entries.end() || found->name != name ? nullptr : &*found;
}

bool looks_like_tensorflow(ByteSpan front, std::uint64_t) {
  FirstValue value;
  if (!find_first_value(front, value) || value.length == 0) return false;
  if (is_version_1(value.bytes, value.length)) return true;
  BundleHeader header;
  std::uint64_t unknown = 0;
  return value.bytes.size() == value.length && read_header(value.bytes, header, unknown) &&
         unknown == 0;
}

Result<Bundle> read_bundle(const SortedTable& table) { return BundleReader(table).run(); }

}  // namespace espalier
