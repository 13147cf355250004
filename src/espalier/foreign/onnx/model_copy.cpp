#include "espalier/foreign/onnx/model_copy.h"

#include <utility>

#include "espalier/base/release.h"
#include "espalier/foreign/common/protobuf.h"

namespace espalier {
namespace {

// What the number and the length of a message take at most.
constexpr std::uint64_t kMessageHead = 10;

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 128; value >>= 7) to += static_cast<char>(value | 128);
  to += static_cast<char>(value);
}

}  // namespace

void OnnxModelCopy::give_up() {
  is_kept_ = false;
  release_memory(messages_);
}

void OnnxModelCopy::enter(std::uint32_t number) {
  if (!has_room(kMessageHead)) return give_up();
  size_ += kMessageHead;
  messages_.push_back({number});
}

void OnnxModelCopy::leave() {
  if (!is_kept_) return;
  const Message message = std::move(messages_.back());
  messages_.pop_back();
  std::string& parent = messages_.back().fields;
  append_varint(parent,
                std::uint64_t{message.number} << 3 | static_cast<std::uint64_t>(WireType::kBytes));
  append_varint(parent, message.fields.size());
  parent += message.fields;
}

void OnnxModelCopy::add(ByteSpan field) {
  if (!has_room(field.size())) return give_up();
  size_ += field.size();
  messages_.back().fields += as_text(field);
}

std::string OnnxModelCopy::take() {
  return is_kept_ ? std::move(messages_.front().fields) : std::string();
}

}  // namespace espalier
