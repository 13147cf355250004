// The owning state tree: programs build one to save it, and get one from a load.
//
//   Value state = Value::dict({
//       {"model", Value::dict({{"weight", Value::tensor(borrow(weight), {2, 3})}})},
//       {"optimizer", Value::dict({{0, Value::dict({{"step", 100}})}})},
//       {"betas", Value::tuple({0.9, 0.999})},
//   });
//
// Values are plain: copying one copies the tree but shares its tensors; const access is
// thread-safe. A tree may have any depth: readers and writers limit it, and destroying or copying
// one uses no recursion.
#ifndef ESPALIER_VALUE_H_
#define ESPALIER_VALUE_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "espalier/bigint.h"
#include "espalier/bytes.h"
#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/key_path.h"
#include "espalier/kind.h"

namespace espalier {

struct StoredTensor;  // in format/stored_tensor.h
class KeyIndex;       // in tree/key_index.h

/// The source of a tensor's bytes when it is written: memory, a function that makes them, or a
/// stream.
class TensorData {
 public:
  /// Fills `out` with the tensor's bytes from byte `offset` on. A writer may call it from several
  /// threads at once, for different ranges in any order, each byte once. Errors end the save.
  using Producer = std::function<Result<void>(std::uint64_t offset, MutableByteSpan out)>;

  /// Fills `out` with the next bytes of the tensor. A save calls it in the order of the bytes, each
  /// byte once, from one thread at a time, though not always the same one. Errors end the save, and
  /// after one it is not called again.
  using Reader = std::function<Result<void>(MutableByteSpan out)>;

  /// No data: a placeholder.
  TensorData();
  TensorData(const TensorData& other);
  TensorData(TensorData&& other) noexcept;
  TensorData& operator=(const TensorData& other);
  TensorData& operator=(TensorData&& other) noexcept;
  ~TensorData();

  /// Bytes that the caller keeps alive and unchanged for as long as the tensor is used.
  static TensorData borrowed(ByteSpan bytes);
  /// Bytes that `keeper` keeps alive, for example a mapped file or a framework's array.
  static TensorData kept(ByteSpan bytes, std::shared_ptr<const void> keeper);
  /// The same for bytes that who loads them may write to: see writable_memory().
  static TensorData kept_writable(MutableByteSpan bytes, std::shared_ptr<const void> keeper);
  /// Bytes that the tensor owns.
  static TensorData owned(std::vector<std::byte> bytes);
  /// Bytes made on demand, for a state larger than memory.
  static TensorData produced(Producer producer);
  /// Bytes that come in order: from a pipe, a socket, a generator. They can be read once, so the
  /// tensor is good for one save; copies share what was read. A save reads one such tensor after
  /// the other, never two at once. A placeholder if `reader` is empty.
  static TensorData streamed(Reader reader);

  bool is_streamed() const;
  bool is_placeholder() const;
  /// The bytes, if they are in memory; valid while this object (or a copy) lives.
  std::optional<ByteSpan> memory() const;
  /// The same if they may be written to, as those that CheckpointFile::load_writable() gives.
  std::optional<MutableByteSpan> writable_memory() const;
  /// Fills `out` from byte `offset` on, from memory, the producer or the reader. kInvalidArgument
  /// if a stream is not at `offset`: streams are not thread-safe.
  [[nodiscard]] Result<void> read(std::uint64_t offset, MutableByteSpan out) const;

  /// The same data, which are also stored in a checkpoint: a save may take them over from there.
  /// CheckpointFile says so of what it loads.
  TensorData also_stored(std::shared_ptr<const StoredTensor> stored) &&;
  /// Where they are stored, or null.
  const StoredTensor* stored() const { return stored_.get(); }

 private:
  struct Memory {
    ByteSpan bytes;
    std::shared_ptr<const void> keeper;
    bool is_writable = false;  // the bytes were given as such
  };
  struct Stream {
    Reader reader;
    std::uint64_t offset = 0;  // of the next byte
  };

  std::variant<std::monostate, Memory, Producer, std::shared_ptr<Stream>> source_;
  std::shared_ptr<const StoredTensor> stored_;
};

/// A tensor of a state tree. `data` holds the elements in C order, packed, little-endian. Its
/// length follows from dtype and shape (see tensor_bytes()); saving checks it.
struct Tensor {
  DType dtype = DType::kF32;
  /// Elements along each axis; empty for a 0-d tensor.
  std::vector<std::uint64_t> shape = {};
  TensorData data = {};
  /// A name for each axis (empty text: unnamed), or nothing at all.
  std::vector<std::string> axis_names = {};
  /// For kOpaque only: the block type's name, elements per block and bytes per block.
  std::string block_name = {};
  std::uint32_t block_elements = 0;
  std::uint32_t block_bytes = 0;

  BlockType block() const { return {block_name, block_elements, block_bytes}; }
};

/// Elements for a tensor, and their dtype. borrow() and own() make one.
struct TensorElements {
  DType dtype = DType::kF32;
  TensorData data;
};

/// Elements that stay where they are, in a vector, array or span. You keep them alive and unchanged
/// for as long as the tensor is used: a tree of them must not outlive them.
template <ElementRange Range>
requires(std::is_lvalue_reference_v<Range> ||
         std::ranges::enable_borrowed_range<Range>) TensorElements
    borrow(Range&& elements ESPALIER_LIFETIMEBOUND) {
  const std::span range(elements);
  return {dtype_of<typename decltype(range)::element_type>,
          TensorData::borrowed(std::as_bytes(range))};
}

/// Elements that the tensor owns: those of a temporary or moved container, which is moved, and a
/// copy of any others.
template <ElementRange Range>
TensorElements own(Range&& elements) {
  constexpr DType kDType = dtype_of<typename decltype(std::span(elements))::element_type>;
  if constexpr (std::is_lvalue_reference_v<Range> || std::ranges::enable_borrowed_range<Range>) {
    const auto bytes = std::as_bytes(std::span(elements));
    return {kDType, TensorData::owned({bytes.begin(), bytes.end()})};
  } else {
    auto keeper = std::make_shared<Range>(std::forward<Range>(elements));
    const auto bytes = std::as_bytes(std::span(*keeper));
    return {kDType, TensorData::kept(bytes, std::move(keeper))};
  }
}

/// One node of a state tree, with everything below it.
class Value {
 public:
  using LendsWhatEndsWithIt = void;
  /// A child of a dict or record under construction.
  using Item = std::pair<Key, Value>;

  /// Null.
  Value() noexcept;
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  // So that `Value::dict({{"step", 7}, {"name", "run"}})` is one. A u64 beyond int64 becomes a
  // kBigInt. Text must be UTF-8, and a C string must not be null.
  template <class T>
  requires(DTypeOf<T>::value == DType::kBool) Value(T value) : Value(boolean(value)) {}
  template <std::integral T>
  requires(DTypeOf<T>::value != DType::kBool) Value(T value) : Value(integer_of(value)) {}
  template <std::floating_point T>
  requires(sizeof(T) <= sizeof(double)) Value(T value) : Value(real(static_cast<double>(value))) {}
  template <ComplexNumber T>
  Value(T value) : Value(complex(value)) {}
  Value(std::string text) : Value(string(std::move(text))) {}
  Value(std::string_view text) : Value(string(std::string(text))) {}
  Value(const char* text) : Value(string(text)) {}
  Value(std::nullptr_t) noexcept : Value() {}

  static Value null() { return Value(); }
  static Value boolean(bool value);
  static Value integer(std::int64_t value);
  /// An integer of any size; one that fits an int64 becomes kind kInt64.
  static Value integer(BigInt value);
  static Value real(double value);
  static Value complex(Complex value);
  /// `text` must be UTF-8; saving checks it.
  static Value string(std::string text);
  static Value bytes(std::vector<std::byte> data);
  static Value dict();
  static Value dict(std::vector<Item> items);
  static Value list();
  static Value list(std::vector<Value> elements);
  static Value tuple();
  static Value tuple(std::vector<Value> elements);
  static Value set();
  static Value set(std::vector<Value> elements);
  /// Named fields, in order; keys must be strings. The type's name goes into the label.
  static Value record();
  static Value record(std::vector<Item> fields);
  /// An empty dict, list, tuple, set or record; null for other kinds.
  static Value container(Kind kind);
  /// A tensor, or a placeholder if it has no data.
  static Value tensor(Tensor tensor);
  /// The same: two nodes with the same pointer are tied, and are stored once.
  /// Null if there is none.
  static Value tensor(std::shared_ptr<const Tensor> tensor);
  /// A tensor of elements: `Value::tensor(borrow(weight), {2, 3})`, or `own(weight)`. Saving checks
  /// that the shape has as many.
  static Value tensor(TensorElements elements, std::vector<std::uint64_t> shape);
  /// The same of a temporary vector or array, or a moved one, which the tensor then owns.
  template <ElementRange Range>
  requires(!std::is_lvalue_reference_v<Range> &&
           !std::ranges::enable_borrowed_range<Range>) static Value
      tensor(Range&& elements, std::vector<std::uint64_t> shape) {
    return tensor(own(std::forward<Range>(elements)), std::move(shape));
  }
  /// Of others, say which: borrow(elements) or own(elements).
  template <ElementRange Range>
  requires(std::is_lvalue_reference_v<Range> ||
           std::ranges::enable_borrowed_range<Range>) static Value
      tensor(Range&& borrow_or_own, std::vector<std::uint64_t> shape) = delete;

  /// This value with a label ("collections.OrderedDict", "torch.Size"), which tells a reader the
  /// original type.
  Value labelled(std::string label) &&;

  Kind kind() const { return kind_; }
  /// The label; empty if there is none (a label may be an empty text too: see has_label()).
  std::string_view label() const& {
    return label_ != nullptr ? std::string_view(*label_) : std::string_view();
  }
  std::string_view label() && = delete;  // It, and what else points into a value, would dangle.
  bool has_label() const { return label_ != nullptr; }

  // The value, or nullopt if the node is of another kind.
  std::optional<bool> as_bool() const;
  std::optional<std::int64_t> as_int64() const;
  const BigInt* as_bigint() const&;
  const BigInt* as_bigint() && = delete;
  std::optional<double> as_double() const;
  std::optional<Complex> as_complex() const;
  const std::string* as_string() const&;
  const std::string* as_string() && = delete;
  const std::vector<std::byte>* as_bytes() const&;
  const std::vector<std::byte>* as_bytes() && = delete;
  /// The tensor or placeholder, or null.
  std::shared_ptr<const Tensor> as_tensor() const;

  /// Why this value itself cannot be saved; nothing if it can. Saving it fails with kInvalidTree
  /// and this message, because writing anything would silently lose data: the content of a tensor
  /// was moved into another Value, or add() was called with a child that this kind cannot hold.
  std::optional<std::string> defect() const;

  /// Children of a container, in order; empty for other kinds. Valid until the value changes.
  std::span<const Value> children() const&;
  /// The same to change them in place.
  std::span<Value> children() &;
  std::span<Value> children() && = delete;
  /// Keys of a dict's or record's children, in the same order; empty for other kinds.
  std::span<const Key> keys() const&;
  std::span<const Key> keys() && = delete;
  /// The child under `key` of a dict or record, or null. Takes constant time once a call that may
  /// change the value (this without const, at(), set()) has looked for a key; linear before.
  const Value* find(const Key& key) const&;
  Value* find(const Key& key) &;
  Value* find(const Key& key) && = delete;

  /// A child of a container, and its key, or its position in a list, tuple or set.
  template <class AnyValue>
  struct Child {
    KeyView key;
    AnyValue& value;
  };
  template <class AnyValue>
  class ChildIterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = Child<AnyValue>;
    ChildIterator() = default;
    ChildIterator(const Key* keys, AnyValue* values, std::size_t i)
        : keys_(keys), values_(values), i_(i) {}
    Child<AnyValue> operator*() const {
      return {keys_ == nullptr ? KeyView::of(static_cast<std::int64_t>(i_)) : keys_[i_].view(),
              values_[i_]};
    }
    ChildIterator& operator++() { return ++i_, *this; }
    ChildIterator operator++(int) { return {keys_, values_, i_++}; }
    bool operator==(const ChildIterator& other) const { return i_ == other.i_; }

   private:
    const Key* keys_ = nullptr;
    AnyValue* values_ = nullptr;
    std::size_t i_ = 0;
  };
  /// The children with their keys, in order: `for (auto [key, child] : value)`. None for other
  /// kinds. Valid until the value changes.
  ChildIterator<const Value> begin() const { return child_at(*this, 0); }
  ChildIterator<const Value> end() const { return child_at(*this, children().size()); }
  ChildIterator<Value> begin() { return child_at(*this, 0); }
  ChildIterator<Value> end() { return child_at(*this, children().size()); }

  /// Makes room for `count` children of a container, so that they need not move while they are
  /// added. Does nothing for other kinds.
  void reserve(std::size_t count);
  /// Appends a child to a dict or record. Saving checks for duplicate keys. Other kinds get a
  /// defect().
  void add(Key key, Value value);
  /// Appends an element to a list, tuple or set. Other kinds get a defect().
  void add(Value value);

  // Editing by key path, for example "optimizer/0/step" or KeyPath{"optimizer", 0, "step"}. An
  // integer of a path is a position in a list, tuple or set. In a dict or record it is the int key,
  // or, if there is none, the string key with these digits. A missing name with dots means the
  // names between them, if they lead to a value, as in NodeRef::find(). Each step takes constant
  // time on average, but linear time of a const value whose keys were never looked for. Errors name
  // the path: kInvalidKeyPath for text that is no key path, kNotFound, kWrongKind. After an error
  // the value is unchanged.

  /// The value at a path; the value itself for the root. Valid until a value above it changes.
  [[nodiscard]] Result<const Value*> at(const KeyPath& path) const&;
  [[nodiscard]] Result<const Value*> at(std::string_view path) const&;
  [[nodiscard]] Result<Value*> at(const KeyPath& path) &;
  [[nodiscard]] Result<Value*> at(std::string_view path) &;
  Result<Value*> at(const KeyPath& path) && = delete;
  Result<Value*> at(std::string_view path) && = delete;
  /// Puts a value at a path, in place of what is there. Adds missing dicts on the way, and a
  /// missing key at the end of its container: to change only what exists, assign to what at()
  /// returns. The position after the last appends an element. An integer becomes a string key in a
  /// record, and in a dict whose keys are such strings and no integers. A tie ends where one of its
  /// nodes is replaced: the others keep their tensor. kWrongKind if the path leads through a value
  /// without children, or past the end of a list.
  [[nodiscard]] Result<void> set(const KeyPath& path, Value value);
  [[nodiscard]] Result<void> set(std::string_view path, Value value);
  /// Removes the value at a path, which must not be the root. Later elements of a list move up.
  [[nodiscard]] Result<void> erase(const KeyPath& path);
  [[nodiscard]] Result<void> erase(std::string_view path);

  /// What merge() does if both values have different things at one path.
  enum class OnConflict : std::uint8_t { kFail, kReplace };
  /// Adds the children of a dict to this dict, which keeps its label. Two dicts with equal labels
  /// under one key are merged likewise. Anything else under a key of both is a conflict:
  /// kNameCollision with its path, or `other` replaces it: lists as wholes, and tensors by
  /// placeholders, too. later_wins() is a rule that joins lists and keeps those tensors. New keys
  /// come last, in their order. kWrongKind if one of the two is no dict. Takes n log n time.
  [[nodiscard]] Result<void> merge(Value other, OnConflict on_conflict = OnConflict::kFail);

  /// What becomes of a value that both trees have at one path.
  enum class OnBoth : std::uint8_t {
    kKeep,     // The other one is left out.
    kReplace,  // The other one takes its place.
    kJoin,     // Their children are merged, and this one keeps its label: see can_join().
  };
  /// Decides it for two values at a path, which `path` prints. An error ends the merge, with the
  /// path if it has none.
  using MergeRule = std::function<Result<OnBoth>(const Value& mine, const Value& other,
                                                 const std::function<std::string()>& path)>;
  /// Whether the children of two values can be merged: both are dicts, or records, or lists or
  /// tuples with the same number of elements, which are merged position by position.
  static bool can_join(const Value& a, const Value& b);
  /// The same as merge() with a rule for every pair below the roots, asked from the top down, and
  /// not below pairs that are not joined. Asking kJoin for others means kReplace.
  [[nodiscard]] Result<void> merge(Value other, const MergeRule& rule);
  /// The rule of `espalier merge`: joins what can_join() allows, and lets the other value replace
  /// anything else, but no tensor by a placeholder: a part that was cut from a list has those for
  /// the tensors that it lacks. Use it as `a.merge(b, Value::later_wins)`.
  static Result<OnBoth> later_wins(const Value& mine, const Value& other,
                                   const std::function<std::string()>& path);

 private:
  struct Children {
    std::vector<Key> keys;  // empty for list, tuple and set
    std::vector<Value> values;
    std::shared_ptr<KeyIndex> index;  // of keys, once they are looked for; never that of a copy
  };
  // Children are held by a pointer, so that a value takes little memory: a tree may have millions.
  // The pointer is null if there are no children.
  using Payload = std::variant<std::monostate, bool, std::int64_t, double, Complex, BigInt,
                               std::string, std::vector<std::byte>, std::unique_ptr<Children>,
                               std::shared_ptr<const Tensor>>;

  Value(Kind kind, Payload payload);
  template <class T>
  static Value integer_of(T value) {
    if constexpr (sizeof(T) == sizeof(std::uint64_t) && std::is_unsigned_v<T>) {
      return integer(BigInt::from_uint64(value));
    } else {
      return integer(static_cast<std::int64_t>(value));
    }
  }
  template <class AnyValue>
  static ChildIterator<AnyValue> child_at(AnyValue& value, std::size_t i) {
    return {value.keys().data(), value.children().data(), i};
  }
  // The position of the child under exactly this key.
  std::optional<std::size_t> position_of(KeyView key) const;
  std::optional<std::size_t> position_of(KeyView key);
  std::optional<std::size_t> position_of(KeyView key, KeyIndex* index) const;
  template <class AnyValue>
  friend struct ValueWay;
  static Value keyed(Kind kind, std::vector<Item> items);
  static Value sequence(Kind kind, std::vector<Value> elements);
  const Children* held() const;
  Children* held();
  Children& held_or_new();
  Value without_children() const;
  static void take_apart(std::unique_ptr<Children> level) noexcept;

  template <class T>
  std::optional<T> get() const;

  Kind kind_ = Kind::kNull;
  bool has_lost_child_ = false;
  std::unique_ptr<const std::string> label_;
  Payload payload_;
};

}  // namespace espalier

#endif  // ESPALIER_VALUE_H_
