#include "espalier/foreign/tensorflow/snappy.h"

#include <cstring>
#include <string>

#include "espalier/base/counted.h"
#include "espalier/foreign/common/varint.h"

namespace espalier {
namespace {

// A copy of 64 bytes takes three.
constexpr std::uint64_t kMostForByte = 22;

class Unpacker {
 public:
  Unpacker(ByteSpan packed, std::vector<std::byte>& out) : packed_(packed), out_(out) {}

  // From `at` on, behind the length. False if it is damaged or does not fill `out`.
  bool run(std::size_t at) {
    at_ = at;
    while (at_ < packed_.size()) {
      const auto tag = std::to_integer<std::uint32_t>(packed_[at_++]);
      if (!((tag & 3) == 0 ? literal(tag >> 2) : copy(tag))) return false;
    }
    return made_ == out_.size();
  }

 private:
  bool number(std::size_t bytes, std::uint64_t& value) {
    if (packed_.size() - at_ < bytes) return false;
    value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value |= std::to_integer<std::uint64_t>(packed_[at_++]) << (8 * i);
    }
    return true;
  }

  bool literal(std::uint64_t length) {
    constexpr std::uint64_t kInTag = 60;
    if (length >= kInTag && !number(static_cast<std::size_t>(length - kInTag + 1), length)) {
      return false;
    }
    ++length;
    if (length > packed_.size() - at_ || length > out_.size() - made_) return false;
    const auto count = static_cast<std::size_t>(length);
    std::memcpy(out_.data() + made_, packed_.data() + at_, count);
    at_ += count;
    made_ += count;
    return true;
  }

  bool copy(std::uint32_t tag) {
    const std::uint32_t type = tag & 3;
    std::uint64_t distance = 0;
    if (!number(type == 1 ? 1 : type == 2 ? 2 : 4, distance)) return false;
    const std::size_t length = type == 1 ? 4 + ((tag >> 2) & 7) : 1 + (tag >> 2);
    if (type == 1) distance |= std::uint64_t{tag >> 5} << 8;
    if (distance == 0 || distance > made_ || length > out_.size() - made_) return false;
    // Byte by byte, as the bytes copied may be among those to copy.
    const std::byte* from = out_.data() + (made_ - static_cast<std::size_t>(distance));
    for (std::size_t i = 0; i < length; ++i) out_[made_++] = from[i];
    return true;
  }

  ByteSpan packed_;
  std::vector<std::byte>& out_;
  std::size_t at_ = 0;
  std::size_t made_ = 0;
};

}  // namespace

Result<std::vector<std::byte>> unpack_snappy(ByteSpan packed, std::uint64_t most) {
  std::size_t at = 0;
  const auto length = read_varint(packed, at);
  if (!length || *length / kMostForByte > packed.size()) {
    return fail(ErrorCode::kForeignInvalid,
                "a block claims more bytes than its compressed data can hold");
  }
  if (*length > most) {
    return fail(ErrorCode::kLimitExceeded, "a block has " + counted(*length, "byte") +
                                               " once it is unpacked, and " + std::to_string(most) +
                                               " are left of Limits::foreign_header_bytes");
  }
  std::vector<std::byte> out(static_cast<std::size_t>(*length));
  if (!Unpacker(packed, out).run(at)) {
    return fail(ErrorCode::kForeignInvalid, "a compressed block is damaged");
  }
  return out;
}

}  // namespace espalier
