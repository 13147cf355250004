// A checkpoint as a tree of nodes: looking around in it, without reading any tensor. walker.h
// visits all of them. Also what reading takes and gives: slices, and the report of a verification.
//
// Everything here reads validated memory only: no I/O, no failure but "not found", and all const
// access is thread-safe. A NodeRef or TensorRef is a small handle; it and every view that it gives
// (names, shapes) are valid as long as some copy of the Checkpoint lives.
#ifndef ESPALIER_CHECKPOINT_H_
#define ESPALIER_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/bigint.h"
#include "espalier/bytes.h"
#include "espalier/detail/catalog.h"
#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/key_path.h"
#include "espalier/kind.h"

namespace espalier {

/// The indices of one axis to read, as in Python's `start:stop:step`: negative numbers count from
/// the end, a missing one means all the way, and numbers beyond the axis are cut to it. `step` must
/// be positive.
struct Slice {
  std::optional<std::int64_t> start = std::nullopt;
  std::optional<std::int64_t> stop = std::nullopt;
  std::int64_t step = 1;
};

/// Damaged spots that a VerifyReport describes; it only counts the others. Stops a report that is
/// larger than the file.
inline constexpr std::size_t kMaxReportedErrors = 1000;

/// What a verification says.
enum class VerifyVerdict : std::uint8_t {
  kOk,             // all was checked, and all is right
  kStructureOnly,  // nothing is wrong, and the format has nothing to check the tensors' bytes with
  kIncomplete,     // nothing is wrong, but files or elements of tensors are missing or are not read
  kDamaged,
};

/// "ok", "structure_only", "incomplete", "damaged".
std::string_view verdict_name(VerifyVerdict verdict);

/// The result of a verification.
struct VerifyReport {
  /// Whether the format has hashes of chunks. Without, `checksums` tells what is known of the
  /// tensors' bytes.
  bool has_hashes = true;
  /// Chunks and bytes that were checked.
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  /// Checksums of the format that were compared in place of hashes, such as the CRC-32 of a zip
  /// archive's entries.
  std::uint64_t checksums = 0;
  /// Stored bytes of tensors that were not checked: those without a checksum, and those that need
  /// a file which is missing or was left out.
  std::uint64_t unchecked = 0;
  /// Further files whose bytes are not to be had: missing ones (kFileMissing), other files of their
  /// names (kBaseMismatch, kNotARegularFile), and those that the system (kIoError) or a limit
  /// (kLimitExceeded) refuses. The first `missing_files` of `errors` are about them.
  std::uint64_t missing_files = 0;
  /// Tensors of other formats whose elements are not to be had: they are compressed in a way that
  /// is not read, or lie nowhere (kElementsMissing). Their errors follow those of missing files.
  std::uint64_t missing_tensors = 0;
  /// Missing files, missing tensors and damage, and the first of them: all of these files, then
  /// these tensors, then up to kMaxReportedErrors others: files that cannot be read, then damage in
  /// the order of chunks.
  std::uint64_t error_count = 0;
  std::vector<Error> errors;

  VerifyVerdict verdict() const;
};

/// A tensor or placeholder of a checkpoint. Two nodes that are tied have equal TensorRefs.
class TensorRef {
 public:
  TensorRef(const Catalog* catalog, std::uint32_t number) : catalog_(catalog), number_(number) {}

  /// The tensor's number in its checkpoint, from 0.
  std::uint32_t number() const { return number_; }
  DType dtype() const { return static_cast<DType>(record().dtype); }
  /// Elements along each axis; empty for a 0-d tensor.
  std::span<const std::uint64_t> shape() const {
    return table_shape(catalog_->tables(), record().shape);
  }
  /// Names of the axes, one for each, or empty.
  std::vector<std::string_view> axis_names() const;
  /// The block type of a kOpaque tensor.
  BlockType block() const;
  std::uint64_t elements() const { return catalog_->shape_elements(record().shape); }
  /// Bytes of the elements, packed. A placeholder's elements would take as many.
  std::uint64_t bytes() const {
    if (const auto bytes = usual_tensor_bytes(dtype(), elements())) return *bytes;
    return unusual_bytes();
  }
  /// Bytes of its chunks in their files, without bases: less than bytes() if compressed, 0 for a
  /// placeholder.
  std::uint64_t stored_bytes() const;
  bool is_placeholder() const { return record().first_chunk == kNoChunk; }
  /// Numbers of its chunks in the checkpoint: `chunk_count()` from `first_chunk()` on.
  std::uint32_t first_chunk() const;
  std::uint32_t chunk_count() const;
  /// What its chunk `i` is applied to: see Catalog::bases().
  std::span<const ChunkRecord> bases(std::uint32_t i) const {
    return catalog_->bases(first_chunk() + i);
  }
  /// How the tensor is stored, if not packed in C order and in the byte order of the host; null for
  /// every tensor of an Espalier file.
  const StorageRecord* storage() const;
  /// Bytes that the chunks hold, once decoded: bytes(), unless the tensor has strides.
  std::uint64_t storage_bytes() const;
  /// Where the whole tensor lies as it is, if it does: raw, in one piece. Empty extent if it has no
  /// bytes.
  std::optional<Extent> raw_extent() const;
  /// One hash for the tensor's contents: of its dtype, shape, names of axes and chunk hashes, so
  /// equal contents have equal hashes in any file. Nothing for formats without hashes, and for
  /// placeholders.
  std::optional<Hash128> content_hash() const;

  const Catalog& catalog() const { return *catalog_; }
  friend bool operator==(const TensorRef&, const TensorRef&) = default;

 private:
  std::uint64_t unusual_bytes() const;
  const TensorRecord& record() const { return live(catalog_).tables().tensors[number_]; }

  const Catalog* catalog_;
  std::uint32_t number_;
};

/// Whether all files that hold bytes of `tensor` can be read. If not, the file's problem, such as
/// kFileMissing, with the tensor's key path.
[[nodiscard]] Result<void> check_readable(const TensorRef& tensor);

/// The printed key path of the first node that names `tensor`, for messages. Looks through the
/// whole tree.
std::string tensor_path(const TensorRef& tensor);

/// A tensor of a checkpoint by its number, and the next one: see Checkpoint::tensors().
class TensorIterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = TensorRef;

  TensorIterator() = default;
  TensorIterator(const Catalog* catalog, std::uint32_t i) : catalog_(catalog), i_(i) {}
  TensorRef operator*() const { return {catalog_, i_}; }
  TensorIterator& operator++() { return ++i_, *this; }
  TensorIterator operator++(int) { return {catalog_, i_++}; }
  friend bool operator==(const TensorIterator&, const TensorIterator&) = default;

 private:
  const Catalog* catalog_ = nullptr;
  std::uint32_t i_ = 0;
};

/// Tensors in the order of their numbers.
class TensorRange {
 public:
  TensorRange(const Catalog* catalog, std::uint32_t count) : catalog_(catalog), count_(count) {}
  TensorIterator begin() const { return {catalog_, 0}; }
  TensorIterator end() const { return {catalog_, count_}; }
  std::uint32_t size() const { return count_; }

 private:
  const Catalog* catalog_;
  std::uint32_t count_;
};

class NodeIterator;

/// A node of a checkpoint's tree. `for (auto [key, child] : node)` visits its children.
class NodeRef {
 public:
  NodeRef(const Catalog* catalog, std::uint32_t number) : catalog_(catalog), number_(number) {}

  /// The node's number in its checkpoint.
  std::uint32_t number() const { return number_; }
  Kind kind() const { return static_cast<Kind>(record().kind); }
  /// The type that the value had in its program, for example "torch.Size"; nothing if not recorded.
  std::optional<std::string_view> label() const;

  // The value, if the node is of that kind; nothing otherwise.
  std::optional<bool> as_bool() const;
  std::optional<std::int64_t> as_int64() const;
  std::optional<BigInt> as_bigint() const;
  std::optional<double> as_double() const;
  std::optional<Complex> as_complex() const;
  std::optional<std::string_view> as_string() const;
  std::optional<ByteSpan> as_bytes() const;
  /// The tensor of a tensor or placeholder node.
  std::optional<TensorRef> tensor() const {
    if (kind() != Kind::kTensor && kind() != Kind::kPlaceholder) return std::nullopt;
    return TensorRef(catalog_, record().value);
  }

  /// Number of children; 0 for kinds that have none.
  std::uint32_t size() const { return is_container(kind()) ? record().count : 0; }
  /// Child number `i`, in insertion order. `i` must be less than size().
  NodeRef child(std::uint32_t i) const { return {catalog_, record().value + i}; }
  /// The key of child number `i` (its position, in a list, tuple or set). `i` must be less than
  /// size().
  KeyView key(std::uint32_t i) const;
  /// The children with their keys, in insertion order.
  NodeIterator begin() const;
  NodeIterator end() const;
  /// How the key of a child is printed: see append_segment(). Takes logarithmic time.
  DigitMark digit_mark(KeyView key) const;
  /// The child under exactly this key, or at a position of a list, tuple or set. Takes logarithmic
  /// time.
  std::optional<NodeRef> find(KeyView key) const;
  /// The node at `path` below this one, if there is one. An integer key also finds the string of
  /// its digits if there is no such integer key. A missing name with dots, of up to 4096 bytes,
  /// finds what the names between them lead to: at each level, the longest beginning that is a key.
  std::optional<NodeRef> find(const KeyPath& path) const;
  /// The same; kNotFound names the longest part that exists, and what was probably meant. To look
  /// for that takes up to some 100 ms in a file of millions of nodes: find() tells sooner that
  /// nothing is there.
  [[nodiscard]] Result<NodeRef> at(const KeyPath& path) const;
  /// The same from text; kInvalidKeyPath if it is none.
  [[nodiscard]] Result<NodeRef> at(std::string_view path) const;
  /// The exact keys of the node that at() returns; printed_path() prints them.
  [[nodiscard]] Result<KeyPath> resolve(std::string_view path) const;

  const Catalog& catalog() const { return *catalog_; }
  friend bool operator==(const NodeRef&, const NodeRef&) = default;

 private:
  const NodeRecord& record() const { return live(catalog_).tables().nodes[number_]; }

  const Catalog* catalog_;
  std::uint32_t number_;
};

/// A child of a node, and its key (its position, in a list, tuple or set).
struct NodeChild {
  KeyView key;
  NodeRef node;
};

/// A child of a node, and the next one.
class NodeIterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = NodeChild;

  NodeIterator(NodeRef parent, std::uint32_t i) : parent_(parent), i_(i) {}
  NodeChild operator*() const { return {parent_.key(i_), parent_.child(i_)}; }
  NodeIterator& operator++() { return ++i_, *this; }
  NodeIterator operator++(int) { return {parent_, i_++}; }
  friend bool operator==(const NodeIterator&, const NodeIterator&) = default;

 private:
  NodeRef parent_;
  std::uint32_t i_;
};

inline NodeIterator NodeRef::begin() const { return {*this, 0}; }
inline NodeIterator NodeRef::end() const { return {*this, size()}; }

/// The printed path from `root` to the node at its exact `keys`, which must exist.
std::string printed_path(const NodeRef& root, const KeyPath& keys);

/// An opened checkpoint: its state tree and its metadata. Cheap to copy; copies share everything.
class Checkpoint {
 public:
  using LendsWhatEndsWithIt = void;

  explicit Checkpoint(std::shared_ptr<const Catalog> catalog) : catalog_(std::move(catalog)) {}

  /// The root of the state tree.
  NodeRef state() const& { return {catalog_.get(), kStateRoot}; }
  /// The root of the file's metadata: a dict without tensors.
  NodeRef metadata() const& { return {catalog_.get(), kMetadataRoot}; }
  /// Distinct tensors and placeholders: of an Espalier file in the order of their bytes in the
  /// file, of another format in that of its opener.
  std::uint32_t tensor_count() const;
  /// Tensor number `i`, which must be less than tensor_count().
  TensorRef tensor(std::uint32_t i) const& { return {catalog_.get(), i}; }
  /// All of them: `for (const TensorRef& tensor : checkpoint.tensors())`.
  TensorRange tensors() const& { return {catalog_.get(), tensor_count()}; }

  const Catalog& catalog() const& { return *catalog_; }
  // The handles of a temporary checkpoint would dangle at once.
  NodeRef state() && = delete;
  NodeRef metadata() && = delete;
  TensorRef tensor(std::uint32_t i) && = delete;
  TensorRange tensors() && = delete;
  const Catalog& catalog() && = delete;
  const std::shared_ptr<const Catalog>& share() const { return catalog_; }

 private:
  std::shared_ptr<const Catalog> catalog_;
};

}  // namespace espalier

#endif  // ESPALIER_CHECKPOINT_H_
