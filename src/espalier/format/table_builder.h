// From a tree, told node by node, to the tables of an index.
//
//   TableBuilder builder(limits);
//   builder.container(Kind::kDict);                   // node 0: the state
//   builder.container(Kind::kDict);                   // node 1: the metadata
//   builder.open(kStateRoot, 1);                      // the one child of node 0
//   builder.key(KeyView::of("step"));
//   builder.integer(100);
//   builder.open(kMetadataRoot, 0);
//   Result<OwnedTables> tables = builder.finish();
//
#ifndef ESPALIER_FORMAT_TABLE_BUILDER_H_
#define ESPALIER_FORMAT_TABLE_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"
#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/format/owned_tables.h"
#include "espalier/format/shape_pool.h"
#include "espalier/format/text_pool.h"
#include "espalier/key_path.h"
#include "espalier/kind.h"
#include "espalier/limits.h"

namespace espalier {

/// All that a tensor's record says of it. `block` is for kOpaque alone. Axes have a name each or no
/// names at all.
struct TensorType {
  DType dtype = DType::kF32;
  std::span<const std::uint64_t> shape;
  BlockType block = {};
  std::span<const std::string> axis_names = {};
};

/// Builds the tables of a tree whose nodes come in the order of docs/format.md section 4: both
/// roots; then the children of one container after the other, those of a container's first child
/// that has any before those of the second. Nodes are thus never moved, and nothing is held twice.
///
/// Texts must stay where they are until finish(). What the format cannot hold makes the builder
/// fail: ok() is false from then on, further calls mean nothing, and finish() gives the first
/// error, kInvalidTree. The builder does not check what the caller decides, such as the order of
/// the calls; validate() does.
class TableBuilder {
 public:
  /// Whether texts must be checked, or come from a valid index.
  enum class Texts { kUnchecked, kValid };

  explicit TableBuilder(const Limits& limits, Texts texts = Texts::kUnchecked)
      : limits_(limits), are_texts_valid_(texts == Texts::kValid) {}

  /// Makes room for as many nodes, and tensors among them. Growing vectors would take two or three
  /// times the memory at their peak.
  void reserve(std::size_t nodes, std::size_t tensors);

  bool ok() const { return !error_; }
  /// Fails for what the caller has found.
  void refuse(std::string_view message, ErrorCode code = ErrorCode::kInvalidTree);

  /// The next `count` nodes are the children of the container `parent`. If it returns false, as for
  /// more than Limits::nodes or after a failure, they must not be added.
  bool open(std::uint32_t parent, std::size_t count);

  /// The key of the next node, if its container has keys. Gives ok().
  bool key(const KeyView& key);
  /// The label of the next node. Must follow its key.
  void label(std::string_view text);

  // Each of these adds the next node.
  void null() { add(Kind::kNull, 0); }
  void boolean(bool value) { add(Kind::kBool, value ? 1 : 0); }
  void integer(std::int64_t value) { add(Kind::kInt64, add_word(value)); }
  void real(double value) { add(Kind::kFloat64, add_word(value)); }
  void complex(Complex value);
  void string(std::string_view text);
  void bytes(ByteSpan bytes) { add_bytes(Kind::kBytes, bytes); }
  /// In the form that docs/format.md gives a bigint.
  void bigint(ByteSpan bytes);
  /// A container, whose children follow after open().
  void container(Kind kind) { add(kind, 0); }
  /// A new tensor; its number is what tensor_count() was.
  void tensor(const TensorType& type) { add_tensor(type, Kind::kTensor); }
  /// Says that the last tensor is not stored as ours are. Only `flags`, and for a strided tensor
  /// `elements` and `offset`, of `form` count; `strides` has a step for each axis, in elements, or
  /// is empty. Must come before place().
  void storage(const StorageRecord& form, std::span<const std::uint64_t> strides);
  /// Gives the last tensor its chunk records: its bytes, or those of its storage, lie in one piece
  /// from `offset` of file number `file` on. Either all tensors are placed or none.
  void place(std::uint16_t file, std::uint64_t offset);
  /// The same, where chunks need not follow each other: adds the record of the next chunk. Every
  /// chunk of the last tensor needs one.
  void place_chunk(const ChunkRecord& chunk);
  /// A new tensor without data.
  void placeholder(const TensorType& type) { add_tensor(type, Kind::kPlaceholder); }
  /// A tensor or placeholder that has its record already: one that an earlier node has named, or
  /// one of keep_tensors().
  void known_tensor(std::uint32_t number, Kind kind = Kind::kTensor) { add(kind, number); }
  /// For a new tree over the tensors of `t`, whose records stay as they are: takes what tensors
  /// have in the pool of texts, the names of axes and block types.
  void keep_tensors(const Tables& t);

  /// A further file that chunks lie in; `file.name` is not looked at. In ascending order of names.
  void file(std::string_view name, FileRecord file);

  std::uint32_t node_count() const { return static_cast<std::uint32_t>(t_.nodes.size()); }
  std::uint32_t tensor_count() const { return static_cast<std::uint32_t>(t_.tensors.size()); }
  /// Bytes of the last tensor, or what a placeholder would take; those of the storage after
  /// storage() with strides.
  std::uint64_t tensor_bytes() const { return tensor_bytes_; }
  /// Chunk records that the tensors so far need.
  std::uint64_t chunk_count() const { return chunk_count_; }

  /// Sorts the pools, finds equal keys and gives large dicts their order. The first error of the
  /// calls above, without a path; kInvalidTree, with the path, for equal keys in a container. Call
  /// once.
  [[nodiscard]] Result<OwnedTables> finish();

  /// After a finish() that failed for equal keys: the node whose key its container has already.
  std::optional<std::uint32_t> repeated_key() const { return repeated_key_; }

 private:
  // Provisional numbers.
  struct Block {
    std::uint16_t number;
    std::uint32_t name;
  };

  void add(Kind kind, std::uint32_t value, std::uint32_t count = 0);
  void add_bytes(Kind kind, ByteSpan bytes);
  void add_tensor(const TensorType& type, Kind kind);
  bool count_chunks(std::uint64_t bytes);
  bool has_room(std::uint64_t chunks);
  std::uint16_t add_block(const TensorType& type);
  void add_axis_names(const TensorType& type);
  bool check_text(std::string_view text, const char* what);
  std::uint32_t add_text(std::string_view text, const char* what);
  template <class T>
  std::uint32_t add_word(T value) {
    t_.words.push_back(bits_as<std::uint64_t>(value));
    return static_cast<std::uint32_t>(t_.words.size() - 1);
  }
  void finish_pools();
  [[nodiscard]] Result<void> add_order(std::uint32_t node);

  Limits limits_;
  bool are_texts_valid_;
  OwnedTables t_;
  NodeRecord next_;  // the key of the next node
  // The container whose children are being added.
  Kind parent_kind_ = Kind::kNull;
  bool is_parent_large_ = false;
  std::uint64_t chunk_count_ = 0;
  std::uint64_t tensor_bytes_ = 0;
  TextPool texts_;
  ShapePool shapes_;
  std::map<std::tuple<std::string_view, std::uint32_t, std::uint32_t>, Block> blocks_;
  std::optional<std::uint32_t> repeated_key_;
  std::optional<Error> error_;
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_TABLE_BUILDER_H_
