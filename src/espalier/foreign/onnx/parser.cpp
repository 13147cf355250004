#include "espalier/foreign/onnx/parser.h"

#include <algorithm>
#include <string>

#include "espalier/base/counted.h"
#include "espalier/foreign/common/protobuf.h"
#include "espalier/foreign/common/varint.h"

namespace espalier {
namespace {

// What tells a field's number and its length or number.
constexpr std::uint64_t kHeadBytes = 2 * kMaxVarintBytes;
// Pieces of texts have 32-bit offsets, whatever the limits say.
constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{1} << 30;

}  // namespace

OnnxParser::OnnxParser(std::uint64_t file_size, const Limits& limits)
    : limit_(std::min(limits.foreign_header_bytes, kMostHeaderBytes)),
      builder_(limit_),
      levels_{{OnnxMessage::kModel, 0, 0, file_size}} {}

Result<bool> OnnxParser::parse(ByteSpan window) {
  const std::uint64_t begin = position_;
  needed_ = 1;
  for (;;) {
    while (position_ == levels_.back().end) {
      if (levels_.size() == 1) {
        auto ok = builder_.finish();
        if (!ok) return propagate(ok);
        return true;
      }
      if (auto ok = leave(); !ok) return propagate(ok);
    }
    if (position_ - begin >= window.size()) return false;
    const auto is_read = read_field(window, begin);
    if (!is_read || !*is_read) return is_read;
  }
}

Result<void> OnnxParser::spend(std::uint64_t bytes) {
  if (bytes > limit_ - spent_) {
    return fail(ErrorCode::kLimitExceeded,
                "what the model has beside the bytes of its tensors is more than the " +
                    counted(limit_, "byte") + " that Limits::foreign_header_bytes allows",
                position_);
  }
  spent_ += bytes;
  return {};
}

// False if the window does not have all that is needed of the field.
Result<bool> OnnxParser::read_field(ByteSpan window, std::uint64_t begin) {
  Level& level = levels_.back();
  const auto bad = [&](std::string_view message, ErrorCode code = ErrorCode::kForeignInvalid) {
    return fail(code, message, position_);
  };
  const ByteSpan rest = window.subspan(static_cast<std::size_t>(position_ - begin));
  const std::uint64_t left = level.end - position_;
  const ByteSpan head =
      rest.first(static_cast<std::size_t>(std::min<std::uint64_t>(rest.size(), left)));
  WireField wire;
  std::size_t at = 0;
  const WireResult result = read_wire_field(head, at, wire);
  if (result == WireResult::kCut && head.size() < left) {
    needed_ = std::min(kHeadBytes, left);
    return false;
  }
  const bool is_longer =
      result == WireResult::kField && wire.type == WireType::kBytes && wire.length > left - at;
  if (result == WireResult::kCut || is_longer) {
    if (levels_.size() == 1) {
      return bad("the model goes on after the end of the file; copy or download it again",
                 ErrorCode::kTruncated);
    }
    return bad("a field goes on after the end of its message");
  }
  if (result == WireResult::kBad) return bad("the model has no field where one should be");

  const OnnxField& field = onnx_field(level.message, wire.number);
  const std::string number = std::to_string(wire.number);
  if (!field.takes(wire.type)) {
    return bad("field " + number + " of a message has another type than in ONNX");
  }
  if (field.is_single && (level.seen >> field.number & 1) != 0) {
    return bad("a message has field " + number +
               " twice, and programs take the first, the last or both");
  }
  const bool is_bytes = wire.type == WireType::kBytes;
  const bool is_wanted = is_bytes && builder_.wants_contents(level.message, field);
  if (auto ok = spend(at + (is_wanted ? wire.length : 0)); !ok) return propagate(ok);
  if (is_wanted && wire.length > rest.size() - at) {
    spent_ -= at + wire.length;
    needed_ = at + wire.length;
    return false;
  }
  if (field.is_single) level.seen |= std::uint32_t{1} << field.number;

  const std::uint64_t field_begin = position_;
  const std::uint64_t contents_begin = field_begin + wire.begin;
  position_ = contents_begin + wire.length;
  Result<void> ok;
  if (field.what == OnnxField::What::kMessage) {
    ok = builder_.enter(level.message, field.message, field_begin);
    position_ = contents_begin;
    levels_.push_back({field.message, wire.number, field_begin, contents_begin + wire.length});
  } else {
    ok = builder_.take(
        level.message,
        {.number = wire.number,
         .what = field.what,
         .numbers = field.numbers,
         .is_bytes = is_bytes,
         .value = wire.value,
         .begin = field_begin,
         .contents_begin = contents_begin,
         .length = wire.length,
         .contents = is_wanted ? rest.subspan(at).first(static_cast<std::size_t>(wire.length))
                               : ByteSpan()});
  }
  if (!ok) {
    ok.error().offset = field_begin;
    return propagate(ok);
  }
  return true;
}

Result<void> OnnxParser::leave() {
  const Level level = levels_.back();
  levels_.pop_back();
  auto ok = builder_.leave(levels_.back().message, level.message, level.number);
  if (!ok && ok.error().offset == Error::kNoOffset) ok.error().offset = level.begin;
  return ok;
}

}  // namespace espalier
