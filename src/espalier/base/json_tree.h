// Parses JSON into a tree in one vector, for small untrusted documents.
#ifndef ESPALIER_BASE_JSON_TREE_H_
#define ESPALIER_BASE_JSON_TREE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"

namespace espalier {

/// A value of a JsonTree, which must outlive it. Cheap to copy.
class JsonRef {
 public:
  bool is_null() const { return node_->type == Type::kNull; }
  bool is_array() const { return node_->type == Type::kArray; }
  bool is_object() const { return node_->type == Type::kObject; }
  // The value, or nullopt if it has another type or is out of range.
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> int64() const;
  std::optional<std::uint64_t> uint64() const;
  /// Valid as long as the tree. May hold unpaired surrogates that were written as escapes.
  std::optional<std::string_view> text() const;
  /// Elements of an array, members of an object; 0 for others.
  std::size_t size() const;
  /// A number that is no int64 and no uint64, also an integer beyond them. The nearest double.
  std::optional<double> real() const;
  struct Member;
  /// All members of an object, in the order of the text, also those whose names come twice.
  std::vector<Member> members() const;
  /// The first member of an object with that name. Linear.
  std::optional<JsonRef> member(std::string_view name) const;

  /// Iterates over the elements of an array.
  class Iterator;
  Iterator begin() const;
  Iterator end() const;

 private:
  friend class JsonTree;
  enum class Type : std::uint8_t {
    kNull,
    kFalse,
    kTrue,
    kInteger,   // An int64.
    kUnsigned,  // A uint64 beyond them.
    kReal,      // Any other number.
    kText,
    kArray,
    kObject,
  };
  // Followed by its elements, or by its members: a text and a value each.
  struct Node {
    Type type = Type::kNull;
    // Number of nodes of the whole value, including this one: the distance to the next value.
    std::uint32_t span = 1;
    // Bytes of a text, elements, members.
    std::uint32_t size = 0;
    union {
      const char* text = nullptr;
      std::int64_t integer;
      std::uint64_t number;
      double real;
    };
  };
  explicit JsonRef(const Node* node) : node_(node) {}

  const Node* node_;
};

/// A member of an object. The name is valid as long as the tree.
struct JsonRef::Member {
  std::string_view name;
  JsonRef value;
};

class JsonRef::Iterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = JsonRef;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = JsonRef;

  JsonRef operator*() const { return JsonRef(node_); }
  Iterator& operator++() {
    node_ += node_->span;
    return *this;
  }
  friend bool operator==(Iterator a, Iterator b) { return a.node_ == b.node_; }

 private:
  friend class JsonRef;
  explicit Iterator(const Node* node) : node_(node) {}

  const Node* node_;
};

inline JsonRef::Iterator JsonRef::begin() const { return Iterator(node_ + 1); }
inline JsonRef::Iterator JsonRef::end() const {
  return Iterator(is_array() ? node_ + node_->span : node_ + 1);
}

/// The texts that are taken for JSON. kForPeople allows comments as in C++, and a comma after the
/// last member or element. kOfPython allows the numbers NaN, Infinity and -Infinity, as Python's
/// json module writes them.
enum class JsonDialect : std::uint8_t { kStrict, kForPeople, kOfPython };

/// A parsed JSON text. Movable; immutable, so const access is thread-safe.
class JsonTree {
 public:
  /// Parses a copy of `text`. kInvalidArgument if it is not JSON, kLimitExceeded if arrays and
  /// objects are nested more than `max_depth` deep; both with the byte of the text where reading
  /// stopped. Takes 24 bytes for each value and name.
  [[nodiscard]] static Result<JsonTree> parse(std::string_view text, std::uint32_t max_depth,
                                              JsonDialect dialect = JsonDialect::kStrict);

  JsonRef root() const { return JsonRef(nodes_.data()); }

 private:
  class Builder;
  JsonTree() = default;

  // The text, unescaped in place. The nodes point into it, so it must not move.
  std::unique_ptr<char[]> text_;
  std::vector<JsonRef::Node> nodes_;
};

}  // namespace espalier

#endif  // ESPALIER_BASE_JSON_TREE_H_
