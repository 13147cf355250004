#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <rapidjson/document.h>

#include "espalier/base/utf8.h"
#include "espalier/foreign/carried_tree.h"
#include "espalier/format/shape.h"

namespace espalier {
namespace {

using Json = rapidjson::Value;

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kSafetensorsInvalid,
              std::string("the metadata's ") + kCarriedTreeKey + " " + std::move(message));
}

std::string_view text_of(const Json& json) { return {json.GetString(), json.GetStringLength()}; }

const Json* member(const Json& object, const char* name) {
  const auto at = object.FindMember(name);
  return at == object.MemberEnd() ? nullptr : &at->value;
}

// How many members of `names` an object has; used to refuse any others, and members that occur
// twice.
bool has_only(const Json& object, std::initializer_list<const char*> names) {
  std::size_t known = 0;
  for (const char* name : names) known += member(object, name) != nullptr ? 1 : 0;
  return known == object.MemberCount();
}

std::optional<std::vector<std::byte>> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::vector<std::byte> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  return bytes;
}

// The double of 16 hex digits, most significant first.
double from_hex_bits(std::span<const std::byte> bytes) {
  std::uint64_t bits = 0;
  for (const std::byte byte : bytes) bits = bits << 8 | std::to_integer<std::uint64_t>(byte);
  return std::bit_cast<double>(bits);
}

std::optional<Kind> kind_from_name(std::string_view name) {
  for (std::uint8_t number = 1; number <= kLastKind; ++number) {
    if (kind_name(static_cast<Kind>(number)) == name) return static_cast<Kind>(number);
  }
  return std::nullopt;
}

class Restorer {
 public:
  Restorer(const Value& flat, const Limits& limits)
      : flat_(flat), limits_(limits), restored_(flat.children().size()) {}

  // Finds tensors by name.
  Result<void> index() {
    if (flat_.kind() != Kind::kDict) return bad("stands beside a state that is not a flat dict");
    for (std::size_t i = 0; i < flat_.children().size(); ++i) {
      const KeyView key = flat_.keys()[i].view();
      if (key.is_int || flat_.children()[i].kind() != Kind::kTensor) {
        return bad("stands beside a state that is not a flat dict of tensors");
      }
      by_name_.push_back({key.text, i});
    }
    std::sort(by_name_.begin(), by_name_.end());
    return {};
  }

  Result<Value> state(const Json& json) { return node(json, 0); }
  Result<Value> metadata(const Json& json) {
    in_metadata_ = true;
    return node(json, 0);
  }

  Result<void> check_all_used() const {
    for (std::size_t i = 0; i < restored_.size(); ++i) {
      if (restored_[i] == nullptr) {
        return bad("does not mention the tensor \"" + std::string(flat_.keys()[i].view().text) +
                   "\"; the file was changed after it was written");
      }
    }
    return {};
  }

 private:
  // Recursion is bounded by Limits::depth.
  Result<Value> node(const Json& json, std::uint32_t depth) {
    if (++nodes_ > limits_.nodes) {
      return fail(ErrorCode::kLimitExceeded, std::string("the metadata's ") + kCarriedTreeKey +
                                                 " has more nodes than Limits::nodes allows");
    }
    if (!json.IsObject()) return simple(json);
    const Json* kind_text = member(json, "kind");
    const auto kind = kind_text != nullptr && kind_text->IsString()
                          ? kind_from_name(text_of(*kind_text))
                          : std::nullopt;
    if (!kind) return bad("has a node without a known kind");
    auto value = content(json, *kind, depth);
    if (!value) return value;
    if (const Json* label = member(json, "label")) {
      auto text = string(*label);
      if (!text) return propagate(text);
      return std::move(*value).labelled(std::move(*text));
    }
    return value;
  }

  static Result<std::string> string(const Json& json) {
    if (!json.IsString() || find_invalid_utf8(text_of(json))) {
      return bad("has something else where text should be");
    }
    return std::string(text_of(json));
  }

  static Result<Value> simple(const Json& json) {
    if (json.IsNull()) return Value::null();
    if (json.IsBool()) return Value::boolean(json.GetBool());
    if (json.IsInt64()) return Value::integer(json.GetInt64());
    auto text = string(json);
    if (!text) return propagate(text);
    return Value::string(std::move(*text));
  }

  Result<Value> content(const Json& json, Kind kind, std::uint32_t depth) {
    if (is_container(kind)) return container(json, kind, depth);
    if (kind == Kind::kTensor || kind == Kind::kPlaceholder) {
      if (in_metadata_) return bad("has a tensor in the metadata");
      return kind == Kind::kTensor ? tensor(json) : placeholder(json);
    }
    if (kind == Kind::kNull) {
      if (!has_only(json, {"kind", "label"})) return bad("has a malformed null");
      return Value::null();
    }
    const Json* value = member(json, "value");
    if (value == nullptr || !has_only(json, {"kind", "label", "value"})) {
      return bad("has a malformed " + std::string(kind_name(kind)));
    }
    auto result = scalar(*value, kind);
    if (result && result->kind() != kind) {
      return bad("has a " + std::string(kind_name(kind)) + " with another kind of value");
    }
    return result;
  }

  Result<Value> scalar(const Json& json, Kind kind) const {
    if (kind == Kind::kBool || kind == Kind::kInt64 || kind == Kind::kString) return simple(json);
    auto text = string(json);
    if (!text) return propagate(text);
    if (kind == Kind::kBigInt) {
      auto number = BigInt::from_decimal(*text, limits_.bigint_bytes);
      if (!number && number.error().code == ErrorCode::kLimitExceeded) return propagate(number);
      if (!number) return bad("has a bigint that is not a decimal number");
      return Value::integer(std::move(*number));
    }
    auto bytes = from_hex(*text);
    if (!bytes) return bad("has a value that is not hexadecimal");
    if (kind == Kind::kBytes) return Value::bytes(std::move(*bytes));
    if (bytes->size() != (kind == Kind::kFloat64 ? 8u : 16u)) {
      return bad("has a number of the wrong size");
    }
    const std::span<const std::byte> bits(*bytes);
    if (kind == Kind::kFloat64) return Value::real(from_hex_bits(bits));
    return Value::complex({from_hex_bits(bits.first(8)), from_hex_bits(bits.last(8))});
  }

  Result<Value> container(const Json& json, Kind kind, std::uint32_t depth) {
    if (depth == limits_.depth) {
      return fail(ErrorCode::kLimitExceeded, std::string("the metadata's ") + kCarriedTreeKey +
                                                 " is deeper than Limits::depth allows");
    }
    const Json* items = member(json, "items");
    if (items == nullptr || !items->IsArray() || !has_only(json, {"kind", "label", "items"})) {
      return bad("has a malformed " + std::string(kind_name(kind)));
    }
    Value value = empty(kind);
    for (const Json& item : items->GetArray()) {
      if (!has_keys(kind)) {
        auto child = node(item, depth + 1);
        if (!child) return child;
        value.add(std::move(*child));
        continue;
      }
      if (!item.IsArray() || item.Size() != 2) return bad("has a malformed key");
      auto child = node(item[1], depth + 1);
      if (!child) return child;
      if (item[0].IsInt64() && kind == Kind::kDict) {
        value.add(item[0].GetInt64(), std::move(*child));
      } else {
        auto key = string(item[0]);
        if (!key) return propagate(key);
        value.add(std::move(*key), std::move(*child));
      }
    }
    return value;
  }

  static Value empty(Kind kind) {
    switch (kind) {
      case Kind::kList:
        return Value::list();
      case Kind::kTuple:
        return Value::tuple();
      case Kind::kSet:
        return Value::set();
      case Kind::kRecord:
        return Value::record({});
      default:
        return Value::dict();
    }
  }

  Result<Value> tensor(const Json& json) {
    const Json* name = member(json, "name");
    if (name == nullptr || !name->IsString() ||
        !has_only(json, {"kind", "label", "name", "dtype", "shape", "block", "axes"}) ||
        (member(json, "dtype") == nullptr && !has_only(json, {"kind", "label", "name", "axes"}))) {
      return bad("has a malformed tensor");
    }
    const std::pair<std::string_view, std::size_t> wanted(text_of(*name), 0);
    const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), wanted);
    if (at == by_name_.end() || at->first != wanted.first) {
      return bad("mentions the tensor \"" + std::string(wanted.first) +
                 "\", which the file does not have");
    }
    std::shared_ptr<const Tensor>& restored = restored_[at->second];
    // Tied nodes repeat the name, and what is said of the tensor.
    if (restored == nullptr) {
      const std::shared_ptr<const Tensor> stored = flat_.children()[at->second].as_tensor();
      if (member(json, "dtype") == nullptr && member(json, "axes") == nullptr) {
        restored = stored;
      } else {
        Tensor tensor = *stored;
        if (member(json, "dtype") != nullptr) {
          if (auto ok = read_type(json, tensor); !ok) return propagate(ok);
          const auto bytes = tensor_bytes(tensor.dtype, tensor.shape, tensor.block());
          if (!bytes || stored->dtype != DType::kU8 || stored->shape.size() != 1 ||
              stored->shape[0] != *bytes) {
            return bad("gives the tensor \"" + std::string(wanted.first) +
                       "\" a type that does not fit its bytes");
          }
        }
        if (auto ok = read_axes(json, tensor); !ok) return propagate(ok);
        restored = std::make_shared<const Tensor>(std::move(tensor));
      }
    }
    return Value::tensor(restored);
  }

  Result<Value> placeholder(const Json& json) {
    if (!has_only(json, {"kind", "label", "dtype", "shape", "block", "axes"})) {
      return bad("has a malformed placeholder");
    }
    Tensor tensor;
    if (auto ok = read_type(json, tensor); !ok) return propagate(ok);
    if (!tensor_bytes(tensor.dtype, tensor.shape, tensor.block())) {
      return bad("has a placeholder with an impossible shape");
    }
    if (auto ok = read_axes(json, tensor); !ok) return propagate(ok);
    return Value::tensor(std::move(tensor));
  }

  Result<void> read_type(const Json& json, Tensor& tensor) const {
    const Json* dtype = member(json, "dtype");
    const Json* shape = member(json, "shape");
    const Json* block = member(json, "block");
    const auto known =
        dtype != nullptr && dtype->IsString() ? dtype_from_name(text_of(*dtype)) : std::nullopt;
    if (!known || shape == nullptr || !shape->IsArray() ||
        (block != nullptr) != (*known == DType::kOpaque)) {
      return bad("has a tensor with a malformed type");
    }
    if (shape->Size() > limits_.rank) {
      return fail(ErrorCode::kLimitExceeded, std::string("the metadata's ") + kCarriedTreeKey +
                                                 " has more axes than Limits::rank allows");
    }
    tensor.dtype = *known;
    tensor.shape.clear();
    for (const Json& axis : shape->GetArray()) {
      if (!axis.IsUint64()) return bad("has a tensor with a malformed shape");
      tensor.shape.push_back(axis.GetUint64());
    }
    if (block == nullptr) return {};
    if (!block->IsArray() || block->Size() != 3 || !(*block)[1].IsUint() || !(*block)[2].IsUint()) {
      return bad("has a tensor with a malformed block type");
    }
    auto name = string((*block)[0]);
    if (!name) return propagate(name);
    tensor.block_name = std::move(*name);
    tensor.block_elements = (*block)[1].GetUint();
    tensor.block_bytes = (*block)[2].GetUint();
    return {};
  }

  static Result<void> read_axes(const Json& json, Tensor& tensor) {
    const Json* axes = member(json, "axes");
    if (axes == nullptr) return {};
    if (!axes->IsArray() || axes->Size() != tensor.shape.size()) {
      return bad("has a tensor with malformed axes");
    }
    tensor.axis_names.clear();
    for (const Json& axis : axes->GetArray()) {
      auto name = string(axis);
      if (!name) return propagate(name);
      tensor.axis_names.push_back(std::move(*name));
    }
    return {};
  }

  const Value& flat_;
  const Limits& limits_;
  std::vector<std::pair<std::string_view, std::size_t>> by_name_;
  // What became of each tensor of `flat_`; null for those that were not mentioned yet.
  std::vector<std::shared_ptr<const Tensor>> restored_;
  std::uint64_t nodes_ = 0;
  bool in_metadata_ = false;
};

}  // namespace

Result<std::optional<CarriedState>> restore_carried(const Value& flat, const Value& metadata,
                                                    const Limits& limits) {
  const Value* carried = metadata.find(Key(kCarriedTreeKey));
  if (carried == nullptr || carried->as_string() == nullptr) return std::nullopt;
  const std::string& text = *carried->as_string();
  rapidjson::Document json;
  json.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());
  if (json.HasParseError() || !json.IsObject()) return bad("is not a JSON object");
  const Json* version = member(json, "version");
  if (version == nullptr || !version->IsUint()) return bad("has no version");
  if (version->GetUint() != 1) {
    return fail(ErrorCode::kUnsupportedVersion,
                std::string("the metadata's ") + kCarriedTreeKey + " has version " +
                    std::to_string(version->GetUint()) + " and this library knows version 1");
  }
  const Json* state = member(json, "state");
  const Json* carried_metadata = member(json, "metadata");
  if (state == nullptr || !has_only(json, {"version", "state", "metadata"})) {
    return bad("has other members than version, state and metadata");
  }
  Restorer restorer(flat, limits);
  if (auto ok = restorer.index(); !ok) return propagate(ok);
  auto restored = restorer.state(*state);
  if (!restored) return propagate(restored);
  if (auto ok = restorer.check_all_used(); !ok) return propagate(ok);
  if (carried_metadata == nullptr) {
    // All of it stands in the file as it is.
    Value rest = Value::dict();
    for (std::size_t i = 0; i < metadata.children().size(); ++i) {
      if (metadata.keys()[i] != Key(kCarriedTreeKey)) {
        rest.add(metadata.keys()[i], metadata.children()[i]);
      }
    }
    return CarriedState{std::move(*restored), std::move(rest)};
  }
  auto rest = restorer.metadata(*carried_metadata);
  if (!rest) return propagate(rest);
  if (rest->kind() != Kind::kDict) return bad("has metadata that is not a dict");
  return CarriedState{std::move(*restored), std::move(*rest)};
}

}  // namespace espalier
