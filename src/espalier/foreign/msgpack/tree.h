// A msgpack file as flax writes it: a tree of plain values, with the places of its arrays.
#ifndef ESPALIER_FOREIGN_MSGPACK_TREE_H_
#define ESPALIER_FOREIGN_MSGPACK_TREE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"

namespace espalier {

/// An object of the file. Followed by its elements, or by its members: a key and a value each.
struct MsgpackNode {
  enum class Type : std::uint8_t {
    kNil,
    kBool,
    kInteger,   // an int64
    kUnsigned,  // a uint64 beyond them
    kReal,
    kComplex,  // its number among complexes
    kText,
    kBytes,
    kExtension,  // bytes with a type that flax does not use
    kArray,
    kMap,
    kTensor,  // its number among tensors
    kScalar,  // the same, a scalar of numpy
  };
  Type type = Type::kNil;
  std::int8_t extension = 0;
  /// Nodes of the whole value, including this one: the distance to the next value.
  std::uint32_t span = 1;
  /// Bytes of a text and of bytes, elements, members.
  std::uint32_t size = 0;
  union {
    const char* text = nullptr;
    std::int64_t integer;
    std::uint64_t number;
    double real;
  };

  std::string_view as_text() const { return {text, size}; }
};

struct MsgpackTree {
  struct Complex {
    double real = 0;
    double imaginary = 0;
  };
  /// An array, whose bytes stay in the file.
  struct Tensor {
    /// As numpy names it.
    std::string_view dtype;
    std::vector<std::uint64_t> shape;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  std::vector<MsgpackNode> nodes;
  std::vector<Complex> complexes;
  std::vector<Tensor> tensors;

  /// Copies `bytes` to where they stay as long as the tree.
  const char* keep(ByteSpan bytes) {
    constexpr std::size_t kBlock = 64 * 1024;
    if (bytes.size() > room_) {
      room_ = std::max(kBlock, bytes.size());
      blocks_.push_back(std::make_unique<char[]>(room_));
      next_ = blocks_.back().get();
    }
    char* kept = next_;
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(kept));
    next_ += bytes.size();
    room_ -= bytes.size();
    return kept;
  }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;
  std::size_t room_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_MSGPACK_TREE_H_
