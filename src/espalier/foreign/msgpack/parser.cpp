#include "espalier/foreign/msgpack/parser.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/utf8.h"
#include "espalier/detail/catalog.h"
#include "espalier/dtype.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

// The types of extensions that flax defines.
constexpr std::int8_t kArrayExtension = 1;
constexpr std::int8_t kComplexExtension = 2;
constexpr std::int8_t kScalarExtension = 3;

constexpr char kBadKey[] = "the key of a map is neither a text nor an integer of 64 bits";

constexpr std::uint64_t kMaxNodes = std::numeric_limits<std::uint32_t>::max();

}  // namespace

// Reads big-endian numbers from the window. Beyond its end everything is 0, and is_short() is true:
// the object must then be parsed again, with more bytes.
class MsgpackParser::Cursor {
 public:
  explicit Cursor(ByteSpan bytes) : bytes_(bytes) {}

  bool is_short() const { return needed_ > bytes_.size(); }
  /// Bytes that were read, or would have been.
  std::uint64_t needed() const { return needed_; }

  ByteSpan take(std::uint64_t size) {
    const std::uint64_t begin = needed_;
    // No object is longer than 2^32 bytes and its head.
    needed_ += size;
    if (is_short()) return {};
    return bytes_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
  }

  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    for (const std::byte byte : take(width)) value = value << 8 | static_cast<std::uint8_t>(byte);
    return value;
  }

  double real(std::uint8_t head) {
    if (head == 0xCB) return bits_as<double>(number(8));
    return double{bits_as<float>(static_cast<std::uint32_t>(number(4)))};
  }

  // The length that follows the head of an object, if that is one of those from `first` on: for
  // lengths of 1, 2 and 4 bytes, or of the last `widths` of these.
  std::optional<std::uint64_t> length(std::uint8_t head, std::uint8_t first, unsigned widths) {
    if (head < first || head >= first + widths) return std::nullopt;
    return number(std::size_t{1} << (head - first + 3 - widths));
  }

 private:
  ByteSpan bytes_;
  std::uint64_t needed_ = 0;
};

std::string MsgpackParser::path() const {
  std::string text;
  for (const Level& level : levels_) {
    const MsgpackNode& container = tree_.nodes[level.node];
    if (container.type == Type::kArray) {
      append_path(text, KeyView::of(std::int64_t{container.size} - level.left), DigitMark::kNever);
    } else if (level.has_key) {
      const MsgpackNode& key = tree_.nodes[level.key];
      append_path(text,
                  key.type == Type::kText ? KeyView::of(key.as_text()) : KeyView::of(key.integer),
                  DigitMark::kNever);
    }
  }
  return text;
}

tl::unexpected<Error> MsgpackParser::bad(std::string_view message, ErrorCode code) const {
  return fail(code, message, position_, path());
}

bool MsgpackParser::wants_key() const {
  return !levels_.empty() && tree_.nodes[levels_.back().node].type == Type::kMap &&
         !levels_.back().has_key;
}

Result<bool> MsgpackParser::parse(ByteSpan window) {
  const std::uint64_t begin = position_;
  while (!is_done_) {
    const std::uint64_t at = std::min<std::uint64_t>(position_ - begin, window.size());
    Cursor cursor(window.subspan(static_cast<std::size_t>(at)));
    auto ok = position_ - begin > window.size() ? Result<void>{} : parse_object(cursor);
    if (!ok) return propagate(ok);
    needed_ = std::max<std::uint64_t>(cursor.needed(), 1);
    if (needed_ > file_size_ - position_) {
      return bad("the file ends inside an object; copy or download it again",
                 ErrorCode::kTruncated);
    }
    if (needed_ > limits_.foreign_header_bytes - parsed_bytes_) {
      return bad("what is not in arrays takes more than the " +
                     counted(limits_.foreign_header_bytes, "byte") +
                     " that Limits::foreign_header_bytes allows",
                 ErrorCode::kLimitExceeded);
    }
    if (cursor.needed() == 0 || cursor.is_short()) return false;
    parsed_bytes_ += needed_;
    position_ += needed_ + std::exchange(array_bytes_, 0);
  }
  if (position_ != file_size_) {
    return bad(
        "the file goes on for " + counted(file_size_ - position_, "byte") + " after its object",
        ErrorCode::kTrailingBytes);
  }
  return true;
}

Result<void> MsgpackParser::parse_object(Cursor& cursor) {
  const auto head = static_cast<std::uint8_t>(cursor.number(1));
  if (cursor.is_short()) return {};
  if (head <= 0x7F) return add_integer(cursor, head, false);
  if (head <= 0x8F) return parse_container(cursor, Type::kMap, head & 0x0F);
  if (head <= 0x9F) return parse_container(cursor, Type::kArray, head & 0x0F);
  if (head <= 0xBF) return parse_text(cursor, Type::kText, head & 0x1F);
  if (head >= 0xE0) {
    return add_integer(cursor, static_cast<std::uint64_t>(std::int64_t{head} - 0x100), true);
  }
  if (const auto size = cursor.length(head, 0xC4, 3))
    return parse_text(cursor, Type::kBytes, *size);
  if (const auto size = cursor.length(head, 0xC7, 3)) return parse_extension(cursor, *size);
  if (const auto size = cursor.length(head, 0xD9, 3)) return parse_text(cursor, Type::kText, *size);
  if (const auto size = cursor.length(head, 0xDC, 2)) {
    return parse_container(cursor, Type::kArray, *size);
  }
  if (const auto size = cursor.length(head, 0xDE, 2)) {
    return parse_container(cursor, Type::kMap, *size);
  }
  if (head >= 0xD4 && head <= 0xD8)
    return parse_extension(cursor, std::uint64_t{1} << (head - 0xD4));
  if (head >= 0xCC && head <= 0xCF) {
    return add_integer(cursor, cursor.number(std::size_t{1} << (head - 0xCC)), false);
  }
  if (head >= 0xD0 && head <= 0xD3) {
    const unsigned width = 1u << (head - 0xD0);
    // The sign bit moves to the top and back.
    const unsigned shift = 64 - 8 * width;
    const auto value = static_cast<std::int64_t>(cursor.number(width) << shift) >> shift;
    return add_integer(cursor, static_cast<std::uint64_t>(value), true);
  }
  MsgpackNode node;
  switch (head) {
    case 0xC0:
      break;
    case 0xC2:
    case 0xC3:
      node.type = Type::kBool;
      node.integer = head - 0xC2;
      break;
    case 0xCA:
    case 0xCB:
      node.type = Type::kReal;
      node.real = cursor.real(head);
      if (cursor.is_short()) return {};
      break;
    default:  // 0xC1
      return bad("the byte 0xC1 begins no msgpack object");
  }
  return add(node);
}

Result<void> MsgpackParser::add_integer(Cursor& cursor, std::uint64_t value, bool is_signed) {
  if (cursor.is_short()) return {};
  MsgpackNode node;
  node.type = is_signed || value >> 63 == 0 ? Type::kInteger : Type::kUnsigned;
  node.number = value;
  if (node.type == Type::kInteger) node.integer = static_cast<std::int64_t>(value);
  return add(node);
}

Result<void> MsgpackParser::parse_text(Cursor& cursor, Type type, std::uint64_t size) {
  if (cursor.is_short()) return {};
  const ByteSpan bytes = cursor.take(size);
  if (cursor.is_short()) return {};
  if (type == Type::kText && find_invalid_utf8(as_text(bytes))) return bad("a text is not UTF-8");
  MsgpackNode node;
  node.type = type;
  node.size = static_cast<std::uint32_t>(size);
  node.text = tree_.keep(bytes);
  return add(node);
}

Result<void> MsgpackParser::parse_container(Cursor& cursor, Type type, std::uint64_t size) {
  if (cursor.is_short()) return {};
  // Of at least one byte each. Stops a count of 2^32 in a file of five bytes.
  const std::uint64_t least = type == Type::kMap ? 2 * size : size;
  if (least > file_size_ - position_ - std::min(cursor.needed(), file_size_ - position_)) {
    return bad("a container says that it has " + counted(size, "value") +
               ", more than the rest of the file can hold");
  }
  if (levels_.size() >= limits_.depth) {
    return bad("the tree is deeper than the " + counted(limits_.depth, "level") +
                   " that Limits::depth allows",
               ErrorCode::kLimitExceeded);
  }
  if (wants_key()) return bad(kBadKey);
  MsgpackNode node;
  node.type = type;
  node.size = static_cast<std::uint32_t>(size);
  const auto number = static_cast<std::uint32_t>(tree_.nodes.size());
  auto ok = add(node);
  if (ok && size > 0) levels_.push_back({number, node.size, false, 0});
  return ok;
}

Result<void> MsgpackParser::parse_extension(Cursor& cursor, std::uint64_t size) {
  const auto extension = static_cast<std::int8_t>(cursor.number(1));
  if (cursor.is_short()) return {};
  if (extension == kArrayExtension) return parse_tensor(cursor, Type::kTensor, size);
  if (extension == kScalarExtension) return parse_tensor(cursor, Type::kScalar, size);
  if (extension == kComplexExtension) return parse_complex(cursor, size);
  const ByteSpan bytes = cursor.take(size);
  if (cursor.is_short()) return {};
  MsgpackNode node;
  node.type = Type::kExtension;
  node.extension = extension;
  node.size = static_cast<std::uint32_t>(size);
  node.text = tree_.keep(bytes);
  return add(node);
}

// [real, imaginary]
Result<void> MsgpackParser::parse_complex(Cursor& cursor, std::uint64_t size) {
  Cursor payload(cursor.take(size));
  if (cursor.is_short()) return {};
  bool is_valid = payload.number(1) == 0x92;
  double parts[2] = {};
  for (double& part : parts) {
    const auto type = static_cast<std::uint8_t>(payload.number(1));
    is_valid = is_valid && (type == 0xCA || type == 0xCB);
    part = payload.real(type);
  }
  if (!is_valid || payload.needed() != size) {
    return bad("a complex number is not an array of two floats");
  }
  MsgpackNode node;
  node.type = Type::kComplex;
  node.number = tree_.complexes.size();
  tree_.complexes.push_back({parts[0], parts[1]});
  return add(node);
}

// [[axis, ...], name of the dtype, bytes]
Result<void> MsgpackParser::parse_tensor(Cursor& cursor, Type type, std::uint64_t size) {
  constexpr const char* kBad = "an array is not [shape, name of its dtype, bytes]";
  const std::uint64_t begin = cursor.needed();
  const std::uint64_t parts = cursor.number(1);
  const auto shape_head = static_cast<std::uint8_t>(cursor.number(1));
  std::uint64_t rank = shape_head & 0x0Fu;
  if (const auto length = cursor.length(shape_head, 0xDC, 2)) {
    rank = *length;
  } else if (!cursor.is_short() && (shape_head & 0xF0u) != 0x90) {
    return bad(kBad);
  }
  if (cursor.is_short()) return {};
  if (parts != 0x93) return bad(kBad);
  if (rank > kMaxRank) {
    return bad("an array has " + counted(rank, "axis") + ", more than " + std::to_string(kMaxRank));
  }
  MsgpackTree::Tensor tensor;
  for (std::uint64_t axis = 0; axis < rank; ++axis) {
    const auto head = static_cast<std::uint8_t>(cursor.number(1));
    if (head >= 0xCC && head <= 0xCF) {
      tensor.shape.push_back(cursor.number(std::size_t{1} << (head - 0xCC)));
    } else if (head <= 0x7F) {
      tensor.shape.push_back(head);
    } else {
      return bad(kBad);
    }
  }
  const auto dtype_head = static_cast<std::uint8_t>(cursor.number(1));
  const bool is_short_name = (dtype_head & 0xE0u) == 0xA0;
  const auto name_length =
      is_short_name ? std::optional<std::uint64_t>(dtype_head & 0x1Fu)
                    : (dtype_head == 0xD9 ? std::optional(cursor.number(1)) : std::nullopt);
  if (!cursor.is_short() && !name_length) return bad(kBad);
  const ByteSpan dtype = cursor.take(name_length.value_or(0));
  const auto data_head = static_cast<std::uint8_t>(cursor.number(1));
  const auto data_length = cursor.length(data_head, 0xC4, 3);
  if (cursor.is_short()) return {};
  if (!data_length || find_invalid_utf8(as_text(dtype))) return bad(kBad);
  if (cursor.needed() - begin > size || size - (cursor.needed() - begin) != *data_length) {
    return bad("the parts of an array take more or less than its " + counted(size, "byte"));
  }
  tensor.offset = position_ + cursor.needed();
  tensor.bytes = *data_length;
  if (!range_fits(tensor.offset, tensor.bytes, file_size_)) {
    return bad("the file ends inside an array; copy or download it again", ErrorCode::kTruncated);
  }
  array_bytes_ = tensor.bytes;
  tensor.dtype = {tree_.keep(dtype), dtype.size()};
  MsgpackNode node;
  node.type = type;
  node.number = tree_.tensors.size();
  tree_.tensors.push_back(std::move(tensor));
  return add(node);
}

// Adds a node. Without elements, its value is complete.
Result<void> MsgpackParser::add(const MsgpackNode& node) {
  // A map has a key for each node of its own.
  if (tree_.nodes.size() >= std::min(kMaxNodes, 2 * std::min(limits_.nodes, kMaxNodes))) {
    return bad("the file has more values than the " + std::to_string(limits_.nodes) +
                   " that Limits::nodes allows",
               ErrorCode::kLimitExceeded);
  }
  const bool is_container = node.type == Type::kMap || node.type == Type::kArray;
  if (is_container && node.size > 0) {
    tree_.nodes.push_back(node);
    return {};
  }
  if (wants_key()) {
    if (node.type != Type::kText && node.type != Type::kInteger) {
      return bad(kBadKey);
    }
    levels_.back().key = static_cast<std::uint32_t>(tree_.nodes.size());
    levels_.back().has_key = true;
    tree_.nodes.push_back(node);
    return {};
  }
  tree_.nodes.push_back(node);
  finish_value();
  return {};
}

// A value is complete; so may be the containers around it.
void MsgpackParser::finish_value() {
  while (!levels_.empty()) {
    Level& level = levels_.back();
    level.has_key = false;
    if (--level.left > 0) return;
    tree_.nodes[level.node].span = static_cast<std::uint32_t>(tree_.nodes.size()) - level.node;
    levels_.pop_back();
  }
  is_done_ = true;
}

}  // namespace espalier
