// The kinds of node that a state tree is made of.
#ifndef ESPALIER_KIND_H_
#define ESPALIER_KIND_H_

#include <cstdint>
#include <string_view>

namespace espalier {

/// The kind of a node. The numbers are those of the file format and never change.
enum class Kind : std::uint8_t {
  kNull = 1,
  kBool = 2,
  kInt64 = 3,
  kBigInt = 4,  // an integer outside the range of an int64
  kFloat64 = 5,
  kComplex128 = 6,
  kString = 7,  // UTF-8
  kBytes = 8,
  kDict = 9,  // keys are strings or int64, in insertion order
  kList = 10,
  kTuple = 11,
  kSet = 12,
  kRecord = 13,  // named fields: a NamedTuple, a dataclass, a module
  kTensor = 14,
  kPlaceholder = 15,  // a tensor's dtype and shape without its data
};

inline constexpr std::uint8_t kLastKind = 15;

/// Whether nodes of this kind have children.
constexpr bool is_container(Kind kind) { return kind >= Kind::kDict && kind <= Kind::kRecord; }

/// Whether the children of this kind of container have keys (dict and record).
constexpr bool has_keys(Kind kind) { return kind == Kind::kDict || kind == Kind::kRecord; }

/// The kind's name in lower case, for example "dict" or "bigint".
constexpr std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return "bool";
    case Kind::kInt64:
      return "int64";
    case Kind::kBigInt:
      return "bigint";
    case Kind::kFloat64:
      return "float64";
    case Kind::kComplex128:
      return "complex128";
    case Kind::kString:
      return "string";
    case Kind::kBytes:
      return "bytes";
    case Kind::kDict:
      return "dict";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kSet:
      return "set";
    case Kind::kRecord:
      return "record";
    case Kind::kTensor:
      return "tensor";
    case Kind::kPlaceholder:
      return "placeholder";
  }
  return "unknown";
}

}  // namespace espalier

#endif  // ESPALIER_KIND_H_
