// Keys, key paths, and the one way to print and parse them.
//
// A key path names a node of the tree by the keys that lead to it from the root. Its text is a JSON
// Pointer (RFC 6901) without the leading slash, made to tell integer keys from string keys:
//
//   model/layers/0/weight   "model", "layers", 0, "weight"
//   a~1b/m~0n               "a/b", "m~n"             (~1 stands for '/', ~0 for '~')
//   state/~20               "state", "0"             (~2 marks text that reads as an integer)
//   ~2                      ""                       (and the empty string)
//
// The empty text is the root.
//
// An integer key is a dict's integer key or an index into a list or tuple. A string reads as an
// integer when it is 0 or an optional '-' and digits that start with 1 to 9, and fits 64 bits; so
// "007", "-0" and "99999999999999999999" are strings and need no mark.
//
// Few containers hold both 8 and "8". In all others, the mark says nothing: the paths of a tree's
// nodes (NodeRef, Walker) are printed without it there, and a segment of digits means the string
// key where there is no such integer key. So each node of a tree has one printed path, and that
// path finds the node. Without a tree, printing and parsing are a bijection too, apart from one
// slash before and one after a path, which `parse` takes off.
//
// All types here are plain values: const access is thread-safe, writing needs the usual care.
#ifndef ESPALIER_KEY_PATH_H_
#define ESPALIER_KEY_PATH_H_

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "espalier/error.h"

namespace espalier {

/// A key that borrows its text: an integer, or a string whose owner keeps it alive.
/// By default the empty string key.
struct KeyView {
  bool is_int = false;
  /// The key if `is_int`, otherwise ignored.
  std::int64_t integer = 0;
  /// The key if not `is_int`, otherwise ignored. The raw text, not the printed segment.
  std::string_view text;

  static constexpr KeyView of(std::int64_t integer) { return {true, integer, {}}; }
  static constexpr KeyView of(std::string_view text) { return {false, 0, text}; }

  friend constexpr bool operator==(KeyView a, KeyView b) {
    return a.is_int == b.is_int && (a.is_int ? a.integer == b.integer : a.text == b.text);
  }

  /// Integers first, by value; then strings, by unsigned bytes (for UTF-8, by code points).
  friend constexpr std::strong_ordering operator<=>(KeyView a, KeyView b) {
    if (a.is_int != b.is_int) return b.is_int <=> a.is_int;
    if (a.is_int) return a.integer <=> b.integer;
    return a.text.compare(b.text) <=> 0;
  }
};

static_assert(std::is_trivially_copyable_v<KeyView>);

/// Integer types whose values are keys. `bool` and the character types are left out because such a
/// key would be a mistake.
template <class T>
concept KeyInteger = std::integral<T> && sizeof(T) <= sizeof(std::int64_t) &&
                     !std::same_as<T, bool> && !std::same_as<T, char> &&
                     !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                     !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

/// A key that owns its text. Converts from text and integers: `Key("bias")`, `Key(3)`. A moved-from
/// key may only be destroyed or assigned to.
class Key {
 public:
  /// The empty string key.
  Key() = default;
  /// An integer beyond 64 signed bits becomes the string of its digits, as in a key path.
  template <KeyInteger T>
  Key(T integer)
      : is_int_(std::in_range<std::int64_t>(integer)),
        integer_(static_cast<std::int64_t>(integer)) {
    if (!is_int_) text_ = std::to_string(integer);
  }
  Key(std::string text) : text_(std::move(text)) {}
  Key(std::string_view text) : text_(text) {}
  /// `text` is a C string and must not be null.
  Key(const char* text) : text_(text) {}
  explicit Key(KeyView view) : is_int_(view.is_int), integer_(view.integer), text_(view.text) {}

  /// Valid while this key lives and is not written to.
  KeyView view() const { return is_int_ ? KeyView::of(integer_) : KeyView::of(text_); }

  friend bool operator==(const Key& a, const Key& b) { return a.view() == b.view(); }
  friend std::strong_ordering operator<=>(const Key& a, const Key& b) {
    return a.view() <=> b.view();
  }

 private:
  // No variant: it would take a tenth of what this header costs to compile.
  bool is_int_ = false;
  std::int64_t integer_ = 0;
  std::string text_;
};

/// The integer key that a segment of digits reads as; nothing if the text is no printed integer.
std::optional<std::int64_t> read_int_key(std::string_view segment);

/// Whether a string key's printed segment is the key itself, without any mark or escape.
bool is_plain_key(std::string_view key);

/// Whether a string key that reads as an integer is printed with its mark. kNever is for the keys
/// of a container that does not hold that integer key.
enum class DigitMark : std::uint8_t { kAlways, kNever };

/// How the keys of one container are printed. Looks a key up in logarithmic time.
class DigitMarks {
 public:
  explicit DigitMarks(std::span<const Key> keys);
  explicit DigitMarks(std::vector<std::int64_t> integers);
  DigitMark of(KeyView key) const;

 private:
  std::vector<std::int64_t> integers_;  // sorted
};

/// Appends the printed segment of `key` to `out`: at least one character. Text that is not UTF-8 is
/// copied unchanged and will not parse.
void append_segment(std::string& out, const KeyView& key, DigitMark mark = DigitMark::kAlways);

/// Extends the printed key path `path` by one key, with a '/' between them unless `path` is the
/// root. No printed segment is empty, so only the root's text is.
inline void append_path(std::string& path, const KeyView& key,
                        DigitMark mark = DigitMark::kAlways) {
  if (!path.empty()) path += '/';
  append_segment(path, key, mark);
}

/// The keys from the root to a node; empty for the root itself.
class KeyPath {
 public:
  using value_type = Key;
  using const_iterator = std::vector<Key>::const_iterator;

  /// The root.
  KeyPath() = default;
  /// From keys, not from text: `KeyPath{"a/b"}` is one key that contains a slash.
  KeyPath(std::initializer_list<Key> keys);
  explicit KeyPath(std::vector<Key> keys);

  /// Reads the syntax at the top of this file; one '/' at the beginning and one at the end are
  /// taken off. `kInvalidKeyPath` for other text that printing never emits (an empty segment, a
  /// stray '~', a needless ~2, bytes that are not UTF-8); the message gives the character, counted
  /// from 1, and what to write instead.
  [[nodiscard]] static Result<KeyPath> parse(std::string_view text);

  /// The text that `parse` turns back into this path, with all marks, provided that string keys are
  /// UTF-8.
  std::string to_string() const;

  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  const_iterator begin() const { return keys_.begin(); }
  const_iterator end() const { return keys_.end(); }
  /// `i` must be less than `size()`.
  const Key& operator[](std::size_t i) const { return keys_[i]; }
  /// The node's own key. The path must not be the root.
  const Key& back() const { return keys_.back(); }

  void push_back(Key key);
  /// The path must not be the root.
  void pop_back();

  /// The first `count` keys, or all if there are fewer.
  KeyPath first(std::size_t count) const;
  /// The path of the container that holds this node. The root is its own parent.
  KeyPath parent() const { return first(empty() ? 0 : size() - 1); }
  /// The path of the node under `key` in this one: `path / "weight"`, `path / 0`.
  KeyPath operator/(Key key) const;
  /// Whether this is `ancestor` or lies below it.
  bool starts_with(const KeyPath& ancestor) const;

  friend bool operator==(const KeyPath& a, const KeyPath& b);
  /// Key by key, a container before what it holds: the order of a walk over sorted dicts.
  friend std::strong_ordering operator<=>(const KeyPath& a, const KeyPath& b);

 private:
  std::vector<Key> keys_;
};

/// Builds the same text as append_path(), faster for a million nodes: a short key costs a few
/// instructions. Not thread-safe.
class PathText {
 public:
  /// The path; valid until it is changed.
  std::string_view view() const { return {buffer_.data(), size_}; }
  std::size_t size() const { return size_; }

  /// Cuts the path to its first `size` bytes.
  void truncate(std::size_t size) { size_ = size; }

  /// Extends the path by one printed segment.
  void append(std::string_view segment) {
    begin_segment(segment.size());
    std::memcpy(buffer_.data() + size_, segment.data(), segment.size());
    size_ += segment.size();
  }

 private:
  // Reserves memory for a separator and `bytes` more, and writes the separator.
  void begin_segment(std::size_t bytes) {
    if (buffer_.size() - size_ < bytes + 1) buffer_.resize(2 * (size_ + bytes) + 64);
    if (size_ > 0) buffer_[size_++] = '/';
  }

  std::vector<char> buffer_;
  std::size_t size_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_KEY_PATH_H_
