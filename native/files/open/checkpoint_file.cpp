#include "espalier/checkpoint_file.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/codec/chunk_gate.h"
#include "espalier/codec/compression_level.h"
#include "espalier/dtype.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/zip/checksum_plan.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/stored_tensor.h"
#include "espalier/pattern.h"
#include "espalier/read/chunk_reader.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/pattern_stepper.h"
#include "espalier/read/plan.h"
#include "espalier/read/resolve_patterns.h"
#include "espalier/read/to_value.h"
#include "espalier/read/verify.h"
#include "espalier/walker.h"
#include "files/open/checkpoint_folder.h"
#include "files/open/file_set_opener.h"
#include "files/open/machine_opening.h"
#include "files/open/made_source.h"
#include "files/open/private_source.h"
#include "files/open/read_ahead.h"
#include "files/os/huge_pages.h"
#include "files/os/out_of_memory.h"
#include "files/os/parallel.h"
#include "files/os/pool.h"

namespace espalier {
namespace {

tl::unexpected<Error> no_memory(const TensorRef& tensor, std::uint64_t bytes) {
  return fail(ErrorCode::kOutOfMemory,
              "cannot allocate " + counted(bytes, "byte") +
                  " for a tensor; read slices of it, or map the file",
              Error::kNoOffset, tensor_path(tensor));
}

tl::unexpected<Error> too_much(std::uint64_t limit, std::string path) {
  return fail(ErrorCode::kLimitExceeded,
              "loading this takes more memory than the " + counted(limit, "byte") +
                  " that Limits::decoded_bytes allows; load parts of it",
              Error::kNoOffset, std::move(path));
}

bool has_strides(const TensorRef& tensor) {
  const StorageRecord* storage = tensor.storage();
  return storage != nullptr && (storage->flags & kStorageStrided) != 0;
}

// That all bools are valid objects in C++. A hostile file may have other bytes.
Result<void> check_bools(DType dtype, ByteSpan bytes) {
  if (dtype != DType::kBool) return {};
  const auto invalid =
      std::find_if(bytes.begin(), bytes.end(), [](std::byte byte) { return byte > std::byte{1}; });
  if (invalid == bytes.end()) return {};
  return fail(ErrorCode::kTensorInvalid,
              "bool number " + std::to_string(invalid - bytes.begin()) +
                  " is neither 0 nor 1; read the tensor's bytes and decide what they mean");
}

Result<TensorRef> tensor_at(const NodeRef& root, std::string_view path) {
  const auto node = root.at(path);
  if (!node) return propagate(node);
  if (const auto tensor = node->tensor()) return *tensor;
  return fail(ErrorCode::kWrongKind,
              "a tensor is needed, and this is of kind " + std::string(kind_name(node->kind())),
              Error::kNoOffset, std::string(path));
}

// The plan of a read; its errors name the tensor.
Result<ReadPlan> plan_read(const TensorRef& tensor, std::span<const Slice> slices) {
  auto plan = ReadPlan::make(tensor, slices);
  if (!plan && plan.error().path.empty()) plan.error().path = tensor_path(tensor);
  return plan;
}

// Whether the tensor is stored as its raw chunks, one after the other.
bool is_contiguous(const TensorRef& tensor) {
  if (tensor.is_placeholder()) return true;
  if (tensor.storage() != nullptr) return false;
  // Ours may lie in several files, which readers need not know.
  if (tensor.catalog().format() == FileFormat::kEspalier) return true;
  const auto chunks = table_chunks(tensor.catalog().tables(), tensor.number());
  for (std::size_t i = 1; i < chunks.size(); ++i) {
    if (chunks[i].file != chunks[i - 1].file ||
        chunks[i].offset != chunks[i - 1].offset + chunks[i - 1].stored) {
      return false;
    }
  }
  return true;
}

}  // namespace

struct CheckpointFile::ChunkBuffer::State {
  std::vector<std::byte> stored;
  // Of a patch: the stored bytes of its bases, and views of all.
  std::vector<std::vector<std::byte>> bases;
  std::vector<ByteSpan> layers;
  ChunkReader reader;
  // The part of a strided tensor that was read last.
  std::optional<TensorRef> band_of;
  std::uint64_t band_begin = 0;
  std::vector<std::byte> band;
};

CheckpointFile::ChunkBuffer::ChunkBuffer() : state_(std::make_unique<State>()) {}
CheckpointFile::ChunkBuffer::ChunkBuffer(ChunkBuffer&& other) noexcept = default;
CheckpointFile::ChunkBuffer& CheckpointFile::ChunkBuffer::operator=(ChunkBuffer&& other) noexcept =
    default;
CheckpointFile::ChunkBuffer::~ChunkBuffer() = default;

struct CheckpointFile::Buffers {
  Pool<ChunkBuffer> pool;
};

CheckpointFile::CheckpointFile(std::shared_ptr<const Source> source, Checkpoint checkpoint,
                               const OpenFileOptions& options)
    : source_(std::move(source)),
      checkpoint_(std::move(checkpoint)),
      options_(options),
      buffers_(std::make_shared<Buffers>()) {}

// A tensor or slice to read, and memory for the result.
struct CheckpointFile::Reading {
  ReadPlan plan;
  MutableByteSpan out;
};

// The progress of one call, and whether to give it up. Every chunk passes it.
class CheckpointFile::Read {
 public:
  explicit Read(const ReadOptions& options) : options_(options) {}

  // Adds to the total. Before the first chunk, so that the total does not change.
  void expect(std::uint64_t bytes) { total_ += bytes; }
  void expect(std::span<const Reading> readings) {
    for (const Reading& reading : readings) {
      for (const PlannedChunk& chunk : reading.plan.chunks()) expect(chunk.stored_bytes());
    }
  }

  // Thread-safe.
  template <class ReadChunk>
  Result<void> chunk(std::uint64_t bytes, const ReadChunk& read_chunk) {
    if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) {
      return fail(ErrorCode::kCancelled, "the read was cancelled");
    }
    Result<void> read = read_chunk();
    if (!read || !options_.progress) return read;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    options_.progress(done_, total_);
    return {};
  }

 private:
  const ReadOptions& options_;
  std::uint64_t total_ = 0;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

Result<void> TensorView::check_elements(DType wanted, std::size_t alignment) const {
  if (dtype != wanted) {
    return fail(ErrorCode::kWrongKind, "the elements are " + std::string(dtype_name(dtype)) +
                                           ", not " + std::string(dtype_name(wanted)));
  }
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "the file has the elements at an address that is no multiple of " +
                    std::to_string(alignment) + "; copy them with read_into()");
  }
  return check_bools(dtype, bytes);
}

namespace {

std::unique_ptr<OpeningMachine> any_machine(const OpenOptions& options) {
  return std::make_unique<AnyOpener>(options);
}

Result<std::shared_ptr<const Source>> no_sibling(const std::string&) {
  return fail(ErrorCode::kFileMissing,
              "the checkpoint has bytes in this file, and was not opened from a folder; say with "
              "OpenFileOptions::sibling where its further files are");
}

}  // namespace

Result<CheckpointFile> CheckpointFile::open(const std::filesystem::path& path,
                                            const OpenFileOptions& options) try {
  return MachineOpening::open(path, options, any_machine);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<CheckpointFile> MachineOpening::open(const std::filesystem::path& file_or_folder,
                                            const OpenFileOptions& options,
                                            const MakeMachine& make_machine) try {
  const auto file_path = file_to_open(file_or_folder);
  if (!file_path) return propagate(file_path);
  const std::filesystem::path& path = *file_path;
  auto source = open_source(path, options.access);
  if (!source) return propagate(source);
  OpenFileOptions beside = options;
  if (beside.name.empty()) beside.name = path.filename().string();
  if (!beside.sibling) {
    beside.sibling = [&](const std::string& name) {
      return open_source(path.parent_path() / name, options.access);
    };
  }
  auto file = open(std::move(*source), beside, make_machine);
  if (file) file->options_.sibling = options.sibling;
  return file;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<CheckpointFile> CheckpointFile::open(ByteSpan bytes, std::shared_ptr<const void> keeper,
                                            const OpenFileOptions& options) try {
  return MachineOpening::open(memory_source(bytes, std::move(keeper)), options, any_machine);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<CheckpointFile> CheckpointFile::open(std::vector<std::byte> bytes,
                                            const OpenFileOptions& options) try {
  return MachineOpening::open(memory_source(std::move(bytes)), options, any_machine);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<CheckpointFile> CheckpointFile::open(std::shared_ptr<const Source> source,
                                            const OpenFileOptions& options) try {
  return MachineOpening::open(std::move(source), options, any_machine);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<CheckpointFile> MachineOpening::open(std::shared_ptr<const Source> source,
                                            const OpenFileOptions& options,
                                            const MakeMachine& make_machine) try {
  if (source == nullptr) return fail(ErrorCode::kInvalidArgument, "there is no source to open");
  const auto mapping = source->mapping();
  if (mapping && mapping->size() != source->size()) {
    return fail(ErrorCode::kInvalidArgument,
                "the source has " + counted(source->size(), "byte") + " and its mapping " +
                    std::to_string(mapping->size()) + "; map all of it, or nothing");
  }
  const auto machine = make_machine({.file_size = source->size(),
                                     .limits = options.limits,
                                     .allocator = huge_page_allocator(),
                                     .nest = options.nest,
                                     .name = options.name,
                                     .is_remote = source->is_remote()});
  auto opened =
      open_files(*machine, std::move(source), options.sibling ? options.sibling : no_sibling,
                 options.sibling_threads, options.limits);
  if (!opened) return propagate(opened);
  return CheckpointFile(std::move(opened->source), std::move(opened->checkpoint), options);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Extent CheckpointFile::stored_extent(const TensorRef& tensor, std::uint32_t i) const {
  const ChunkRecord& chunk = checkpoint_.catalog().tables().chunks[tensor.first_chunk() + i];
  return {chunk.file, chunk.offset, chunk.stored};
}

Result<ByteSpan> CheckpointFile::read_stored(const Extent& extent,
                                             std::vector<std::byte>& memory) const {
  const FileEntry& file = checkpoint_.catalog().files()[extent.file];
  if (file.problem) return tl::unexpected<Error>(*file.problem);
  // Never shrunk: chunk sizes vary.
  if (!source_->mapping(extent.file) && memory.size() < extent.length) {
    memory.resize(static_cast<std::size_t>(extent.length));
  }
  auto bytes = source_->read(extent, memory);
  if (bytes) {
    if (auto ok = check_answer(extent, *bytes); !ok) bytes = propagate(ok);
  }
  if (!bytes && bytes.error().file.empty()) bytes.error().file = file.name;
  return bytes;
}

// The stored bytes of a chunk, or a region, and of its bases, in the mapping or in `buffer`.
template <class ReadStored>
Result<StoredLayers> CheckpointFile::read_layers(const Extent& extent,
                                                 std::span<const ChunkRecord> bases,
                                                 ChunkBuffer& buffer, ReadStored read) const {
  buffer.state_->layers.clear();
  auto bytes = (this->*read)(extent, buffer.state_->stored);
  if (!bytes) return propagate(bytes);
  buffer.state_->layers.push_back(*bytes);
  if (buffer.state_->bases.size() < bases.size()) buffer.state_->bases.resize(bases.size());
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const ChunkRecord& base = bases[i];
    bytes = (this->*read)({base.file, base.offset, base.stored}, buffer.state_->bases[i]);
    if (!bytes) return propagate(bytes);
    buffer.state_->layers.push_back(*bytes);
  }
  return StoredLayers(buffer.state_->layers);
}

Result<ByteSpan> CheckpointFile::read_chunk(const TensorRef& tensor, std::uint32_t i,
                                            ChunkBuffer& buffer) const try {
  if (has_strides(tensor)) return read_strided_chunk(tensor, i, buffer);
  const auto stored =
      read_layers(stored_extent(tensor, i), tensor.bases(i), buffer, &CheckpointFile::read_stored);
  auto bytes = stored ? buffer.state_->reader.open(tensor, i, *stored) : propagate(stored);
  if (!bytes) bytes.error().path = tensor_path(tensor);
  return bytes;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> CheckpointFile::patch_chunk(const TensorRef& tensor, std::uint32_t i, std::size_t base,
                                         MutableByteSpan bytes, ChunkBuffer& buffer) const try {
  const auto stored = read_layers(stored_extent(tensor, i), tensor.bases(i).first(base), buffer,
                                  &CheckpointFile::copy_stored);
  auto ok =
      stored ? buffer.state_->reader.patch(tensor, i, base, *stored, bytes) : propagate(stored);
  if (!ok) ok.error().path = tensor_path(tensor);
  return ok;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> CheckpointFile::check_in_place(std::span<const TensorRef> tensors, Read& read) const {
  struct Place {
    std::uint32_t tensor;  // in `tensors`
    std::uint32_t chunk;   // of that tensor
  };
  std::vector<Place> places;
  ReadAhead ahead(*source_);
  for (std::uint32_t t = 0; t < tensors.size(); ++t) {
    for (std::uint32_t i = 0; i < tensors[t].chunk_count(); ++i) {
      places.push_back({t, i});
      ahead.add(stored_extent(tensors[t], i));
    }
  }
  ahead.start();
  return parallel_for(places.size(), options_.threads,
                      [&](unsigned, std::size_t i) -> Result<void> {
                        const TensorRef& tensor = tensors[places[i].tensor];
                        const auto length = stored_extent(tensor, places[i].chunk).length;
                        return read.chunk(length, [&]() -> Result<void> {
                          ahead.use(length);
                          ChunkBuffer unused;  // The chunks are raw, and mapped.
                          auto bytes = read_chunk(tensor, places[i].chunk, unused);
                          if (!bytes) return propagate(bytes);
                          return {};
                        });
                      });
}

bool CheckpointFile::is_in_place(const TensorRef& tensor) const {
  const auto extent = tensor.raw_extent();
  return extent && source_->mapping(extent->file);
}

Result<TensorView> CheckpointFile::view(const TensorRef& tensor, const ReadOptions& options) const
    try {
  if (!is_contiguous(tensor)) {
    return fail(ErrorCode::kNotContiguous,
                "the tensor is stored with strides, in another byte order or in parts, so view() "
                "cannot return it; read it with slice()",
                Error::kNoOffset, tensor_path(tensor));
  }
  const auto extent = tensor.raw_extent();
  if (!extent || !source_->mapping(extent->file)) return slice(tensor, {}, options);
  if (options.check == Check::kHashes && checkpoint_.catalog().has_hashes()) {
    Read read(options);
    read.expect(tensor.stored_bytes());
    if (auto ok = check_in_place(std::span(&tensor, 1), read); !ok) return propagate(ok);
  }
  auto bytes = source_->read(*extent, {});
  if (!bytes) return propagate(bytes);
  if (auto ok = check_answer(*extent, *bytes); !ok) return propagate(ok);
  const auto shape = tensor.shape();
  return TensorView{tensor.dtype(), {shape.begin(), shape.end()}, *bytes, source_};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<TensorView> CheckpointFile::tensor(std::string_view path, const ReadOptions& options) const
    try {
  const auto found = tensor_at(state(), path);
  if (!found) return propagate(found);
  return view(*found, options);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<std::vector<FoundNode>> CheckpointFile::find(std::string_view pattern) const try {
  auto parsed = Pattern::parse(pattern);
  if (!parsed) return propagate(parsed);
  resolve_patterns(std::span(&*parsed, 1), {state()});
  PatternStepper stepper(std::span(&*parsed, 1));
  std::vector<FoundNode> found;
  std::uint64_t left = options_.limits.text_bytes;
  for (Walker walk(state(), stepper); walk.next();) {
    const std::string_view path = walk.path();
    // A small file can put a million nodes below one long key.
    if (path.size() > left) {
      return fail(ErrorCode::kLimitExceeded,
                  "the key paths of the nodes that match take more than the " +
                      counted(options_.limits.text_bytes, "byte") +
                      " that Limits::text_bytes allows; find fewer nodes, or use a Walker");
    }
    left -= path.size();
    found.push_back({std::string(path), walk.node()});
  }
  return found;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<TensorView> CheckpointFile::slice(const TensorRef& tensor, std::span<const Slice> slices,
                                         const ReadOptions& options) const try {
  auto plan = plan_read(tensor, slices);
  if (!plan) return propagate(plan);
  if (plan->bytes() > options_.limits.decoded_bytes) {
    return fail(ErrorCode::kLimitExceeded,
                "reading this takes " + counted(plan->bytes(), "byte") +
                    " and Limits::decoded_bytes allows " +
                    std::to_string(options_.limits.decoded_bytes),
                Error::kNoOffset, tensor_path(tensor));
  }
  auto memory = large_memory(plan->bytes());
  if (!memory) return no_memory(tensor, plan->bytes());
  const MutableByteSpan out(memory.get(), static_cast<std::size_t>(plan->bytes()));
  std::vector<std::uint64_t> shape = plan->shape();
  const Reading reading{std::move(*plan), out};
  Read read(options);
  read.expect(std::span(&reading, 1));
  if (auto ok = read_all(std::span(&reading, 1), read); !ok) return propagate(ok);
  return TensorView{tensor.dtype(), std::move(shape), out, std::move(memory)};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> CheckpointFile::read_into(const TensorRef& tensor, std::span<const Slice> slices,
                                       MutableByteSpan out, const ReadOptions& options) const try {
  const ReadRequest request{tensor, out, {slices.begin(), slices.end()}};
  return read_into(std::span(&request, 1), options);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> CheckpointFile::read_into(std::span<const ReadRequest> requests,
                                       const ReadOptions& options) const try {
  std::vector<Reading> readings;
  readings.reserve(requests.size());
  for (const ReadRequest& request : requests) {
    auto plan = plan_read(request.tensor, request.slices);
    if (!plan) return propagate(plan);
    if (request.out.size() != plan->bytes()) {
      return fail(ErrorCode::kInvalidArgument,
                  "the result has " + counted(plan->bytes(), "byte") + " and the buffer " +
                      std::to_string(request.out.size()),
                  Error::kNoOffset, tensor_path(request.tensor));
    }
    readings.push_back({std::move(*plan), request.out});
  }
  Read read(options);
  read.expect(readings);
  return read_all(readings, read);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<void> CheckpointFile::load_into(std::span<const TensorTarget> targets,
                                       const ReadOptions& options) const try {
  std::vector<ReadRequest> requests;
  requests.reserve(targets.size());
  for (const TensorTarget& target : targets) {
    const auto tensor = tensor_at(state(), target.path);
    if (!tensor) return propagate(tensor);
    const auto refuse = [&](std::string_view what) {
      return fail(ErrorCode::kInvalidArgument, what, Error::kNoOffset, target.path);
    };
    if (tensor->dtype() != target.dtype) {
      return refuse("the tensor is " + std::string(dtype_name(tensor->dtype())) +
                    " and the memory for it " + std::string(dtype_name(target.dtype)) +
                    "; give memory of a type with that dtype (DTypeOf tells those of your own), or "
                    "take the bytes with read_into()");
    }
    if (tensor->bytes() != target.out.size()) {
      const std::uint64_t width = dtype_bits(target.dtype) / 8;
      return refuse("the tensor has " + counted(tensor->elements(), "element") +
                    " and the memory is for " + std::to_string(target.out.size() / width));
    }
    requests.push_back({*tensor, target.out});
  }
  auto read = read_into(requests, options);
  for (const TensorTarget& target : targets) {
    if (target.dtype != DType::kBool) continue;
    auto ok = check_bools(target.dtype, target.out);
    // Even after an error the caller's memory must hold bools.
    if (!read || !ok) std::fill(target.out.begin(), target.out.end(), std::byte{0});
    if (read && !ok) {
      ok.error().path = target.path;
      read = std::move(ok);
    }
  }
  return read;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

// All chunks of all plans in one parallel loop: a loop for each would start and stop threads every
// time.
Result<void> CheckpointFile::read_all(std::span<const Reading> readings, Read& read) const {
  struct Place {
    std::size_t reading;
    std::size_t begin;  // a range of its chunks
    std::size_t end;
  };
  std::vector<Place> places;
  ReadAhead ahead(*source_);
  for (std::size_t i = 0; i < readings.size(); ++i) {
    const auto& chunks = readings[i].plan.chunks();
    for (const PlannedChunk& chunk : chunks) ahead.add(chunk.stored, chunk.bases);
    // Chunks that share bytes of the result come one after the other.
    const std::size_t step = readings[i].plan.is_concurrent() ? 1 : chunks.size();
    for (std::size_t chunk = 0; chunk < chunks.size(); chunk += step) {
      places.push_back({i, chunk, chunk + step});
    }
  }
  ahead.start();
  std::vector<ChunkBuffer> buffers(thread_count(options_.threads));
  return parallel_for(
      places.size(), options_.threads, [&](unsigned worker, std::size_t i) -> Result<void> {
        const Reading& reading = readings[places[i].reading];
        for (std::size_t chunk = places[i].begin; chunk < places[i].end; ++chunk) {
          const auto length = reading.plan.chunks()[chunk].stored_bytes();
          auto ok = read.chunk(length, [&] {
            ahead.use(length);
            return read_planned_chunk(reading.plan, chunk, reading.out, buffers[worker]);
          });
          if (!ok) return ok;
        }
        return {};
      });
}

Result<ByteSpan> CheckpointFile::copy_stored(const Extent& extent,
                                             std::vector<std::byte>& memory) const {
  const FileEntry& file = checkpoint_.catalog().files()[extent.file];
  if (file.problem) return tl::unexpected<Error>(*file.problem);
  const auto length = static_cast<std::size_t>(extent.length);
  if (memory.size() < length) memory.resize(length);
  const MutableByteSpan copy(memory.data(), length);
  if (auto ok = source_->copy(extent, copy); !ok) {
    ok.error().file = file.name;
    return propagate(ok);
  }
  return ByteSpan(copy);
}

// Reads straight into the result if the bytes are stored raw. Touches no mapping, so a file that is
// cut meanwhile is an error.
Result<void> CheckpointFile::read_planned_chunk(const ReadPlan& plan, std::size_t i,
                                                MutableByteSpan out, ChunkBuffer& buffer) const {
  const Extent& extent = plan.chunks()[i].stored;
  if (const auto direct = plan.direct_offset(i)) {
    const auto length = static_cast<std::size_t>(extent.length);
    const auto target = out.subspan(static_cast<std::size_t>(*direct), length);
    if (auto ok = source_->copy(extent, target); !ok) {
      ok.error().file = checkpoint_.catalog().files()[extent.file].name;
      return ok;
    }
    return plan.deliver(i, ByteSpan(target), out, buffer.state_->reader);
  }
  const auto stored =
      read_layers(extent, plan.chunks()[i].bases, buffer, &CheckpointFile::copy_stored);
  if (!stored) return propagate(stored);
  return plan.deliver(i, *stored, out, buffer.state_->reader);
}

// The tensors below a node, each once: those in the mapping, and those to read into memory.
struct CheckpointFile::Loading {
  std::vector<TensorRef> in_place;
  std::vector<Reading> readings;
  std::vector<std::shared_ptr<std::byte[]>> memory;           // of each reading
  std::unordered_map<std::uint32_t, std::size_t> reading_of;  // by tensor number
};

Result<CheckpointFile::Loading> CheckpointFile::prepare_loading(
    std::span<const NodeRef> nodes) const {
  Loading loading;
  std::vector<bool> seen(checkpoint_.tensor_count());
  std::uint64_t left = options_.limits.decoded_bytes;
  const auto prepare = [&](const TensorRef& tensor) -> Result<void> {
    if (seen[tensor.number()] || tensor.is_placeholder()) return {};
    seen[tensor.number()] = true;
    if (is_in_place(tensor)) {
      loading.in_place.push_back(tensor);
      return {};
    }
    auto plan = plan_read(tensor, {});
    if (!plan) return propagate(plan);
    // Many small chunks can claim as much as one large tensor.
    if (plan->bytes() > left) {
      return too_much(options_.limits.decoded_bytes, tensor_path(tensor));
    }
    left -= plan->bytes();
    auto memory = large_memory(plan->bytes());
    if (!memory) return no_memory(tensor, plan->bytes());
    loading.reading_of.emplace(tensor.number(), loading.readings.size());
    const MutableByteSpan out(memory.get(), static_cast<std::size_t>(plan->bytes()));
    loading.readings.push_back({std::move(*plan), out});
    loading.memory.push_back(std::move(memory));
    return {};
  };
  for (const NodeRef& node : nodes) {
    for (Walker walk(node); walk.next();) {
      const auto tensor = walk.node().tensor();
      if (!tensor) continue;
      if (auto ok = prepare(*tensor); !ok) return propagate(ok);
    }
  }
  return loading;
}

Result<Value> CheckpointFile::load(const NodeRef& node, const ReadOptions& options) const {
  auto loaded = load(std::span(&node, 1), options);
  if (!loaded) return propagate(loaded);
  return std::move(loaded->front());
}

Result<std::vector<Value>> CheckpointFile::load(std::span<const NodeRef> nodes,
                                                const ReadOptions& options) const {
  return load(nodes, options, false);
}

Result<std::vector<Value>> CheckpointFile::load_writable(std::span<const NodeRef> nodes,
                                                         const ReadOptions& options) const try {
  // A process can have only so many mappings: programs that load small tensors one by one get
  // memory.
  constexpr std::uint64_t kLeastMapped = std::uint64_t{1} << 20;
  std::uint64_t bytes = 0;
  for (const NodeRef& node : nodes) {
    for (Walker walk(node); walk.next();) {
      const auto tensor = walk.node().tensor();
      if (tensor && is_in_place(*tensor)) bytes += tensor->bytes();
    }
  }
  CheckpointFile own = *this;
  own.source_ = bytes < kLeastMapped ? without_mappings(source_)
                                     : map_privately(source_, checkpoint_.catalog().files().size());
  return own.load(nodes, options, true);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<std::vector<Value>> CheckpointFile::load(std::span<const NodeRef> nodes,
                                                const ReadOptions& options, bool is_writable) const
    try {
  const auto loading = prepare_loading(nodes);
  if (!loading) return propagate(loading);
  const bool checks = options.check == Check::kHashes && checkpoint_.catalog().has_hashes();
  Read read(options);
  read.expect(loading->readings);
  if (checks) {
    for (const TensorRef& tensor : loading->in_place) read.expect(tensor.stored_bytes());
  }
  if (auto ok = read_all(loading->readings, read); !ok) return propagate(ok);
  if (checks) {
    if (auto ok = check_in_place(loading->in_place, read); !ok) return propagate(ok);
  }
  return to_values(nodes, [&](const TensorRef& tensor) -> Result<TensorData> {
    const auto at = loading->reading_of.find(tensor.number());
    if (at != loading->reading_of.end()) {
      return TensorData::kept(loading->readings[at->second].out, loading->memory[at->second]);
    }
    auto in_place = view(tensor, {.check = Check::kNothing});
    if (!in_place) return propagate(in_place);
    auto data = TensorData::kept(in_place->bytes, in_place->keeper);
    return is_writable ? data : with_place(tensor, std::move(data));
  });
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<Value> CheckpointFile::load_lazily(const NodeRef& node) const try {
  return to_value(node, [this](const TensorRef& tensor) { return data_lazily(tensor); });
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<Contents> CheckpointFile::contents() const try {
  auto state = load_lazily(this->state());
  if (!state) return propagate(state);
  const Tables& t = checkpoint_.catalog().tables();
  const bool is_compressed = has_compressed(t.chunks) || has_compressed(t.bases);
  return Contents{.state = std::move(*state),
                  .metadata = to_value(metadata()),
                  .compression_level = is_compressed ? kFastCompression : kNoCompression};
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<Contents> load_contents(const std::filesystem::path& path, const OpenFileOptions& options) {
  const auto file = CheckpointFile::open(path, options);
  return file ? file->contents() : propagate(file);
}

Result<TensorData> CheckpointFile::data_lazily(const TensorRef& tensor) const try {
  // Fail now if a tensor cannot be read at all, not in the middle of a save.
  if (auto plan = plan_read(tensor, {}); !plan) return propagate(plan);
  return with_place(
      tensor, TensorData::produced([file = *this, tensor](std::uint64_t offset,
                                                          MutableByteSpan out) -> Result<void> {
        const auto buffer = file.buffers_->pool.borrow();
        return file.read_range(tensor, offset, out, *buffer);
      }));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

// Data that a save may take over as they are stored. Not for bytes in memory of their own: those
// were checked, and the file may have changed since.
TensorData CheckpointFile::with_place(const TensorRef& tensor, TensorData data) const {
  if (!checkpoint_.catalog().has_hashes()) return data;
  return std::move(data).also_stored(std::make_shared<const StoredTensor>(
      StoredTensor{checkpoint_.share(), tensor.number(), source_}));
}

// Part of a whole tensor: a save asks for one chunk at a time, and the chunk is read straight into
// its buffer.
Result<void> CheckpointFile::read_range(const TensorRef& tensor, std::uint64_t offset,
                                        MutableByteSpan out, ChunkBuffer& buffer) const {
  // A producer gives all of its tensor.
  if (const auto all = tensor.raw_extent(); all && offset == 0) source_->announce(*all);
  const std::uint64_t end = std::min(tensor.bytes(), offset + out.size());
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t i = at / kChunkBytes;
    auto bytes = read_chunk(tensor, static_cast<std::uint32_t>(i), buffer);
    if (!bytes) return propagate(bytes);
    const std::uint64_t begin = at - i * kChunkBytes;
    const std::uint64_t count = std::min(bytes->size() - begin, end - at);
    std::copy_n(bytes->data() + begin, count, out.data() + (at - offset));
    at += count;
  }
  return {};
}

// Reads the part of a strided tensor that contains byte `offset`: as many whole steps of one axis
// as kBandBytes hold. Larger parts mean fewer passes over the storage.
Result<void> CheckpointFile::read_band(const TensorRef& tensor, std::uint64_t offset,
                                       ChunkBuffer& buffer) const {
  constexpr std::uint64_t kBandBytes = std::uint64_t{32} << 20;
  const auto shape = tensor.shape();
  std::uint64_t step = tensor.bytes();  // of the divided axis, then of the axes before it
  std::size_t axis = 0;
  for (; axis < shape.size() && step > kBandBytes; ++axis) step /= shape[axis];
  std::vector<Slice> slices(axis);
  buffer.state_->band_begin = 0;
  std::uint64_t band_bytes = tensor.bytes();
  if (axis > 0) {
    const std::uint64_t steps = std::max<std::uint64_t>(1, kBandBytes / step);
    std::uint64_t rest = offset;
    std::uint64_t below = tensor.bytes();
    for (std::size_t i = 0; i < axis; ++i) {
      below /= shape[i];
      const std::uint64_t at = rest / below;
      const std::uint64_t begin = i + 1 < axis ? at : at / steps * steps;
      const std::uint64_t end = i + 1 < axis ? at + 1 : std::min(shape[i], begin + steps);
      slices[i].start = static_cast<std::int64_t>(begin);
      slices[i].stop = static_cast<std::int64_t>(end);
      buffer.state_->band_begin += begin * below;
      rest -= at * below;
      band_bytes = (end - begin) * below;
    }
  }
  buffer.state_->band_of.reset();
  buffer.state_->band.resize(static_cast<std::size_t>(band_bytes));
  auto plan = ReadPlan::make(tensor, slices);
  if (!plan) return propagate(plan);
  for (std::size_t i = 0; i < plan->chunks().size(); ++i) {
    if (auto ok = read_planned_chunk(*plan, i, buffer.state_->band, buffer); !ok) return ok;
  }
  buffer.state_->band_of = tensor;
  return {};
}

Result<ByteSpan> CheckpointFile::read_strided_chunk(const TensorRef& tensor, std::uint32_t i,
                                                    ChunkBuffer& buffer) const {
  const std::uint64_t begin = i * kChunkBytes;
  const std::uint64_t length = chunk_length(tensor.bytes(), i);
  std::vector<std::byte> joined;
  for (std::uint64_t at = begin;;) {
    const bool has_it = buffer.state_->band_of == tensor && at >= buffer.state_->band_begin &&
                        at - buffer.state_->band_begin < buffer.state_->band.size();
    if (!has_it) {
      if (auto ok = read_band(tensor, at, buffer); !ok) return propagate(ok);
    }
    const auto part = ByteSpan(buffer.state_->band)
                          .subspan(static_cast<std::size_t>(at - buffer.state_->band_begin));
    const auto count = std::min<std::uint64_t>(part.size(), begin + length - at);
    if (count == length) return part.first(static_cast<std::size_t>(count));
    joined.insert(joined.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
    at += count;
    if (at == begin + length) break;
  }
  buffer.state_->stored = std::move(joined);
  return ByteSpan(buffer.state_->stored);
}

Result<VerifyReport> CheckpointFile::verify(const ReadOptions& options, FileScope scope) const try {
  if (!checkpoint_.catalog().has_hashes()) return verify_checksums(options);
  // Regions of a chunk or a little more: each thread holds one if the file is not mapped.
  const VerifyPlan plan(checkpoint_, kChunkBytes, scope);
  std::mutex mutex;
  std::vector<Damage> damage;
  std::vector<ChunkBuffer> buffers(thread_count(options_.threads));
  Read read(options);
  read.expect(plan.bytes());
  ReadAhead ahead(*source_);
  for (std::size_t i = 0; i < plan.regions().size(); ++i) {
    ahead.add(plan.regions()[i].extent, plan.bases(i));
  }
  ahead.start();
  auto checked = parallel_for(
      plan.regions().size(), options_.threads, [&](unsigned worker, std::size_t i) -> Result<void> {
        const Extent& extent = plan.regions()[i].extent;
        return read.chunk(plan.bytes(i), [&]() -> Result<void> {
          ahead.use(plan.bytes(i));
          ChunkBuffer& buffer = buffers[worker];
          const auto bytes =
              read_layers(extent, plan.bases(i), buffer, &CheckpointFile::read_stored);
          if (!bytes) return propagate(bytes);
          const auto found = plan.check_region(i, *bytes, buffer.state_->reader);
          if (!found) return propagate(found);
          const std::lock_guard lock(mutex);
          damage.insert(damage.end(), found->begin(), found->end());
          return {};
        });
      });
  if (!checked) return propagate(checked);
  return plan.report(std::move(damage));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

// For formats of others: whatever checksums they have, and files that are made of compressed ones.
Result<VerifyReport> CheckpointFile::verify_checksums(const ReadOptions& options) const {
  const Catalog& catalog = checkpoint_.catalog();
  const ChecksumPlan plan(catalog, kChunkBytes);
  std::vector<std::uint32_t> crcs(plan.pieces().size());
  std::vector<ChunkBuffer> buffers(thread_count(options_.threads));
  Read read(options);
  std::uint64_t made_bytes = 0;
  for (const FileEntry& file : catalog.files()) {
    if (file.maker && file.maker->has_checksum() && !file.problem) made_bytes += file.length;
  }
  read.expect(plan.bytes() + made_bytes);
  ReadAhead ahead(*source_);
  for (const Extent& piece : plan.pieces()) ahead.add(piece);
  ahead.start();
  auto checked = parallel_for(
      crcs.size(), options_.threads, [&](unsigned worker, std::size_t i) -> Result<void> {
        const Extent& piece = plan.pieces()[i];
        return read.chunk(piece.length, [&]() -> Result<void> {
          ahead.use(piece.length);
          const auto bytes = read_stored(piece, buffers[worker].state_->stored);
          if (!bytes) return propagate(bytes);
          crcs[i] = ChecksumPlan::crc(*bytes);
          return {};
        });
      });
  if (!checked) return propagate(checked);
  std::vector<Damage> damage;
  std::vector<Error> errors;
  plan.compare(crcs, damage, errors);
  std::uint64_t made = 0;
  for (std::uint32_t number = 0; number < catalog.files().size(); ++number) {
    const FileEntry& file = catalog.files()[number];
    const bool is_checked = file.maker && file.maker->has_checksum() && !file.problem;
    if (!is_checked || file.length == 0) continue;
    ++made;
    auto ok = check_made_file(file, *source_, [&](std::uint64_t bytes) {
      return read.chunk(bytes, [] { return Result<void>{}; });
    });
    if (ok) continue;
    // Such an error says nothing about the file.
    if (ends_all(ok.error().code)) return propagate(ok);
    if (ok.error().file.empty()) ok.error().file = file.name;
    errors.push_back(std::move(ok.error()));
  }
  VerifyReport report = VerifyPlan(checkpoint_).report(std::move(damage));
  report.bytes = plan.bytes() + made_bytes;
  report.checksums = plan.checksums() + made;
  report.unchecked = plan.unchecked();
  report.error_count += errors.size();
  errors.resize(std::min(errors.size(), kMaxReportedErrors));
  report.errors.insert(report.errors.end(), std::make_move_iterator(errors.begin()),
                       std::make_move_iterator(errors.end()));
  return report;
}

}  // namespace espalier
