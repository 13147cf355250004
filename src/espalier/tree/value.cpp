#include "espalier/value.h"

#include <algorithm>

#include "espalier/base/checked.h"
#include "espalier/tree/key_index.h"

namespace espalier {

// What instantiates std::variant stands here and not in the header: it would double the time that
// every file that includes the header takes to compile.
TensorData::TensorData() = default;
TensorData::TensorData(const TensorData& other) = default;
TensorData::TensorData(TensorData&& other) noexcept = default;
TensorData& TensorData::operator=(const TensorData& other) = default;
TensorData& TensorData::operator=(TensorData&& other) noexcept = default;
TensorData::~TensorData() = default;

TensorData TensorData::borrowed(ByteSpan bytes) { return kept(bytes, nullptr); }

TensorData TensorData::kept(ByteSpan bytes, std::shared_ptr<const void> keeper) {
  TensorData data;
  data.source_ = Memory{bytes, std::move(keeper)};
  return data;
}

TensorData TensorData::kept_writable(MutableByteSpan bytes, std::shared_ptr<const void> keeper) {
  TensorData data;
  data.source_ = Memory{bytes, std::move(keeper), true};
  return data;
}

TensorData TensorData::owned(std::vector<std::byte> bytes) {
  auto keeper = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const ByteSpan view(*keeper);
  return kept(view, std::move(keeper));
}

TensorData TensorData::produced(Producer producer) {
  TensorData data;
  data.source_ = std::move(producer);
  return data;
}

TensorData TensorData::streamed(Reader reader) {
  TensorData data;
  if (reader) data.source_ = std::make_shared<Stream>(Stream{std::move(reader)});
  return data;
}

bool TensorData::is_streamed() const {
  return std::holds_alternative<std::shared_ptr<Stream>>(source_);
}

bool TensorData::is_placeholder() const { return std::holds_alternative<std::monostate>(source_); }

TensorData TensorData::also_stored(std::shared_ptr<const StoredTensor> stored) && {
  stored_ = std::move(stored);
  return std::move(*this);
}

std::optional<ByteSpan> TensorData::memory() const {
  const Memory* memory = std::get_if<Memory>(&source_);
  return memory != nullptr ? std::optional(memory->bytes) : std::nullopt;
}

std::optional<MutableByteSpan> TensorData::writable_memory() const {
  const Memory* memory = std::get_if<Memory>(&source_);
  if (memory == nullptr || !memory->is_writable) return std::nullopt;
  return MutableByteSpan(const_cast<std::byte*>(memory->bytes.data()), memory->bytes.size());
}

Result<void> TensorData::read(std::uint64_t offset, MutableByteSpan out) const {
  if (const Producer* producer = std::get_if<Producer>(&source_)) return (*producer)(offset, out);
  if (const auto* held = std::get_if<std::shared_ptr<Stream>>(&source_)) {
    Stream& stream = **held;
    // Moved on first, so that a reader that failed or threw is never asked again.
    if (offset != std::exchange(stream.offset, ~std::uint64_t{0})) {
      return fail(
          ErrorCode::kInvalidArgument,
          "the bytes of a streamed tensor can be read once, in order; give the tensor a new "
          "reader for each save");
    }
    auto read = stream.reader(out);
    if (read) stream.offset = offset + out.size();
    return read;
  }
  const auto bytes = memory();
  if (!bytes || !range_fits(offset, out.size(), bytes->size())) {
    return fail(ErrorCode::kInvalidTree, "a tensor has fewer bytes than its shape needs");
  }
  std::copy_n(bytes->data() + offset, out.size(), out.data());
  return {};
}

Value::Value() noexcept = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) { return *this = Value(other); }
Value& Value::operator=(Value&& other) noexcept = default;

Value::~Value() {
  auto* children = std::get_if<std::unique_ptr<Children>>(&payload_);
  if (children != nullptr && *children != nullptr) take_apart(std::move(*children));
}

Value::Value(Kind kind, Payload payload) : kind_(kind), payload_(std::move(payload)) {}

// The children; null if there are none, of any kind.
const Value::Children* Value::held() const {
  const auto* children = std::get_if<std::unique_ptr<Children>>(&payload_);
  return children != nullptr ? children->get() : nullptr;
}

Value::Children* Value::held() {
  auto* children = std::get_if<std::unique_ptr<Children>>(&payload_);
  return children != nullptr ? children->get() : nullptr;
}

// For containers alone.
Value::Children& Value::held_or_new() {
  auto* children = std::get_if<std::unique_ptr<Children>>(&payload_);
  if (*children == nullptr) *children = std::make_unique<Children>();
  return **children;
}

// A copy without the children of a container.
Value Value::without_children() const {
  Value copy(kind_, std::visit(
                        [](const auto& payload) {
                          using T = std::decay_t<decltype(payload)>;
                          if constexpr (std::is_same_v<T, std::unique_ptr<Children>>) {
                            return Payload(std::unique_ptr<Children>());
                          } else {
                            return Payload(payload);
                          }
                        },
                        payload_));
  copy.has_lost_child_ = has_lost_child_;
  if (label_ != nullptr) copy.label_ = std::make_unique<const std::string>(*label_);
  return copy;
}

Value::Value(const Value& other) : Value(other.without_children()) {
  if (other.children().empty()) return;
  // Copies the children of containers that have none yet. No recursion, because there may be a
  // million levels.
  std::vector<std::pair<const Children*, Children*>> pending = {{other.held(), &held_or_new()}};
  while (!pending.empty()) {
    const auto [from, to] = pending.back();
    pending.pop_back();
    to->keys = from->keys;
    to->values.reserve(from->values.size());  // So that none of them moves again.
    for (const Value& child : from->values) {
      Value& copy = to->values.emplace_back(child.without_children());
      if (!child.children().empty()) pending.emplace_back(child.held(), &copy.held_or_new());
    }
  }
}

// Destroys values and all below them without recursion, and without allocation, because a
// destructor cannot report failure. On the way down, the link back up is stored in the child's
// slot.
void Value::take_apart(std::unique_ptr<Children> level) noexcept {
  const auto take = [](Value& value) {
    return std::move(*std::get_if<std::unique_ptr<Children>>(&value.payload_));
  };
  Value up;  // The level above; its last value is the level above that. Null at the top.
  for (;;) {
    std::vector<Value>& values = level->values;
    while (!values.empty() && values.back().children().empty()) values.pop_back();
    if (!values.empty()) {
      std::unique_ptr<Children> next = take(values.back());
      values.back() = std::move(up);
      up = Value(Kind::kList, std::move(level));
      level = std::move(next);
      continue;
    }
    if (up.held() == nullptr) return;
    level = take(up);
    up = std::move(level->values.back());
    level->values.pop_back();
  }
}

Value Value::boolean(bool value) { return Value(Kind::kBool, value); }
Value Value::integer(std::int64_t value) { return Value(Kind::kInt64, value); }

Value Value::integer(BigInt value) {
  if (const auto small = value.to_int64()) return integer(*small);
  return Value(Kind::kBigInt, std::move(value));
}

Value Value::real(double value) { return Value(Kind::kFloat64, value); }
Value Value::complex(Complex value) { return Value(Kind::kComplex128, value); }
Value Value::string(std::string text) { return Value(Kind::kString, std::move(text)); }
Value Value::bytes(std::vector<std::byte> data) { return Value(Kind::kBytes, std::move(data)); }
Value Value::dict() { return keyed(Kind::kDict, {}); }
Value Value::dict(std::vector<Item> items) { return keyed(Kind::kDict, std::move(items)); }
Value Value::record() { return keyed(Kind::kRecord, {}); }
Value Value::record(std::vector<Item> fields) { return keyed(Kind::kRecord, std::move(fields)); }

Value Value::list() { return sequence(Kind::kList, {}); }
Value Value::list(std::vector<Value> elements) {
  return sequence(Kind::kList, std::move(elements));
}

Value Value::tuple() { return sequence(Kind::kTuple, {}); }
Value Value::tuple(std::vector<Value> elements) {
  return sequence(Kind::kTuple, std::move(elements));
}

Value Value::set() { return sequence(Kind::kSet, {}); }
Value Value::set(std::vector<Value> elements) { return sequence(Kind::kSet, std::move(elements)); }

Value Value::container(Kind kind) {
  return is_container(kind) ? Value(kind, std::unique_ptr<Children>()) : Value();
}

Value Value::tensor(Tensor tensor) {
  return Value::tensor(std::make_shared<const Tensor>(std::move(tensor)));
}

Value Value::tensor(std::shared_ptr<const Tensor> tensor) {
  if (tensor == nullptr) return Value();
  const Kind kind = tensor->data.is_placeholder() ? Kind::kPlaceholder : Kind::kTensor;
  return Value(kind, std::move(tensor));
}

Value Value::tensor(TensorElements elements, std::vector<std::uint64_t> shape) {
  return tensor(
      Tensor{.dtype = elements.dtype, .shape = std::move(shape), .data = std::move(elements.data)});
}

Value Value::keyed(Kind kind, std::vector<Item> items) {
  Value value = container(kind);
  value.reserve(items.size());
  for (Item& item : items) value.add(std::move(item.first), std::move(item.second));
  return value;
}

Value Value::sequence(Kind kind, std::vector<Value> elements) {
  Value value = container(kind);
  if (!elements.empty()) value.held_or_new().values = std::move(elements);
  return value;
}

Value Value::labelled(std::string label) && {
  label_ = std::make_unique<const std::string>(std::move(label));
  return std::move(*this);
}

template <class T>
std::optional<T> Value::get() const {
  const T* value = std::get_if<T>(&payload_);
  return value != nullptr ? std::optional<T>(*value) : std::nullopt;
}

std::optional<bool> Value::as_bool() const { return get<bool>(); }
std::optional<std::int64_t> Value::as_int64() const { return get<std::int64_t>(); }
const BigInt* Value::as_bigint() const& { return std::get_if<BigInt>(&payload_); }
std::optional<double> Value::as_double() const { return get<double>(); }

std::optional<Complex> Value::as_complex() const { return get<Complex>(); }

const std::string* Value::as_string() const& { return std::get_if<std::string>(&payload_); }

const std::vector<std::byte>* Value::as_bytes() const& {
  return std::get_if<std::vector<std::byte>>(&payload_);
}

std::shared_ptr<const Tensor> Value::as_tensor() const {
  const auto* tensor = std::get_if<std::shared_ptr<const Tensor>>(&payload_);
  return tensor != nullptr ? *tensor : nullptr;
}

std::optional<std::string> Value::defect() const {
  const auto* tensor = std::get_if<std::shared_ptr<const Tensor>>(&payload_);
  if (tensor != nullptr && *tensor == nullptr) {
    return "a tensor was moved out of the tree before the save; copy its Value instead";
  }
  if (!has_lost_child_) return std::nullopt;
  const std::string name(kind_name(kind_));
  if (!is_container(kind_)) {
    return "add() was called on a value of kind " + name +
           ", which has no children; make it a dict or a list first";
  }
  return "add() was called on a " + name +
         (has_keys(kind_) ? " without a key; give one" : " with a key; leave it out");
}

std::span<const Value> Value::children() const& {
  const Children* children = held();
  return children != nullptr ? std::span<const Value>(children->values) : std::span<const Value>();
}

std::span<Value> Value::children() & {
  Children* children = held();
  return children != nullptr ? std::span<Value>(children->values) : std::span<Value>();
}

std::span<const Key> Value::keys() const& {
  const Children* children = held();
  return children != nullptr ? std::span<const Key>(children->keys) : std::span<const Key>();
}

std::optional<std::size_t> Value::position_of(KeyView key, KeyIndex* index) const {
  if (!has_keys(kind_)) {
    const auto count = static_cast<std::int64_t>(children().size());
    if (!key.is_int || key.integer < 0 || key.integer >= count) return std::nullopt;
    return static_cast<std::size_t>(key.integer);
  }
  const auto all = keys();
  if (index != nullptr) return index->find(all, key);
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Key& each) { return each.view() == key; });
  if (at == all.end()) return std::nullopt;
  return static_cast<std::size_t>(at - all.begin());
}

std::optional<std::size_t> Value::position_of(KeyView key) const {
  const Children* children = held();
  // Const access is thread-safe, so it uses an index that knows all keys, and makes none.
  const bool is_indexed = children != nullptr && children->index != nullptr &&
                          children->index->size() == children->keys.size();
  return position_of(key, is_indexed ? children->index.get() : nullptr);
}

std::optional<std::size_t> Value::position_of(KeyView key) {
  Children* children = held();
  if (children == nullptr || children->keys.size() < KeyIndex::kLeast) {
    return position_of(key, nullptr);
  }
  if (children->index == nullptr) children->index = std::make_shared<KeyIndex>();
  children->index->extend(children->keys);
  return position_of(key, children->index.get());
}

const Value* Value::find(const Key& key) const& {
  if (!has_keys(kind_)) return nullptr;
  const auto position = position_of(key.view());
  return position ? &children()[*position] : nullptr;
}

Value* Value::find(const Key& key) & {
  if (!has_keys(kind_)) return nullptr;
  const auto position = position_of(key.view());
  return position ? &children()[*position] : nullptr;
}

void Value::reserve(std::size_t count) {
  if (!is_container(kind_) || count == 0) return;
  Children& children = held_or_new();
  children.values.reserve(count);
  if (has_keys(kind_)) children.keys.reserve(count);
}

void Value::add(Key key, Value value) {
  if (!has_keys(kind_)) {
    has_lost_child_ = true;
    return;
  }
  Children& children = held_or_new();
  children.keys.push_back(std::move(key));
  children.values.push_back(std::move(value));
}

void Value::add(Value value) {
  if (!is_container(kind_) || has_keys(kind_)) {
    has_lost_child_ = true;
    return;
  }
  held_or_new().values.push_back(std::move(value));
}

}  // namespace espalier
