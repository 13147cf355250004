#include "espalier/write/layout.h"

#include <optional>
#include <span>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/format/access.h"
#include "espalier/format/find_path.h"
#include "espalier/format/header.h"
#include "espalier/format/shape.h"
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
      chunk.stored = static_cast<std::uint32_t>(chunk_length(bytes, i));
      const auto begin = i == 0 ? checked_align(end, kTensorAlignment) : end;
      const auto next = begin ? checked_add(*begin, chunk.stored) : std::nullopt;
      if (!next || *next > kMaxFileBytes) return false;
      chunk.offset = *begin;
      end = *next;
    }
  }
  return true;
}

}  // namespace

Result<Layout> lay_out(const Value& state, const Value& metadata, const Limits& limits) {
  auto made = make_tables(state, metadata, limits);
  if (!made) return propagate(made);
  auto encoded = EncodedIndex::encode(std::move(made->tables), made->chunk_count);
  if (!encoded) {
    if (encoded.error().code == ErrorCode::kLimitExceeded) {
      encoded.error().code = ErrorCode::kInvalidTree;
    }
    return propagate(encoded);
  }
  Layout layout(std::move(*encoded));
  layout.tensors = std::move(made->tensors);
  const Tables tables = layout.index.tables();
  const std::uint64_t data_begin = kHeaderBytes + layout.index.bytes().size();
  layout.file_length = data_begin;
  if (!place_chunks(tables, layout.index.chunks(), layout.file_length)) {
    return fail(ErrorCode::kInvalidTree, "the file would be larger than 2^62 bytes");
  }
  // What our own reader would refuse must not be written: this is where limits on paths and the
  // like are enforced, by the one function that knows them all.
  const FileEntry file{.length = layout.file_length, .data_begin = data_begin};
  const FileFacts facts{.placement = Placement::kCanonical, .files = std::span(&file, 1)};
  if (auto valid = validate(tables, facts, limits); !valid) {
    valid.error().code = ErrorCode::kInvalidTree;
    return propagate(valid);
  }
  return layout;
}

}  // namespace espalier
