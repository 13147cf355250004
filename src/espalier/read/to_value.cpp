#include "espalier/read/to_value.h"

#include <memory>
#include <string>
#include <utility>

namespace espalier {
namespace {

// The node's kind and value, without label and children.
Value plain_value(const NodeRef& node) {
  switch (node.kind()) {
    case Kind::kNull:
      return Value::null();
    case Kind::kBool:
      return Value::boolean(*node.as_bool());
    case Kind::kInt64:
      return Value::integer(*node.as_int64());
    case Kind::kBigInt:
      return Value::integer(*node.as_bigint());
    case Kind::kFloat64:
      return Value::real(*node.as_double());
    case Kind::kComplex128:
      return Value::complex(*node.as_complex());
    case Kind::kString:
      return Value::string(std::string(*node.as_string()));
    case Kind::kBytes: {
      const ByteSpan bytes = *node.as_bytes();
      return Value::bytes({bytes.begin(), bytes.end()});
    }
    case Kind::kDict:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kSet:
    case Kind::kRecord:
      return Value::container(node.kind());
    case Kind::kTensor:
    case Kind::kPlaceholder:
      return Value::tensor(to_tensor(*node.tensor()));
  }
  return Value::null();
}

Value with_label_of(const NodeRef& node, Value value) {
  if (const auto label = node.label()) return std::move(value).labelled(std::string(*label));
  return value;
}

}  // namespace

Result<Value> ValueMaker::make(const NodeRef& node) {
  if (const auto ref = node.tensor()) {
    auto value = make_tensor(*ref);
    if (!value) return value;
    return with_label_of(node, std::move(*value));
  }
  Value value = to_value_alone(node);
  const bool keyed = has_keys(node.kind());
  value.reserve(node.size());
  for (std::uint32_t i = 0; i < node.size(); ++i) {
    auto child = make(node.child(i));
    if (!child) return child;
    if (keyed) {
      value.add(Key(node.key(i)), std::move(*child));
    } else {
      value.add(std::move(*child));
    }
  }
  return value;
}

Result<Value> ValueMaker::make_tensor(const TensorRef& ref) {
  const auto [at, is_new] = tensors_.try_emplace(ref.number());
  if (!is_new) return Value::tensor(at->second);
  TensorData data;
  if (!ref.is_placeholder() && load_) {
    auto loaded = load_(ref);
    if (!loaded) return propagate(loaded);
    data = std::move(*loaded);
  }
  at->second = std::make_shared<const Tensor>(to_tensor(ref, std::move(data)));
  return Value::tensor(at->second);
}

Result<Value> to_value(const NodeRef& root, const TensorLoader& load) {
  return ValueMaker(load).make(root);
}

Result<std::vector<Value>> to_values(std::span<const NodeRef> roots, const TensorLoader& load) {
  ValueMaker maker(load);
  std::vector<Value> values;
  values.reserve(roots.size());
  for (const NodeRef& root : roots) {
    auto value = maker.make(root);
    if (!value) return propagate(value);
    values.push_back(std::move(*value));
  }
  return values;
}

Value to_value(const NodeRef& root) {
  // Without a loader nothing can fail.
  return to_value(root, TensorLoader()).value_or(Value::null());
}

Value to_value_alone(const NodeRef& node) { return with_label_of(node, plain_value(node)); }

Tensor to_tensor(const TensorRef& ref, TensorData data) {
  Tensor tensor;
  tensor.dtype = ref.dtype();
  tensor.shape.assign(ref.shape().begin(), ref.shape().end());
  tensor.data = std::move(data);
  for (const std::string_view name : ref.axis_names()) tensor.axis_names.emplace_back(name);
  const BlockType block = ref.block();
  tensor.block_name = std::string(block.name);
  tensor.block_elements = block.elements;
  tensor.block_bytes = block.bytes;
  return tensor;
}

}  // namespace espalier
