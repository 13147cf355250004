#include "espalier/foreign/common/protobuf.h"

#include "espalier/base/little_endian.h"
#include "espalier/foreign/common/varint.h"

namespace espalier {
namespace {

constexpr std::uint64_t kLastFieldNumber = (std::uint64_t{1} << 29) - 1;

// Nothing if `bytes` end within it, or if it is longer than any.
WireResult read_wire_number(ByteSpan bytes, std::size_t& at, std::uint64_t& value) {
  const auto read = read_varint(bytes, at);
  if (!read) return bytes.size() - at < kMaxVarintBytes ? WireResult::kCut : WireResult::kBad;
  value = *read;
  return WireResult::kField;
}

template <class T>
WireResult read_fixed(ByteSpan bytes, std::size_t& at, WireField& field) {
  if (bytes.size() - at < sizeof(T)) return WireResult::kCut;
  field.value = load_le<T>(bytes.data() + at);
  at += sizeof(T);
  return WireResult::kField;
}

}  // namespace

WireResult read_any_wire_field(ByteSpan bytes, std::size_t& at, WireField& field) {
  std::size_t now = at;
  std::uint64_t tag = 0;
  if (const auto result = read_wire_number(bytes, now, tag); result != WireResult::kField) {
    return result;
  }
  const std::uint64_t number = tag >> 3;
  if (number == 0 || number > kLastFieldNumber) return WireResult::kBad;
  field = {.number = static_cast<std::uint32_t>(number),
           .type = static_cast<WireType>(tag & 7),
           .begin = now};
  WireResult result = WireResult::kBad;
  switch (field.type) {
    case WireType::kVarint:
      result = read_wire_number(bytes, now, field.value);
      break;
    case WireType::kFixed64:
      result = read_fixed<std::uint64_t>(bytes, now, field);
      break;
    case WireType::kFixed32:
      result = read_fixed<std::uint32_t>(bytes, now, field);
      break;
    case WireType::kBytes:
      result = read_wire_number(bytes, now, field.length);
      if (result == WireResult::kField) field.begin = now;
      break;
  }
  if (result != WireResult::kField) return result;
  if (field.type != WireType::kBytes) field.length = now - field.begin;
  at = now;
  return result;
}

const WireField* WireMessage::next() {
  if (is_bad_ || at_ == bytes_.size()) return nullptr;
  const std::size_t begin = at_;
  is_bad_ = read_wire_field(bytes_, at_, field_) != WireResult::kField;
  if (!is_bad_ && field_.type == WireType::kBytes) {
    is_bad_ = field_.length > bytes_.size() - at_;
    if (!is_bad_) at_ += static_cast<std::size_t>(field_.length);
  }
  if (is_bad_) at_ = begin;
  return is_bad_ ? nullptr : &field_;
}

}  // namespace espalier
