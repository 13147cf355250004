// Opens a checkpoint on disk or in memory, reads its tree and tensors, and verifies it.
//
//   Result<CheckpointFile> file = CheckpointFile::open("run.espalier");
//   if (!file) return report(file.error());
//   auto weight = file->elements<float>("model/encoder/weight");  // in the mapping
//   if (!weight) return report(weight.error());
//   for (float x : *weight) ...
//
//   std::vector<float> bias(512);
//   if (auto ok = file->load_into({{"model/encoder/bias", bias}}); !ok) return report(ok.error());
//
//   auto received = CheckpointFile::open(std::move(bytes));  // a std::vector<std::byte>
#ifndef ESPALIER_CHECKPOINT_FILE_H_
#define ESPALIER_CHECKPOINT_FILE_H_

#include <atomic>
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
#include <vector>

#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/file_path.h"
#include "espalier/limits.h"
#include "espalier/source.h"
#include "espalier/value.h"

namespace espalier {

class ReadPlan;
class StoredLayers;

/// Whether tensor bytes are checked against their hashes before they are returned. kNothing skips
/// the check for tensors used in place in a mapped file; bytes that must be read or decoded first
/// are always checked.
enum class Check : std::uint8_t { kHashes, kNothing };

struct OpenFileOptions {
  /// How to read the files that open() opens by their path.
  Access access = Access::kMapped;
  Limits limits = {};
  /// For reading and verifying.
  Threads threads = {};
  /// Where tensors go that are read or decoded, each at a multiple of kTensorAlignment: those of
  /// view(), slice() and load(). By default the heap, with huge pages. Raw tensors of a mapped file
  /// stay in the mapping; Access::kRead leaves none there.
  TensorMemory memory = {};
  /// Shows dotted names ("layers.0.weight") as nested dicts. Tensors and their bytes stay as they
  /// are, and verifying checks the file as it is stored.
  bool nest = false;
  /// Opens the further files of a checkpoint that has several, by their names. By default they are
  /// looked for in the folder of the file whose path is opened, and are missing (kFileMissing) for
  /// a checkpoint from memory or from a Source. Names come from the file, but are never a path.
  std::function<Result<std::shared_ptr<const Source>>(const std::string& name)> sibling = {};
  /// The file's own name, without folders, for formats whose further files are named after it:
  /// "m-00001-of-00002.gguf". Without it, these are not found, and a note says so. By default the
  /// last part of the path that is opened.
  std::string name = {};
  /// Threads that call `sibling` at the same time, for one that waits for a network; and that read
  /// what open() needs, if the source is remote.
  unsigned sibling_threads = 1;
};

/// How one call reads tensors.
struct ReadOptions {
  Check check = Check::kHashes;
  /// Whether load_into() converts elements to the type of the memory: to floats and doubles (and
  /// f16 and bf16, where C++ has them or DTypeOf says so), each rounded once, to nearest, ties to
  /// even; and to integers, where nothing is rounded: kInvalidArgument for an element that is none.
  /// From every dtype but complex numbers and opaque blocks. Otherwise the types must be equal.
  /// Calls that give tensors or bytes as they are refuse it (kInvalidArgument).
  bool convert = false;
  /// Told of the stored bytes that are read or checked. Not called if there are none, such as for
  /// mapped tensors with Check::kNothing.
  Progress progress = {};
  /// Set it to true, from any thread or a signal handler, to give up the read: it ends with
  /// kCancelled before its next MiB, or returns what it has if none is left. It must outlive the
  /// call.
  const std::atomic<bool>* cancel = nullptr;
};

/// A tensor's elements in memory: packed, in C order, little-endian. The bytes and elements that it
/// gives are kept alive by themselves.
class TensorView {
 public:
  TensorView() = default;
  /// `keeper` keeps the bytes alive: the mapped file, or a buffer.
  TensorView(DType type, std::vector<std::uint64_t> axes, ByteSpan bytes,
             std::shared_ptr<const void> keeper)
      : dtype(type), shape(std::move(axes)), bytes_(bytes, std::move(keeper)) {}

  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;

  Elements<std::byte> bytes() const { return bytes_; }

  /// The elements as objects of their C++ type. kWrongKind if `T` is the type of another dtype.
  /// kInvalidArgument if the file has the elements at an address where no `T` may stand, which
  /// never happens with Espalier files that are mapped or in a vector: read_into() copies them.
  /// kTensorInvalid if a bool is neither 0 nor 1, which C++ does not allow.
  template <Element T>
  [[nodiscard]] Result<Elements<T>> as() const {
    if (auto ok = check_elements(dtype_of<T>, alignof(T)); !ok) return propagate(ok);
    return elements<T>();
  }
  /// The bits of the elements, whatever they mean: as_bits<std::uint16_t>() of a tensor of bf16.
  /// kWrongKind if the elements are wider or narrower than a `T`; kInvalidArgument as of as().
  template <class T>
  requires std::is_trivially_copyable_v<T> &&(!std::same_as<T, bool>)
      [[nodiscard]] Result<Elements<T>> as_bits() const {
    if (auto ok = check_bits(8 * sizeof(T), alignof(T)); !ok) return propagate(ok);
    return elements<T>();
  }

 private:
  template <class T>
  Elements<T> elements() const {
    const auto* first = reinterpret_cast<const T*>(bytes_.data());
    return {std::span(first, bytes_.size() / sizeof(T)), bytes_.keeper()};
  }
  [[nodiscard]] Result<void> check_elements(DType wanted, std::size_t alignment) const;
  [[nodiscard]] Result<void> check_bits(std::size_t wanted, std::size_t alignment) const;
  [[nodiscard]] Result<void> check_address(std::size_t alignment) const;

  Elements<std::byte> bytes_;
};

/// A tensor, or a slice of it (see CheckpointFile::slice()), to read into memory of the caller.
struct ReadRequest {
  TensorRef tensor;
  /// As many bytes as the tensor or slice.
  MutableByteSpan out;
  std::vector<Slice> slices = {};
};

/// A tensor's key path, and a vector, array or span for its elements.
struct TensorTarget {
  template <ElementRange Elements>
  TensorTarget(std::string key_path, Elements&& elements)
      : path(std::move(key_path)),
        dtype(dtype_of<typename decltype(std::span(elements))::element_type>),
        out(std::as_writable_bytes(std::span(elements))) {
    static_assert(
        std::is_lvalue_reference_v<Elements> || std::ranges::enable_borrowed_range<Elements>,
        "the memory must outlive the read");
  }

  std::string path;
  DType dtype;
  MutableByteSpan out;
};

/// The contents of a checkpoint. CheckpointFile::contents() makes them; save() and
/// save_safetensors() take them.
struct Contents {
  using LendsWhatEndsWithIt = void;

  Value state;
  /// A dict without tensors.
  Value metadata = Value::dict();
  /// How to save the tensors: see SaveOptions. A file that has compressed chunks gives
  /// level 1, because files do not say at what level they were saved. Tensors that stay as
  /// they are keep their compression: see SaveOptions::carry.
  int compression_level = 0;
};

/// A node that a pattern matches, and its printed key path.
struct FoundNode {
  std::string path;
  NodeRef node;
};

/// An open checkpoint of any format that the library reads. Cheap to copy; copies share the
/// file. Const use is thread-safe. Functions that return a Result never throw std::bad_alloc; they
/// return kOutOfMemory. Handles into the file (NodeRef, TensorRef) are valid as long as one copy
/// lives.
class CheckpointFile {
 public:
  using LendsWhatEndsWithIt = void;

  /// Opens `path` and validates everything except the tensors' bytes, which it does not read: the
  /// time depends only on the size of the tree. The first bytes determine the format; the name does
  /// not matter. For a checkpoint in several files, pass the file that describes it; open() looks
  /// for the others in the same folder. A folder of torch.distributed.checkpoint may be passed as
  /// it is.
  [[nodiscard]] static Result<CheckpointFile> open(const FilePath& path,
                                                   const OpenFileOptions& options = {});

  /// The same for a file in memory; see memory_source(). Validation and errors are the same, and so
  /// is the work: tensors are used where they are. `keeper` keeps the bytes alive; if it is null,
  /// you do, as long as a copy of the file or a view of it lives.
  [[nodiscard]] static Result<CheckpointFile> open(ByteSpan bytes,
                                                   std::shared_ptr<const void> keeper,
                                                   const OpenFileOptions& options = {});
  /// The same for bytes that the checkpoint then owns.
  [[nodiscard]] static Result<CheckpointFile> open(std::vector<std::byte> bytes,
                                                   const OpenFileOptions& options = {});

  /// The same for a source of your own. Reads go through it as long as a copy of the file or a view
  /// of it lives. kInvalidArgument for a null pointer, and for a source whose mapping() is not as
  /// long as its size().
  [[nodiscard]] static Result<CheckpointFile> open(std::shared_ptr<const Source> source,
                                                   const OpenFileOptions& options = {});

  const Checkpoint& checkpoint() const& { return checkpoint_; }
  NodeRef state() const& { return checkpoint_.state(); }
  NodeRef metadata() const& { return checkpoint_.metadata(); }
  const Source& source() const& { return *source_; }
  // The handles of a temporary file would dangle at once.
  const Checkpoint& checkpoint() && = delete;
  NodeRef state() && = delete;
  NodeRef metadata() && = delete;
  const Source& source() && = delete;

  /// Returns the whole tensor. Raw tensors of a mapped file are views of the mapping, without a
  /// copy. Compressed tensors, and tensors of a file that is not mapped, are read into memory.
  /// kWrongKind for a placeholder. kChunkCorrupt if the bytes are damaged (see Check; only in a
  /// format with hashes). kNotContiguous for a tensor of another format that is stored with
  /// strides, in another byte order or in parts: slice() reads it. kCancelled, as of every function
  /// that takes ReadOptions.
  [[nodiscard]] Result<TensorView> view(const TensorRef& tensor,
                                        const ReadOptions& options = {}) const;

  /// The same for the tensor at a key path: see NodeRef::at(). kWrongKind if another kind of node
  /// is there.
  [[nodiscard]] Result<TensorView> tensor(std::string_view path,
                                          const ReadOptions& options = {}) const;

  /// The elements of the tensor at a key path: tensor() and as() in one. They outlive the file.
  template <Element T>
  [[nodiscard]] Result<Elements<T>> elements(std::string_view path,
                                             const ReadOptions& options = {}) const {
    auto view = tensor(path, options);
    if (!view) return propagate(view);
    auto found = view->template as<T>();
    if (!found) {
      found.error().path = path;
      name_file(found.error());
    }
    return found;
  }

  /// The nodes of the state that a pattern matches (see Pattern), each with all below it, parents
  /// first; none if it matches nothing. kInvalidPattern. kLimitExceeded if the paths together
  /// take more than Limits::text_bytes.
  [[nodiscard]] Result<std::vector<FoundNode>> find(std::string_view pattern) const&;
  Result<std::vector<FoundNode>> find(std::string_view pattern) && = delete;

  /// Returns a slice of the tensor in its own memory. `slices` holds one Slice for each of the
  /// first axes; axes without one are read whole. Reads only the chunks that it needs. kWrongKind
  /// for a placeholder. kInvalidSlice if there are more slices than axes, a step is not positive,
  /// or a slice would cut an opaque block.
  [[nodiscard]] Result<TensorView> slice(const TensorRef& tensor, std::span<const Slice> slices,
                                         const ReadOptions& options = {}) const;
  /// The same for the tensor at a key path: `file.slice("model/weight", {{.start = 0, .stop =
  /// 8}})`.
  [[nodiscard]] Result<TensorView> slice(std::string_view path, std::span<const Slice> slices,
                                         const ReadOptions& options = {}) const;
  [[nodiscard]] Result<TensorView> slice(std::string_view path, std::initializer_list<Slice> slices,
                                         const ReadOptions& options = {}) const;

  /// The same into `out`, which must have as many bytes as the slice. After an error its contents
  /// are unspecified. Like slice() and load_into(), it reads a mapped file without touching the
  /// mapping: kFileChanged if the file was cut, where views die of SIGBUS.
  [[nodiscard]] Result<void> read_into(const TensorRef& tensor, std::span<const Slice> slices,
                                       MutableByteSpan out, const ReadOptions& options = {}) const;

  /// The same for several at once, with all chunks in one parallel loop. The memory of two requests
  /// must not overlap.
  [[nodiscard]] Result<void> read_into(std::span<const ReadRequest> requests,
                                       const ReadOptions& options = {}) const;

  /// Reads the tensors at key paths of the state into memory of their types, like read_into(), or
  /// of other types: see ReadOptions::convert. kInvalidArgument, before anything is read, if a
  /// tensor has another dtype or number of elements than its memory. kTensorInvalid if a bool is
  /// neither 0 nor 1.
  [[nodiscard]] Result<void> load_into(std::span<const TensorTarget> targets,
                                       const ReadOptions& options = {}) const;
  [[nodiscard]] Result<void> load_into(std::initializer_list<TensorTarget> targets,
                                       const ReadOptions& options = {}) const;

  /// State for reading chunks: memory for stored bytes, and a decoder. One per thread; movable.
  class ChunkBuffer {
   public:
    ChunkBuffer();
    ChunkBuffer(ChunkBuffer&& other) noexcept;
    ChunkBuffer& operator=(ChunkBuffer&& other) noexcept;
    ~ChunkBuffer();

   private:
    friend class CheckpointFile;
    struct State;
    std::unique_ptr<State> state_;
  };

  /// Returns up to kChunkBytes bytes of the tensor from byte `i` * kChunkBytes on, packed in C
  /// order, after checking their hash. Use it to read a tensor that is larger than memory; pages of
  /// a mapped file count as memory of the process, but the system takes them back. `i` must be
  /// below espalier::chunk_count(tensor.bytes()). The result is a view of the mapping, or of
  /// `buffer`, which grows as needed: to 32 MiB and a chunk if the tensor has strides. It is valid
  /// until the file or `buffer` changes or is destroyed. Errors are those of slice().
  [[nodiscard]] Result<ByteSpan> read_chunk(const TensorRef& tensor, std::uint32_t i,
                                            ChunkBuffer& buffer) const;

  /// Turns an earlier state of a chunk into the one of this checkpoint, in place. Chunk `i` of the
  /// tensor is a patch (TensorRef::bases()), and `bytes` holds its base number `base`, as its hash
  /// there says. Reads the patches alone, and not the base. `bytes` is unspecified after an error;
  /// kChunkCorrupt if it held anything else. Other errors are those of read_chunk().
  [[nodiscard]] Result<void> patch_chunk(const TensorRef& tensor, std::uint32_t i, std::size_t base,
                                         MutableByteSpan bytes, ChunkBuffer& buffer) const;

  /// Returns the tree below `node` with all tensors, exactly as it was saved. Tensors are view()s,
  /// so raw tensors of a mapped file take no memory. kLimitExceeded if the others together take
  /// more than Limits::decoded_bytes; other errors are those of view().
  [[nodiscard]] Result<Value> load(const NodeRef& node, const ReadOptions& options = {}) const;

  /// The same for several nodes, whose tensors are read at once. A tensor that is at several places
  /// is one object.
  [[nodiscard]] Result<std::vector<Value>> load(std::span<const NodeRef> nodes,
                                                const ReadOptions& options = {}) const;

  /// The same with bytes that belong to the caller, for libraries whose tensors are never
  /// read-only: TensorData::writable_memory() has them. Raw tensors of a mapped file are views of a
  /// new, private mapping. A page becomes a copy when it is written to; the file and other views
  /// keep theirs. A later save writes the bytes in memory (it does not take over those of the
  /// file).
  [[nodiscard]] Result<std::vector<Value>> load_writable(std::span<const NodeRef> nodes,
                                                         const ReadOptions& options = {}) const;

  /// The same as load() with tensors that are read and checked only on demand, or taken over by a
  /// save as they are (SaveOptions::carry). Use it to save a tree that is larger than memory.
  [[nodiscard]] Result<Value> load_lazily(const NodeRef& node) const;

  /// The whole state, as load_lazily() gives it, with the metadata and whether the file is
  /// compressed: to change parts of it and save it again, also over the same file.
  [[nodiscard]] Result<Contents> contents() const;

  /// Returns data that are read and checked when a save asks for them, or taken over by it as they
  /// are (SaveOptions::carry). kWrongKind for a placeholder.
  [[nodiscard]] Result<TensorData> data_lazily(const TensorRef& tensor) const;

  /// Checks every byte of the file, whatever ReadOptions::check is; of a format without hashes, the
  /// bytes that it has checksums of. Fails only if the file cannot be read, or with kCancelled;
  /// damage is in the report. Of FileScope::kOwn, further files are left out, and so are patches of
  /// what lies there, which are counted as unchecked.
  [[nodiscard]] Result<VerifyReport> verify(const ReadOptions& options = {},
                                            FileScope scope = FileScope::kAll) const;

 private:
  friend class LazyTensors;
  friend class MachineOpening;
  [[nodiscard]] Result<VerifyReport> verify_checksums(const ReadOptions& options) const;
  CheckpointFile(std::shared_ptr<const Source> source, Checkpoint checkpoint,
                 const OpenFileOptions& options);

  TensorData with_place(const TensorRef& tensor, TensorData data) const;
  Extent stored_extent(const TensorRef& tensor, std::uint32_t i) const;
  /// Returns the bytes of the extent: a view of the mapping, or of `memory`, which grows as needed.
  [[nodiscard]] Result<ByteSpan> read_stored(const Extent& extent,
                                             std::vector<std::byte>& memory) const;
  /// The same, always in `memory`.
  [[nodiscard]] Result<ByteSpan> copy_stored(const Extent& extent,
                                             std::vector<std::byte>& memory) const;
  template <class ReadStored>
  [[nodiscard]] Result<StoredLayers> read_layers(const Extent& extent,
                                                 std::span<const ChunkRecord> bases,
                                                 ChunkBuffer& buffer, ReadStored read) const;
  /// Whether the tensor is used where it lies in the mapping.
  bool is_in_place(const TensorRef& tensor) const;
  class Read;
  [[nodiscard]] Result<void> check_in_place(std::span<const TensorRef> tensors, Read& read) const;
  [[nodiscard]] Result<void> read_band(const TensorRef& tensor, std::uint64_t offset,
                                       ChunkBuffer& buffer) const;
  [[nodiscard]] Result<ByteSpan> read_strided_chunk(const TensorRef& tensor, std::uint32_t i,
                                                    ChunkBuffer& buffer) const;
  struct Reading;
  [[nodiscard]] Result<void> read_all(std::span<const Reading> readings, Read& read) const;
  struct Conversion;
  [[nodiscard]] Result<void> convert_all(std::span<const Conversion> conversions, Read& read) const;
  [[nodiscard]] Result<void> read_planned_chunk(const ReadPlan& plan, std::size_t i,
                                                MutableByteSpan out, ChunkBuffer& buffer) const;
  struct Loading;
  [[nodiscard]] Result<Loading> prepare_loading(std::span<const NodeRef> nodes) const;
  [[nodiscard]] Result<std::vector<Value>> load(std::span<const NodeRef> nodes,
                                                const ReadOptions& options, bool is_writable) const;
  [[nodiscard]] Result<void> read_range(const TensorRef& tensor, std::uint64_t offset,
                                        MutableByteSpan out, ChunkBuffer& buffer) const;

  std::shared_ptr<const Source> source_;
  Checkpoint checkpoint_;
  OpenFileOptions options_;
  void name_file(Error& error) const noexcept;
  /// What copies share: the path that was opened, for errors, and decoders for producers, which do
  /// not know their thread. Making one for each call would cost more than decoding a small chunk.
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// Opens a file for its contents() alone: to edit it, or merge it with others.
[[nodiscard]] Result<Contents> load_contents(const FilePath& path,
                                             const OpenFileOptions& options = {});

/// Opens a tree, and a dict without tensors as its metadata. Whatever reads a checkpoint can then
/// read it: find(), slice(), diffs, statistics. Tensors are produced when they are read, a chunk at
/// a time and from several threads, and have no hashes. kInvalidTree for a tree that no checkpoint
/// can hold, and for a streamed tensor, which could only be read once. Uses the options for limits,
/// threads and `nest`, and ignores the others.
[[nodiscard]] Result<CheckpointFile> open_value(const Value& state, const Value& metadata,
                                                const OpenFileOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_CHECKPOINT_FILE_H_
