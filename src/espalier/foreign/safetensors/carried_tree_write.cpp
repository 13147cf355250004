#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/json_text.h"
#include "espalier/base/utf8.h"
#include "espalier/foreign/common/flatten.h"
#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/foreign/safetensors/header.h"

namespace espalier {
namespace {

class Writer {
 public:
  explicit Writer(FunctionRef<CarriedTensor(const Tensor&)> find) : find_(find) {}

  // Recursion is bounded: flatten() has checked the depth.
  void node(const Value& value) {
    // Ties repeat the names of axes: a small file can have gigabytes of them. finish() refuses a
    // text that is too long.
    if (out_.size() > kMaxSafetensorsHeaderBytes) return;
    if (!value.has_label() && short_form(value)) return;
    out_ += "{\"kind\":\"";
    out_ += kind_name(value.kind());
    out_ += '"';
    if (value.has_label()) {
      out_ += ",\"label\":";
      string(value.label());
    }
    content(value);
    out_ += '}';
  }

  void raw(std::string_view text) { out_ += text; }

  Result<std::string> finish() && {
    if (!is_utf8_) return fail(ErrorCode::kInvalidTree, "a string is not UTF-8");
    if (out_.size() > kMaxSafetensorsHeaderBytes) {
      return fail(ErrorCode::kUnrepresentable, "the tree in the metadata would have more than " +
                                                   counted(kMaxSafetensorsHeaderBytes, "byte") +
                                                   " of text, the specification's limit for the "
                                                   "header; split the state into several files");
    }
    return std::move(out_);
  }

 private:
  // Kinds that JSON has itself.
  bool short_form(const Value& value) {
    switch (value.kind()) {
      case Kind::kNull:
        out_ += "null";
        return true;
      case Kind::kBool:
        out_ += *value.as_bool() ? "true" : "false";
        return true;
      case Kind::kInt64:
        append_number(out_, *value.as_int64());
        return true;
      case Kind::kString:
        string(*value.as_string());
        return true;
      default:
        return false;
    }
  }

  void content(const Value& value) {
    switch (value.kind()) {
      case Kind::kNull:
        break;
      case Kind::kBool:
      case Kind::kInt64:
      case Kind::kString:
        out_ += ",\"value\":";
        short_form(value);
        break;
      case Kind::kBigInt:
        text_value(value.as_bigint()->to_decimal());
        break;
      case Kind::kFloat64:
        text_value(hex_bits(*value.as_double()));
        break;
      case Kind::kComplex128:
        text_value(hex_bits(value.as_complex()->real()) + hex_bits(value.as_complex()->imag()));
        break;
      case Kind::kBytes:
        text_value(hex(*value.as_bytes()));
        break;
      case Kind::kDict:
      case Kind::kList:
      case Kind::kTuple:
      case Kind::kSet:
      case Kind::kRecord:
        items(value);
        break;
      case Kind::kTensor: {
        const Tensor& tensor = *value.as_tensor();
        const CarriedTensor stored = find_(tensor);
        out_ += ",\"name\":";
        string(stored.name);
        if (stored.as_bytes) type(tensor);
        axes(tensor);
        break;
      }
      case Kind::kPlaceholder:
        type(*value.as_tensor());
        axes(*value.as_tensor());
        break;
    }
  }

  void items(const Value& value) {
    out_ += ",\"items\":[";
    for (std::size_t i = 0; i < value.children().size(); ++i) {
      if (i > 0) out_ += ',';
      if (!has_keys(value.kind())) {
        node(value.children()[i]);
        continue;
      }
      const KeyView key = value.keys()[i].view();
      out_ += '[';
      if (key.is_int) {
        append_number(out_, key.integer);
      } else {
        string(key.text);
      }
      out_ += ',';
      node(value.children()[i]);
      out_ += ']';
    }
    out_ += ']';
  }

  void type(const Tensor& tensor) {
    out_ += ",\"dtype\":";
    string(dtype_name(tensor.dtype));
    out_ += ",\"shape\":";
    append_json_array(out_, tensor.shape);
    if (tensor.dtype != DType::kOpaque) return;
    out_ += ",\"block\":[";
    string(tensor.block_name);
    out_ += ',';
    append_number(out_, tensor.block_elements);
    out_ += ',';
    append_number(out_, tensor.block_bytes);
    out_ += ']';
  }

  void axes(const Tensor& tensor) {
    if (tensor.axis_names.empty()) return;
    out_ += ",\"axes\":[";
    for (std::size_t i = 0; i < tensor.axis_names.size(); ++i) {
      if (i > 0) out_ += ',';
      string(tensor.axis_names[i]);
    }
    out_ += ']';
  }

  void text_value(std::string_view text) {
    out_ += ",\"value\":";
    string(text);
  }

  void string(std::string_view text) {
    is_utf8_ = is_utf8_ && !find_invalid_utf8(text);
    append_json_string(out_, text);
  }

  static std::string hex(ByteSpan bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const std::byte byte : bytes) {
      text += kDigits[std::to_integer<unsigned>(byte) >> 4];
      text += kDigits[std::to_integer<unsigned>(byte) & 0xF];
    }
    return text;
  }

  // A decimal would lose the payload of a NaN.
  static std::string hex_bits(double value) {
    std::array<std::byte, 8> bytes;
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    for (std::size_t i = bytes.size(); i-- > 0; bits >>= 8) {
      bytes[i] = static_cast<std::byte>(bits & 0xFF);
    }
    return hex(bytes);
  }

  FunctionRef<CarriedTensor(const Tensor&)> find_;
  std::string out_;
  bool is_utf8_ = true;
};

}  // namespace

Result<std::string> carry_tree(const Value& state, const Value* metadata,
                               FunctionRef<CarriedTensor(const Tensor&)> find) {
  Writer writer(find);
  writer.raw("{\"version\":1,\"state\":");
  writer.node(state);
  if (metadata != nullptr) {
    writer.raw(",\"metadata\":");
    writer.node(*metadata);
  }
  writer.raw("}");
  return std::move(writer).finish();
}

}  // namespace espalier
