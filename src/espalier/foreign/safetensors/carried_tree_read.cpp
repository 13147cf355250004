#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "espalier/base/json_tree.h"
#include "espalier/base/utf8.h"
#include "espalier/dtype.h"
#include "espalier/foreign/safetensors/carried_tree.h"

namespace espalier {
namespace {

tl::unexpected<Error> bad(std::string_view message) {
  return fail(ErrorCode::kSafetensorsInvalid,
              (std::string("the metadata's ") + kCarriedTreeKey + " ").append(message));
}

tl::unexpected<Error> too_deep() {
  return fail(ErrorCode::kLimitExceeded, std::string("the metadata's ") + kCarriedTreeKey +
                                             " is deeper than Limits::depth allows");
}

// Whether an object has only these members, each at most once.
bool has_only(JsonRef object, std::initializer_list<std::string_view> names) {
  std::size_t known = 0;
  for (const std::string_view name : names) known += object.member(name) ? 1 : 0;
  return known == object.size();
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
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::optional<Kind> kind_from_name(std::string_view name) {
  for (std::uint8_t number = 1; number <= kLastKind; ++number) {
    if (kind_name(static_cast<Kind>(number)) == name) return static_cast<Kind>(number);
  }
  return std::nullopt;
}

// Checked here, because the writer of the restored state would blame its own file.
bool has_equal_keys(const Value& container) {
  std::vector<KeyView> keys;
  keys.reserve(container.keys().size());
  for (const Key& key : container.keys()) keys.push_back(key.view());
  std::sort(keys.begin(), keys.end());
  return std::adjacent_find(keys.begin(), keys.end()) != keys.end();
}

// Whether two tensors agree in all but their data.
bool same_type(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.axis_names == b.axis_names &&
         a.block_name == b.block_name && a.block_elements == b.block_elements &&
         a.block_bytes == b.block_bytes;
}

class Restorer {
 public:
  Restorer(const Value& flat, const Limits& limits)
      : flat_(flat), limits_(limits), restored_(flat.children().size()) {}

  // Finds tensors by name.
  Result<void> index() {
    if (flat_.kind() != Kind::kDict) return bad("accompanies a state that is not a flat dict");
    for (std::size_t i = 0; i < flat_.children().size(); ++i) {
      const KeyView key = flat_.keys()[i].view();
      if (key.is_int || flat_.children()[i].kind() != Kind::kTensor) {
        return bad("accompanies a state that is not a flat dict of tensors");
      }
      by_name_.push_back({key.text, i});
    }
    std::sort(by_name_.begin(), by_name_.end());
    return {};
  }

  Result<Value> state(JsonRef json) { return node(json, 0); }
  Result<Value> metadata(JsonRef json) {
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
  Result<Value> node(JsonRef json, std::uint32_t depth) {
    if (++nodes_ > limits_.nodes) {
      return fail(ErrorCode::kLimitExceeded, std::string("the metadata's ") + kCarriedTreeKey +
                                                 " has more nodes than Limits::nodes allows");
    }
    if (!json.is_object()) return simple(json);
    const auto kind_text = json.member("kind");
    const auto kind =
        kind_text && kind_text->text() ? kind_from_name(*kind_text->text()) : std::nullopt;
    if (!kind) return bad("has a node without a known kind");
    auto value = content(json, *kind, depth);
    if (!value) return value;
    if (const auto label = json.member("label")) {
      auto text = string(*label);
      if (!text) return propagate(text);
      return std::move(*value).labelled(std::move(*text));
    }
    return value;
  }

  static Result<std::string> string(JsonRef json) {
    const auto text = json.text();
    if (!text || find_invalid_utf8(*text)) return bad("has another value where text is expected");
    return std::string(*text);
  }

  static Result<Value> simple(JsonRef json) {
    if (json.is_null()) return Value::null();
    if (const auto boolean = json.boolean()) return Value::boolean(*boolean);
    if (const auto integer = json.int64()) return Value::integer(*integer);
    auto text = string(json);
    if (!text) return propagate(text);
    return Value::string(std::move(*text));
  }

  Result<Value> content(JsonRef json, Kind kind, std::uint32_t depth) {
    if (is_container(kind)) return container(json, kind, depth);
    if (kind == Kind::kTensor || kind == Kind::kPlaceholder) {
      if (in_metadata_) return bad("has a tensor in the metadata");
      return kind == Kind::kTensor ? tensor(json) : placeholder(json);
    }
    if (kind == Kind::kNull) {
      if (!has_only(json, {"kind", "label"})) return bad("has a malformed null");
      return Value::null();
    }
    const auto value = json.member("value");
    if (!value || !has_only(json, {"kind", "label", "value"})) {
      return bad("has a malformed " + std::string(kind_name(kind)));
    }
    auto result = scalar(*value, kind);
    if (result && result->kind() != kind) {
      return bad("has a " + std::string(kind_name(kind)) + " with another kind of value");
    }
    return result;
  }

  Result<Value> scalar(JsonRef json, Kind kind) const {
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

  Result<Value> container(JsonRef json, Kind kind, std::uint32_t depth) {
    if (depth == limits_.depth) {
      return too_deep();
    }
    const auto items = json.member("items");
    if (!items || !items->is_array() || !has_only(json, {"kind", "label", "items"})) {
      return bad("has a malformed " + std::string(kind_name(kind)));
    }
    Value value = Value::container(kind);
    for (const JsonRef item : *items) {
      if (!has_keys(kind)) {
        auto child = node(item, depth + 1);
        if (!child) return child;
        value.add(std::move(*child));
        continue;
      }
      if (!item.is_array() || item.size() != 2) return bad("has a malformed key");
      const JsonRef name = *item.begin();
      auto child = node(*++item.begin(), depth + 1);
      if (!child) return child;
      if (name.int64() && kind == Kind::kDict) {
        value.add(*name.int64(), std::move(*child));
      } else {
        auto key = string(name);
        if (!key) return propagate(key);
        value.add(std::move(*key), std::move(*child));
      }
    }
    if (has_equal_keys(value)) {
      return bad("has a " + std::string(kind_name(kind)) + " with the same key twice");
    }
    return value;
  }

  Result<Value> tensor(JsonRef json) {
    const auto name = json.member("name");
    if (!name || !name->text() ||
        !has_only(json, {"kind", "label", "name", "dtype", "shape", "block", "axes"}) ||
        (!json.member("dtype") && !has_only(json, {"kind", "label", "name", "axes"}))) {
      return bad("has a malformed tensor");
    }
    const std::pair<std::string_view, std::size_t> wanted(*name->text(), 0);
    const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), wanted);
    if (at == by_name_.end() || at->first != wanted.first) {
      return bad("mentions the tensor \"" + std::string(wanted.first) +
                 "\", which the file does not have");
    }
    const std::shared_ptr<const Tensor> stored = flat_.children()[at->second].as_tensor();
    Tensor said = *stored;
    if (json.member("dtype")) {
      if (auto ok = read_type(json, said); !ok) return propagate(ok);
      if (stored->dtype != DType::kU8 || stored->shape.size() != 1 ||
          tensor_bytes(said.dtype, said.shape, said.block()) != stored->shape[0]) {
        return bad("gives the tensor \"" + std::string(wanted.first) +
                   "\" a type that does not fit its bytes");
      }
    }
    if (auto ok = read_axes(json, said); !ok) return propagate(ok);
    std::shared_ptr<const Tensor>& restored = restored_[at->second];
    // Tied nodes repeat the name and the description of the tensor.
    if (restored == nullptr) {
      restored =
          same_type(said, *stored) ? stored : std::make_shared<const Tensor>(std::move(said));
    } else if (!same_type(said, *restored)) {
      return bad("mentions the tensor \"" + std::string(wanted.first) +
                 "\" twice, with different types or axes");
    }
    return Value::tensor(restored);
  }

  Result<Value> placeholder(JsonRef json) {
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

  Result<void> read_type(JsonRef json, Tensor& tensor) const {
    const auto dtype = json.member("dtype");
    const auto shape = json.member("shape");
    const auto block = json.member("block");
    const auto known = dtype && dtype->text() ? dtype_from_name(*dtype->text()) : std::nullopt;
    if (!known || !shape || !shape->is_array() || block.has_value() != (*known == DType::kOpaque)) {
      return bad("has a tensor with a malformed type");
    }
    if (shape->size() > limits_.rank) {
      return fail(ErrorCode::kLimitExceeded, std::string("the metadata's ") + kCarriedTreeKey +
                                                 " has more axes than Limits::rank allows");
    }
    tensor.dtype = *known;
    tensor.shape.clear();
    for (const JsonRef axis : *shape) {
      const auto length = axis.uint64();
      if (!length) return bad("has a tensor with a malformed shape");
      tensor.shape.push_back(*length);
    }
    if (!block) return {};
    if (!block->is_array() || block->size() != 3) {
      return bad("has a tensor with a malformed block type");
    }
    const std::vector<JsonRef> parts(block->begin(), block->end());
    auto name = string(parts[0]);
    if (!name) return propagate(name);
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
    const auto elements = parts[1].uint64();
    const auto bytes = parts[2].uint64();
    if (!elements || !bytes || *elements > kMax || *bytes > kMax) {
      return bad("has a tensor with a malformed block type");
    }
    tensor.block_name = std::move(*name);
    tensor.block_elements = static_cast<std::uint32_t>(*elements);
    tensor.block_bytes = static_cast<std::uint32_t>(*bytes);
    return {};
  }

  static Result<void> read_axes(JsonRef json, Tensor& tensor) {
    const auto axes = json.member("axes");
    if (!axes) return {};
    if (!axes->is_array() || axes->size() != tensor.shape.size()) {
      return bad("has a tensor with malformed axes");
    }
    tensor.axis_names.clear();
    for (const JsonRef axis : *axes) {
      auto name = string(axis);
      if (!name) return propagate(name);
      tensor.axis_names.push_back(std::move(*name));
    }
    return {};
  }

  const Value& flat_;
  const Limits& limits_;
  std::vector<std::pair<std::string_view, std::size_t>> by_name_;
  // The restored tensor for each tensor of `flat_`; null until it is mentioned.
  std::vector<std::shared_ptr<const Tensor>> restored_;
  std::uint64_t nodes_ = 0;
  bool in_metadata_ = false;
};

}  // namespace

Result<std::optional<CarriedState>> restore_carried(const Value& flat, const Value& metadata,
                                                    const Limits& limits) {
  const Value* carried = metadata.find(Key(kCarriedTreeKey));
  if (carried == nullptr || carried->as_string() == nullptr) return std::nullopt;
  // A level of the tree takes three of JSON: an object, its items, a key with its value.
  auto tree = JsonTree::parse(*carried->as_string(), 3 * limits.depth + 3);
  if (!tree) {
    return tree.error().code == ErrorCode::kLimitExceeded ? too_deep() : bad("is not JSON");
  }
  const JsonRef json = tree->root();
  if (!json.is_object()) return bad("is not a JSON object");
  const auto version = json.member("version");
  if (!version || !version->uint64()) return bad("has no version");
  if (*version->uint64() != 1) {
    return fail(ErrorCode::kUnsupportedVersion,
                std::string("the metadata's ") + kCarriedTreeKey + " has version " +
                    std::to_string(*version->uint64()) + " and this library knows version 1");
  }
  const auto state = json.member("state");
  const auto carried_metadata = json.member("metadata");
  if (!state || !has_only(json, {"version", "state", "metadata"})) {
    return bad("has other members than version, state and metadata");
  }
  Restorer restorer(flat, limits);
  if (auto ok = restorer.index(); !ok) return propagate(ok);
  auto restored = restorer.state(*state);
  if (!restored) return propagate(restored);
  if (auto ok = restorer.check_all_used(); !ok) return propagate(ok);
  if (!carried_metadata) {
    // All metadata is in the file unchanged.
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
