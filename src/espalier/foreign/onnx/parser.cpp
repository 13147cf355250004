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

// Whether these are all fields of `message`, well-formed and none twice that must not be, and
// `is_idle` says of each that nothing has to be read of it.
template <class IsIdle>
bool are_idle(ByteSpan fields, OnnxMessage message, const IsIdle& is_idle) {
  std::uint32_t seen = 0;
  for (std::size_t at = 0; at < fields.size();) {
    WireField wire;
    if (read_wire_field(fields, at, wire) != WireResult::kField) return false;
    const OnnxField& field = onnx_field(message, wire.number);
    const std::uint32_t bit = std::uint32_t{1} << field.number;
    if (field.what == OnnxField::What::kUnknown || !field.takes(wire.type) ||
        (field.is_single && (seen & bit) != 0)) {
      return false;
    }
    seen |= bit;
    if (wire.type != WireType::kBytes) continue;
    if (wire.length > fields.size() - at) return false;
    const auto length = static_cast<std::size_t>(wire.length);
    if (!is_idle(field, fields.subspan(at, length))) return false;
    at += length;
  }
  return true;
}

// Whether a node has no tensors and no graphs, as most do, and is no Constant.
bool is_idle_node(ByteSpan node) {
  constexpr std::uint8_t kType = 4;
  return are_idle(node, OnnxMessage::kNode, [](const OnnxField& field, ByteSpan contents) {
    if (field.number == kType) return as_text(contents) != "Constant";
    if (field.what != OnnxField::What::kMessage) return true;
    return are_idle(contents, OnnxMessage::kAttribute, [](const OnnxField& inner, ByteSpan) {
      return inner.what != OnnxField::What::kMessage;
    });
  });
}

// Whether the checkpoint has it as a part of a tensor, so that the copy of the model has not.
bool is_number_of_tensor(OnnxMessage message, const OnnxField& field) {
  constexpr std::uint8_t kStrings = 6;
  return message == OnnxMessage::kTensor &&
         (field.what == OnnxField::What::kRaw || field.what == OnnxField::What::kData ||
          field.number == kStrings);
}

}  // namespace

OnnxParser::OnnxParser(std::uint64_t file_size, const Limits& limits)
    : limit_(std::min(limits.foreign_header_bytes, kMostHeaderBytes)),
      builder_(limit_),
      levels_{{OnnxMessage::kModel, 0, 0, file_size}} {}

Result<bool> OnnxParser::parse(ByteSpan window) {
  const std::uint64_t begin = position_;
  needed_ = 1;
  // A Result for each of a million fields would take longer than the fields.
  Read read = Read::kField;
  while (read == Read::kField) {
    if (position_ == levels_.back().end) {
      if (levels_.size() == 1) break;
      read = leave();
    } else if (position_ - begin >= window.size()) {
      read = Read::kMore;
    } else {
      read = read_field(window, begin);
    }
  }
  if (read == Read::kField && !builder_.finish()) read = bad(builder_.error().message);
  if (read == Read::kBad) return tl::unexpected<Error>(*error_);
  if (read == Read::kField) builder_.add_copy(copy_.take());
  return read == Read::kField;
}

OnnxParser::Read OnnxParser::bad(std::string_view message, ErrorCode code) {
  error_ = Error{code, position_, {}, message};
  return Read::kBad;
}

// kMore if the window does not have all that is needed of the field.
OnnxParser::Read OnnxParser::read_field(ByteSpan window, std::uint64_t begin) {
  Level& level = levels_.back();
  const ByteSpan rest = window.subspan(static_cast<std::size_t>(position_ - begin));
  const std::uint64_t left = level.end - position_;
  const ByteSpan head =
      rest.first(static_cast<std::size_t>(std::min<std::uint64_t>(rest.size(), left)));
  WireField wire;
  std::size_t at = 0;
  const WireResult result = read_wire_field(head, at, wire);
  if (result == WireResult::kCut && head.size() < left) {
    needed_ = std::min(kHeadBytes, left);
    return Read::kMore;
  }
  const bool is_bytes = wire.type == WireType::kBytes;
  if (result == WireResult::kCut ||
      (result == WireResult::kField && is_bytes && wire.length > left - at)) {
    if (levels_.size() > 1) return bad("a field goes on after the end of its message");
    return bad("the model goes on after the end of the file; copy or download it again",
               ErrorCode::kTruncated);
  }
  if (result == WireResult::kBad) return bad("the model has no field where one should be");

  const OnnxField& field = onnx_field(level.message, wire.number);
  if (!field.takes(wire.type)) {
    return bad("field " + std::to_string(wire.number) +
               " of a message has another type than in ONNX");
  }
  if (field.is_single && (level.seen >> field.number & 1) != 0) {
    return bad("a message has field " + std::to_string(wire.number) +
               " twice, and programs take the first, the last or both");
  }
  const bool is_wanted = is_bytes && builder_.wants_contents(level.message, field);
  const std::uint64_t cost = at + (is_wanted ? wire.length : 0);
  if (cost > limit_ - spent_) {
    return bad("what the model has beside the bytes of its tensors is more than the " +
                   counted(limit_, "byte") + " that Limits::foreign_header_bytes allows",
               ErrorCode::kLimitExceeded);
  }
  if (is_wanted && wire.length > rest.size() - at) {
    needed_ = cost;
    return Read::kMore;
  }
  const bool is_copied =
      field.what != OnnxField::What::kMessage && !is_number_of_tensor(level.message, field);
  const std::uint64_t field_bytes = at + (is_bytes ? wire.length : 0);
  if (is_copied && copy_.is_kept()) {
    if (!copy_.has_room(field_bytes)) {
      copy_.give_up();
    } else if (is_bytes && wire.length > rest.size() - at) {
      needed_ = field_bytes;
      return Read::kMore;
    }
  }
  spent_ += cost;
  if (field.is_single) level.seen |= std::uint32_t{1} << field.number;

  const std::uint64_t contents_begin = position_ + wire.begin;
  const std::uint64_t contents_end = contents_begin + wire.length;
  if (field.message == OnnxMessage::kNode && wire.length <= rest.size() - at &&
      is_idle_node(rest.subspan(at, static_cast<std::size_t>(wire.length)))) {
    builder_.add_idle_node();
    copy_.add(rest.first(static_cast<std::size_t>(field_bytes)));
    position_ = contents_end;
    return Read::kField;
  }
  if (field.what == OnnxField::What::kMessage) {
    if (!builder_.enter(level.message, field.message, position_)) {
      return bad(builder_.error().message, builder_.error().code);
    }
    levels_.push_back({field.message, wire.number, position_, contents_end});
    copy_.enter(wire.number);
    position_ = contents_begin;
    return Read::kField;
  }
  const ByteSpan contents =
      is_wanted ? rest.subspan(at).first(static_cast<std::size_t>(wire.length)) : ByteSpan();
  if (!builder_.take(level.message, {.number = wire.number,
                                     .what = field.what,
                                     .numbers = field.numbers,
                                     .is_bytes = is_bytes,
                                     .value = wire.value,
                                     .begin = position_,
                                     .contents_begin = contents_begin,
                                     .length = wire.length,
                                     .contents = contents})) {
    return bad(builder_.error().message, builder_.error().code);
  }
  if (is_copied && copy_.is_kept()) copy_.add(rest.first(static_cast<std::size_t>(field_bytes)));
  position_ = contents_end;
  return Read::kField;
}

OnnxParser::Read OnnxParser::leave() {
  const Level level = levels_.back();
  levels_.pop_back();
  copy_.leave();
  if (builder_.leave(levels_.back().message, level.message, level.number)) return Read::kField;
  position_ = level.begin;  // of the error
  return bad(builder_.error().message, builder_.error().code);
}

}  // namespace espalier
