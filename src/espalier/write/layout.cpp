#include "espalier/write/layout.h"

#include <optional>
#include <span>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/dtype.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/file_table.h"
#include "espalier/format/find_path.h"
#include "espalier/format/header.h"
#include "espalier/format/validate.h"
#include "espalier/write/value_tables.h"

namespace espalier {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 62;

// Gives every chunk its offset and length, as docs/format.md section 6 says. `end` is the first
// byte after the index, and then the first one after the file. False if the file would be too
// large.
bool place_chunks(const Tables& t, std::span<ChunkRecord> chunks, std::uint64_t& end) {
  for (const TensorRecord& tensor : t.tensors) {
    if (tensor.first_chunk == kNoChunk) continue;
    const std::uint64_t bytes = table_tensor_bytes(t, tensor);
    for (std::uint64_t i = 0; i < chunk_count(bytes); ++i) {
      ChunkRecord& chunk = chunks[static_cast<std::size_t>(tensor.first_chunk + i)];
      if (chunk.file != 0) continue;
      if (!chunk.is_patch()) chunk.stored = static_cast<std::uint32_t>(chunk_length(bytes, i));
      const bool is_aligned = is_aligned_chunk(t, tensor, static_cast<std::uint32_t>(i));
      const auto begin = is_aligned ? checked_align(end, kTensorAlignment) : end;
      const auto next = begin ? checked_add(*begin, chunk.stored) : std::nullopt;
      if (!next || *next > kMaxFileBytes) return false;
      chunk.offset = *begin;
      end = *next;
    }
  }
  return true;
}

// What is known of the chunks of a tensor; null if nothing is.
const std::vector<ReferredChunk>* find_chunks(const References& references, const Tensor* tensor) {
  const auto found = references.chunks.find(tensor);
  return found == references.chunks.end() ? nullptr : &found->second;
}

// The bases of all patches, in the order of chunks.
std::vector<ChunkRecord> bases_of(const References& references,
                                  std::span<const std::shared_ptr<const Tensor>> tensors) {
  std::vector<ChunkRecord> bases;
  if (references.chunks.empty()) return bases;
  for (const auto& tensor : tensors) {
    const auto* chunks = find_chunks(references, tensor.get());
    if (chunks == nullptr) continue;
    for (const ReferredChunk& chunk : *chunks) {
      if (!chunk.is_referred()) continue;
      bases.insert(bases.end(), chunk.bases.begin(), chunk.bases.end());
    }
  }
  return bases;
}

// Copies the records of chunks that lie in other files, and those of patches.
Result<void> refer(const References& references, Layout& layout) {
  if (references.chunks.empty()) return {};
  const Tables& t = layout.index.tables();
  const auto records = layout.index.chunks();
  for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
    const auto* chunks = find_chunks(references, layout.tensors[i].get());
    if (chunks == nullptr) continue;
    const auto places = table_chunks(t, static_cast<std::uint32_t>(i));
    if (chunks->size() != places.size()) {
      return fail(ErrorCode::kInvalidArgument,
                  "a tensor that lies in other files has " + counted(chunks->size(), "chunk") +
                      " there, and needs " + std::to_string(places.size()));
    }
    for (std::uint32_t k = 0; k < places.size(); ++k) {
      const ReferredChunk& chunk = (*chunks)[k];
      if (!chunk.is_referred()) continue;
      const std::uint32_t number = t.tensors[i].first_chunk + k;
      records[number] = chunk.record;
      if (chunk.patch != nullptr) layout.patches.emplace(number, chunk.patch);
    }
  }
  return {};
}

}  // namespace

Result<Layout> lay_out(const Value& state, const Value& metadata, const Limits& limits,
                       const References& references) {
  auto made = make_tables(state, metadata, references.files, limits);
  if (!made) return propagate(made);
  made->tables.bases = bases_of(references, made->tensors);
  auto encoded = EncodedIndex::encode(std::move(made->tables), made->chunk_count);
  if (!encoded) {
    if (encoded.error().code == ErrorCode::kLimitExceeded) {
      encoded.error().code = ErrorCode::kInvalidTree;
    }
    return propagate(encoded);
  }
  Layout layout(std::move(*encoded));
  layout.tensors = std::move(made->tensors);
  const Tables& tables = layout.index.tables();
  if (auto ok = refer(references, layout); !ok) return propagate(ok);
  const std::uint64_t data_begin = kHeaderBytes + layout.index.bytes().size();
  layout.file_length = data_begin;
  if (!place_chunks(tables, layout.index.chunks(), layout.file_length)) {
    return fail(ErrorCode::kInvalidTree, "the file would be larger than 2^62 bytes");
  }
  // What our own reader would refuse must not be written: this is where limits on paths and the
  // like are enforced, by the one function that knows them all.
  if (auto ok = check_file_table(tables, layout.index.bytes().data()); !ok) {
    ok.error().code = ErrorCode::kInvalidTree;
    return propagate(ok);
  }
  if (tables.files.size() > limits.files) {
    return fail(ErrorCode::kInvalidTree,
                "the file would have bytes in " + counted(tables.files.size(), "further file") +
                    " and Limits::files allows " + std::to_string(limits.files) +
                    "; save it without a base");
  }
  const FileSet files = file_set(tables, {.length = layout.file_length, .data_begin = data_begin});
  const FileFacts facts{
      .placement = Placement::kCanonical, .features = features_of(tables), .files = files};
  if (auto valid = validate(tables, facts, limits); !valid) {
    valid.error().code = ErrorCode::kInvalidTree;
    return propagate(valid);
  }
  return layout;
}

}  // namespace espalier
