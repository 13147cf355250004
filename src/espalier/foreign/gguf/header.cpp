#include "espalier/foreign/gguf/header.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/base/utf8.h"
#include "espalier/dtype.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

constexpr std::uint32_t kVersions = 3;
// Pieces have 32-bit offsets, whatever the limits say.
constexpr std::uint64_t kMaxGgufHeaderBytes = (std::uint64_t{1} << 32) - 1;
// What a pair takes beside its key's length: a type and a value.
constexpr std::uint64_t kLeastPairBytes = 4 + 1;
// What a tensor takes beside its name's length: rank, type, offset.
constexpr std::uint64_t kLeastTensorBytes = 4 + 4 + 8;

struct TypeFacts {
  std::string_view name;
  std::uint32_t width;
};
constexpr TypeFacts kTypeFacts[kLastGgufType + 1] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8}};

}  // namespace

std::uint32_t gguf_type_width(GgufType type) {
  return kTypeFacts[static_cast<std::uint32_t>(type)].width;
}

std::string_view gguf_type_name(GgufType type) {
  return kTypeFacts[static_cast<std::uint32_t>(type)].name;
}

GgufHeader::GgufHeader(std::uint64_t file_size, const Limits& limits)
    : file_size_(file_size),
      limit_(std::min(limits.gguf_header_bytes, kMaxGgufHeaderBytes)),
      limits_(limits) {}

Result<bool> GgufHeader::read_on(ByteSpan bytes) {
  bytes_ = bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), limit_)));
  // Each loop stops for want of bytes, or of sense, and starts its item again when there are more.
  const auto run = [&] {
    if (version_ == 0 && !read_start()) return false;
    while (pairs_.size() < pair_count_) {
      if (!read_pair()) return false;
    }
    while (tensors_.size() < tensor_count_) {
      if (!read_tensor()) return false;
    }
    return check_data();
  };
  const bool is_complete = run();
  if (error_) return tl::unexpected<Error>(*error_);
  return is_complete;
}

bool GgufHeader::bad(std::string_view message, ErrorCode code, std::uint64_t offset) {
  Error error{code, offset == Error::kNoOffset ? at_ : offset, {}, message};
  if (named_) {
    if (!names_tensor_) error.path = "(metadata)";
    append_path(error.path, KeyView::of(as_text(bytes_.subspan(named_->offset, named_->length))),
                DigitMark::kNever);
  }
  error_ = std::move(error);
  return false;
}

bool GgufHeader::has(std::uint64_t length) {
  if (length <= bytes_.size() - at_) return true;
  if (!range_fits(at_, length, file_size_)) {
    return bad("the header goes on for " + counted(length, "byte") +
                   " here and the file has only " + std::to_string(file_size_ - at_) +
                   "; copy or download it again",
               ErrorCode::kTruncated);
  }
  if (!range_fits(at_, length, limit_)) {
    return bad("the header has more than the " + counted(limit_, "byte") +
                   " that Limits::gguf_header_bytes allows",
               ErrorCode::kLimitExceeded);
  }
  needed_ = at_ + length;
  return false;
}

template <class T>
bool GgufHeader::read(T& value) {
  if (!has(sizeof(T))) return false;
  value = load_le<T>(bytes_.data() + at_);
  at_ += sizeof(T);
  return true;
}

bool GgufHeader::read_size(std::uint64_t& size) {
  if (version_ > 1) return read(size);
  std::uint32_t narrow = 0;
  if (!read(narrow)) return false;
  size = narrow;
  return true;
}

bool GgufHeader::read_text(GgufPiece& text) {
  std::uint64_t length = 0;
  if (!read_size(length) || !has(length)) return false;
  text = {static_cast<std::uint32_t>(at_), static_cast<std::uint32_t>(length)};
  at_ += length;
  return true;
}

bool GgufHeader::read_name(GgufPiece& name, const char* what) {
  if (!read_text(name)) return false;
  const auto invalid = find_invalid_utf8(bytes_.subspan(name.offset, name.length));
  if (!invalid) return true;
  return bad(std::string(what) + " is not UTF-8", ErrorCode::kForeignInvalid,
             name.offset + *invalid);
}

// Stops a count that would make the reader loop or allocate for what the file cannot hold.
bool GgufHeader::check_count(std::uint64_t count, std::uint64_t least_bytes, const char* what) {
  const std::uint64_t left = file_size_ - at_;
  if (count <= left / least_bytes) return true;
  return bad("the file claims " + counted(count, what) + " and has only " + counted(left, "byte") +
             " left, so it is truncated or damaged");
}

bool GgufHeader::read_start() {
  constexpr std::uint64_t kMagicAndVersion = 8;
  if (!has(kMagicAndVersion)) return false;
  if (!as_text(bytes_).starts_with(kGgufMagic)) return bad("the file is not a GGUF file");
  const auto version = load_le<std::uint32_t>(bytes_.data() + kGgufMagic.size());
  at_ = kGgufMagic.size();
  if (version != 0 && (version & 0xFFFF) == 0) {
    return bad(
        "the file is a big-endian GGUF file, and those for little-endian machines are read; "
        "convert it with gguf_convert_endian.py of llama.cpp",
        ErrorCode::kUnsupportedVersion);
  }
  if (version == 0 || version > kVersions) {
    return bad("the file is of GGUF version " + std::to_string(version) + ", and 1 to " +
                   std::to_string(kVersions) + " are known",
               ErrorCode::kUnsupportedVersion);
  }
  at_ = kMagicAndVersion;
  const std::uint64_t width = version == 1 ? 4 : 8;
  if (!has(2 * width)) {
    at_ = 0;
    return false;
  }
  version_ = version;
  read_size(tensor_count_);
  read_size(pair_count_);
  return check_count(pair_count_, width + kLeastPairBytes, "key-value pair") &&
         check_count(tensor_count_, width + kLeastTensorBytes, "tensor");
}

bool GgufHeader::read_pair() {
  const std::uint64_t begin = at_;
  const auto read_it = [&](GgufPair& pair) {
    std::uint32_t type = 0;
    if (!read_name(pair.key, "a key")) return false;
    named_ = pair.key;
    if (!read(type)) return false;
    if (type > kLastGgufType) {
      return bad("the value has the type " + std::to_string(type) + ", and there are 0 to " +
                     std::to_string(kLastGgufType),
                 ErrorCode::kForeignInvalid, at_ - sizeof type);
    }
    pair.type = static_cast<GgufType>(type);
    if (pair.type == GgufType::kArray) return read_array(pair);
    if (pair.type == GgufType::kString) return read_text(pair.value);
    const std::uint32_t width = gguf_type_width(pair.type);
    if (!has(width)) return false;
    pair.value = {static_cast<std::uint32_t>(at_), width};
    if (pair.type == GgufType::kBool && !check_bools(pair.value)) return false;
    at_ += width;
    return true;
  };
  GgufPair pair;
  names_tensor_ = false;
  const bool is_read = read_it(pair) && read_alignment(pair);
  named_.reset();
  if (!is_read) {
    at_ = begin;
    return false;
  }
  pairs_.push_back(pair);
  if (pair.has_elements()) array_elements_ += pair.count;
  return true;
}

bool GgufHeader::read_array(GgufPair& pair) {
  std::uint32_t element = 0;
  std::uint64_t count = 0;
  if (!read(element) || !read_size(count)) return false;
  if (element > kLastGgufType || static_cast<GgufType>(element) == GgufType::kArray) {
    return bad(element > kLastGgufType
                   ? "the array's elements have the type " + std::to_string(element) +
                         ", and there are 0 to " + std::to_string(kLastGgufType)
                   : "the value is an array of arrays, which ggml does not read either",
               ErrorCode::kForeignInvalid, at_ - size_width() - sizeof element);
  }
  pair.element = static_cast<GgufType>(element);
  const std::uint32_t width = gguf_type_width(pair.element);
  if (!check_count(count, width != 0 ? width : size_width(), "element")) return false;
  if (pair.has_elements() && count > limits_.nodes) {
    return bad("the array has " + counted(count, "element") + " and Limits::nodes allows " +
                   std::to_string(limits_.nodes),
               ErrorCode::kLimitExceeded);
  }
  const std::uint64_t begin = at_;
  if (width != 0) {
    if (!has(count * width)) return false;
    at_ += count * width;
  } else {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (GgufPiece text; !read_text(text)) return false;
    }
  }
  pair.count = static_cast<std::uint32_t>(count);
  pair.value = {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_ - begin)};
  return pair.element != GgufType::kBool || check_bools(pair.value);
}

bool GgufHeader::check_bools(GgufPiece value) {
  const auto bools = bytes_.subspan(value.offset, value.length);
  const auto wrong =
      std::find_if(bools.begin(), bools.end(), [](std::byte b) { return b > std::byte{1}; });
  if (wrong == bools.end()) return true;
  return bad(
      "a bool is " + std::to_string(std::to_integer<unsigned>(*wrong)) + " and must be 0 or 1",
      ErrorCode::kForeignInvalid, value.offset + static_cast<std::uint64_t>(wrong - bools.begin()));
}

bool GgufHeader::read_alignment(const GgufPair& pair) {
  const auto key = as_text(bytes_.subspan(pair.key.offset, pair.key.length));
  if (key != "general.alignment") return true;
  if (pair.type != GgufType::kU32) {
    return bad(
        "the alignment must be a u32, and is of the type " + std::string(gguf_type_name(pair.type)),
        ErrorCode::kForeignInvalid, pair.value.offset);
  }
  const auto alignment = load_le<std::uint32_t>(bytes_.data() + pair.value.offset);
  if (!std::has_single_bit(alignment)) {
    return bad("the alignment is " + std::to_string(alignment) + ", which is no power of two",
               ErrorCode::kForeignInvalid, pair.value.offset);
  }
  alignment_ = alignment;
  return true;
}

bool GgufHeader::read_tensor() {
  const std::uint64_t begin = at_;
  const std::size_t first_dim = dims_.size();
  const auto read_it = [&](GgufTensor& tensor) {
    if (!read_name(tensor.name, "a tensor's name")) return false;
    named_ = tensor.name;
    if (!read(tensor.rank)) return false;
    // GGUF says at most 4, and programs write files of 5, which ggml does not read.
    if (tensor.rank > std::min(limits_.rank, kMaxRank)) {
      return bad("the tensor has " + counted(tensor.rank, "axis") + " and Limits::rank allows " +
                     std::to_string(std::min(limits_.rank, kMaxRank)),
                 ErrorCode::kLimitExceeded, at_ - sizeof tensor.rank);
    }
    tensor.first_dim = static_cast<std::uint32_t>(first_dim);
    dims_.resize(first_dim + tensor.rank);
    for (std::size_t axis = dims_.size(); axis > first_dim; --axis) {
      if (!read_size(dims_[axis - 1])) return false;
    }
    return read(tensor.type) && read(tensor.offset) && place(tensor);
  };
  GgufTensor tensor;
  names_tensor_ = true;
  const bool is_read = read_it(tensor);
  named_.reset();
  if (!is_read) {
    at_ = begin;
    dims_.resize(first_dim);
    return false;
  }
  tensors_.push_back(tensor);
  return true;
}

// ggml's rule: each tensor begins where the one before it ends, padded. A gap could hide bytes, an
// overlap show the same bytes under two names.
bool GgufHeader::place(GgufTensor& tensor) {
  const std::uint64_t offset_at = at_ - sizeof tensor.offset;
  const std::uint64_t type_at = offset_at - sizeof tensor.type;
  const GgufTensorType type = gguf_tensor_type(tensor.type);
  if (type.name.empty()) {
    return bad("the tensor has the type " + std::to_string(tensor.type) +
                   ", which this version does not know; use a newer Espalier",
               ErrorCode::kForeignInvalid, type_at);
  }
  if (type.is_removed()) {
    return bad("the tensor has the type " + std::string(type.name.substr(5)) +
                   ", which ggml has removed; quantise the model again",
               ErrorCode::kForeignInvalid, type_at);
  }
  auto bytes = tensor_bytes(type.dtype, shape(tensor), type.block());
  if (!bytes) return bad(std::move(bytes.error().message));
  tensor.bytes = *bytes;
  if (tensor.offset != expected_offset_) {
    return bad("the tensor begins at " + std::to_string(tensor.offset) +
                   " of the data, and the one before it ends at " +
                   std::to_string(expected_offset_),
               ErrorCode::kForeignInvalid, offset_at);
  }
  const auto unpadded = checked_add(tensor.offset, tensor.bytes);
  const auto end = unpadded ? checked_align(*unpadded, alignment_) : unpadded;
  if (!end) return bad("the tensor's end passes 2^64", ErrorCode::kForeignInvalid, offset_at);
  expected_offset_ = *end;
  return true;
}

bool GgufHeader::check_data() {
  const auto begin = checked_align(at_, alignment_);
  if (!begin || !checked_add(*begin, expected_offset_)) return bad("the data passes 2^64");
  data_begin_ = *begin;
  // Before chunk records of a tiny file that claims petabytes exhaust memory.
  names_tensor_ = true;
  for (const GgufTensor& tensor : tensors_) {
    if (tensor.bytes == 0 || range_fits(data_begin_ + tensor.offset, tensor.bytes, file_size_)) {
      continue;
    }
    named_ = tensor.name;
    return bad("the file ends before the end of the tensor; copy or download it again",
               ErrorCode::kTruncated, tensor.name.offset);
  }
  return true;
}

}  // namespace espalier
