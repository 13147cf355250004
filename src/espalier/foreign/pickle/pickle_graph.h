// The values of a pickle as a graph. Nothing is imported, called or built.
//
// A pickle is a program for a stack machine that builds Python objects and may call any function of
// any module. run_pickle() runs the stack machine alone: where Python would call something, the
// graph has an object that says what would have been called with which arguments.
#ifndef ESPALIER_FOREIGN_PICKLE_PICKLE_GRAPH_H_
#define ESPALIER_FOREIGN_PICKLE_PICKLE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier {

enum class PickleType : std::uint8_t {
  // Literals.
  kNone,
  kBool,
  kInt,
  kBigInt,  // from 65 bits on
  kFloat,
  kText,
  kOldText,  // a str of Python 2: bytes that are usually text
  kBytes,
  kByteArray,
  // Objects, which refer to other values. An empty tuple is one of them.
  kTuple,
  kList,
  kDict,
  kSet,
  kFrozenSet,
  kGlobal,      // a class or function, by module and name
  kPersistent,  // something outside the pickle
  kCall,        // what a function returns
  kNew,         // an instance of a class, made without its constructor
};

/// Whether it is a literal that is usually text.
constexpr bool is_text(PickleType type) {
  return type == PickleType::kText || type == PickleType::kOldText;
}

/// A value of a PickleGraph. Two nodes of Python's graph are the same object if their refs are
/// equal.
class PickleRef {
 public:
  static PickleRef literal(std::uint32_t opcode) { return PickleRef(opcode | kLiteral); }
  static PickleRef object(std::uint32_t number) { return PickleRef(number); }

  bool is_literal() const { return (bits_ & kLiteral) != 0; }
  /// The offset in the pickle of the opcode that pushes a literal; the number of an object.
  std::uint32_t number() const { return bits_ & ~kLiteral; }

  friend bool operator==(PickleRef, PickleRef) = default;

 private:
  static constexpr std::uint32_t kLiteral = std::uint32_t{1} << 31;
  explicit PickleRef(std::uint32_t bits) : bits_(bits) {}

  std::uint32_t bits_;
};

/// A literal. Views are of the pickle, or of text in the graph.
struct PickleLiteral {
  PickleType type = PickleType::kNone;
  std::int64_t integer = 0;  // also of a bool
  double real = 0;
  /// The bytes of a text or bytes. For a kBigInt: little-endian two's complement, perhaps longer
  /// than needed, or decimal digits if `is_decimal`.
  ByteSpan bytes = {};
  bool is_decimal = false;
  /// The text has escapes: PickleGraph::unescape() gives what it means.
  bool is_escaped = false;
};

/// Module and name of a class or function. Text of the file: it is shown and compared, and nothing
/// is ever looked up by it.
struct PickleGlobal {
  std::string_view module;
  std::string_view name;
};

/// A call, or an instance.
struct PickleCall {
  PickleRef callable;  // or the class
  PickleRef args;

  friend bool operator==(const PickleCall&, const PickleCall&) = default;
};

/// The values of one pickle. Views into the pickle's bytes, which must outlive it. Takes at most
/// kMostMemory times their size and a MiB.
class PickleGraph {
 public:
  static constexpr std::uint64_t kMostMemory = 16;

  PickleRef root() const { return root_; }
  /// Bytes of the pickle up to and with its STOP.
  std::uint64_t size() const { return size_; }
  std::size_t object_count() const { return objects_.size(); }

  PickleType type(PickleRef ref) const;
  /// A value of one of the literal types.
  PickleLiteral literal(PickleRef ref) const;
  /// The text of a literal with is_escaped: of protocol 0.
  static std::vector<char> unescape(const PickleLiteral& literal);

  /// The elements of a tuple, list, set or frozenset; keys and values by turns of a dict. Elements
  /// that were added to a call or an instance as if it were a list. Appended to `out`.
  void elements(PickleRef ref, std::vector<PickleRef>& out) const;
  /// How many elements() gives. In linear time.
  std::uint64_t element_count(PickleRef ref) const;
  /// Whether elements() gives any.
  bool has_elements(PickleRef ref) const;
  /// The elements of a tuple; none for any other value.
  std::span<const PickleRef> tuple(PickleRef ref) const;
  /// Keys and values by turns that were set on a call or an instance as if it were a dict.
  void items(PickleRef ref, std::vector<PickleRef>& out) const;
  /// What BUILD would have set on a call or an instance, if anything; null for other types.
  const PickleRef* state(PickleRef ref) const;
  /// Whether nothing was set on a call or an instance, or added to it.
  bool is_bare(PickleRef ref) const { return extras(ref) == nullptr; }
  /// Whether the list, dict or set `container` got elements after `user`, a call or an instance,
  /// was made, or after its state was set if `container` is that: Python used it without them.
  bool is_changed_since(PickleRef container, PickleRef user) const;

  PickleGlobal global(PickleRef ref) const;
  /// The kGlobal that `ref` is, or stands for: PyTorch before 1.6 kept a class with its source, as
  /// the persistent id ('module', class, file, source).
  std::optional<PickleRef> class_of(PickleRef ref) const;
  /// The id of a kPersistent.
  PickleRef persistent_id(PickleRef ref) const;
  /// Of a kCall or a kNew.
  PickleCall call(PickleRef ref) const;
  /// The first kCall or kNew, whether or not anything refers to it.
  std::optional<PickleRef> first_call() const;
  /// Whether it names any class or function, or calls something: no plain value does.
  bool names_something() const;

 private:
  friend class PickleMachine;

  // A tuple's elements, and each batch that a container gets, stand in `refs_` one after the other.
  struct Object {
    PickleType type;
    std::uint32_t extras = 0;  // number of its Extras, plus 1; of a kGlobal whether it has refs
    std::uint32_t a = 0;
    std::uint32_t b = 0;
  };
  struct Batch {
    std::uint32_t next;  // number of the next batch, plus 1
    std::uint32_t first;
    std::uint32_t count;
  };
  struct Chain {
    std::uint32_t first = 0;  // numbers of batches, plus 1
    std::uint32_t last = 0;
  };
  // What few objects have.
  struct Extras {
    PickleRef state = PickleRef::object(0);
    std::uint32_t refs_before = 0;  // how many of refs_ there were when the state was set, plus 1
    Chain elements;
    Chain items;
  };

  explicit PickleGraph(ByteSpan bytes) : bytes_(bytes) {}
  const Object& object(PickleRef ref) const { return objects_[ref.number()]; }
  const Extras* extras(PickleRef ref) const;
  void append(const Chain& chain, std::vector<PickleRef>& out) const;
  std::uint64_t count(const Chain& chain) const;

  ByteSpan bytes_;
  std::vector<Object> objects_;
  std::vector<PickleRef> refs_;
  std::vector<Batch> batches_;
  std::vector<Extras> extras_;
  PickleRef root_ = PickleRef::object(0);
  std::uint64_t size_ = 0;
};

/// Runs a pickle of protocol 0 to 5 from the first of `bytes` until its STOP. kForeignInvalid if it
/// is damaged; kTruncated if the bytes end before its STOP; kUnsupportedFeature for opcodes that
/// need more than the file (extension codes, buffers outside). kLimitExceeded if its objects would
/// take more memory than PickleGraph says, or if it has 2 GiB. Errors give offsets from the start
/// of the bytes plus `file_offset`. Linear in the bytes.
[[nodiscard]] Result<PickleGraph> run_pickle(ByteSpan bytes, std::uint64_t file_offset);

/// The objects of a pickle that run_pickle() refuses, up to where it fails. It has no root().
PickleGraph begun_pickle(ByteSpan bytes);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_PICKLE_PICKLE_GRAPH_H_
