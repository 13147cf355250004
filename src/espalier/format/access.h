// Small lookups in tables, shared by what checks them and what reads them afterwards.
//
// Nothing here checks ranges: the caller has, or validate() has.
#ifndef ESPALIER_FORMAT_ACCESS_H_
#define ESPALIER_FORMAT_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "espalier/codec/codec.h"
#include "espalier/detail/catalog.h"
#include "espalier/dtype.h"
#include "espalier/format/features.h"
#include "espalier/key_path.h"
#include "espalier/kind.h"

namespace espalier {

inline Kind node_kind(const NodeRecord& node) { return static_cast<Kind>(node.kind); }

inline std::string_view table_text(const Tables& t, std::uint32_t text) {
  const std::uint32_t begin = text == 0 ? 0 : t.text_ends[text - 1];
  return {t.text.data() + begin, t.text_ends[text] - begin};
}

inline std::int64_t table_int(const Tables& t, std::uint32_t word) {
  return bits_as<std::int64_t>(t.words[word]);
}

inline BlockType table_block(const Tables& t, std::uint16_t block) {
  if (block == 0) return {};
  const BlockRecord& record = t.blocks[block - 1u];
  return {table_text(t, record.name), record.elements, record.bytes};
}

/// Bytes of a tensor whose size is known to be valid.
inline std::uint64_t table_tensor_bytes(const Tables& t, const TensorRecord& tensor) {
  const auto dtype = static_cast<DType>(tensor.dtype);
  const auto shape = table_shape(t, tensor.shape);
  if (const auto bytes = usual_tensor_bytes(dtype, shape)) return *bytes;
  return tensor_bytes(dtype, shape, table_block(t, tensor.block)).value_or(0);
}

/// The record of a tensor that is not stored as ours are; null for one that is.
const StorageRecord* find_table_storage(const Tables& t, std::uint32_t tensor);
inline const StorageRecord* table_storage(const Tables& t, std::uint32_t tensor) {
  return t.storages.empty() ? nullptr : find_table_storage(t, tensor);
}

/// Bytes that the chunks of a tensor hold, once decoded: those of the tensor, or of the storage
/// that it steps through.
inline std::uint64_t table_storage_bytes(const Tables& t, std::uint32_t tensor) {
  const TensorRecord& record = t.tensors[tensor];
  const StorageRecord* storage = table_storage(t, tensor);
  if (storage == nullptr || (storage->flags & kStorageStrided) == 0) {
    return table_tensor_bytes(t, record);
  }
  return storage->elements * (dtype_bits(static_cast<DType>(record.dtype)) / 8);
}

/// The chunks of a tensor; none for a placeholder.
inline std::span<const ChunkRecord> table_chunks(const Tables& t, std::uint32_t tensor) {
  const std::uint32_t first = t.tensors[tensor].first_chunk;
  if (first == kNoChunk) return {};
  return t.chunks.subspan(first,
                          static_cast<std::size_t>(chunk_count(table_storage_bytes(t, tensor))));
}

/// Whether any of the chunks is stored by a codec that needs no base.
inline bool has_compressed(std::span<const ChunkRecord> chunks) {
  for (const ChunkRecord& chunk : chunks) {
    if (chunk.codec != static_cast<std::uint8_t>(Codec::kRaw) && !chunk.is_patch()) return true;
  }
  return false;
}

/// The same for a whole file, with the bases of its patches.
inline bool has_compressed(const Tables& t) {
  return has_compressed(t.chunks) || has_compressed(t.bases);
}

/// Whether any of the chunks is a patch.
inline bool has_patches(std::span<const ChunkRecord> chunks) {
  for (const ChunkRecord& chunk : chunks) {
    if (chunk.is_patch()) return true;
  }
  return false;
}

/// The tensor that holds chunk number `chunk`, which is tensor `from` or a later one.
inline std::uint32_t table_tensor_of(const Tables& t, std::uint32_t chunk, std::uint32_t from) {
  for (;; ++from) {
    if (chunk - t.tensors[from].first_chunk < table_chunks(t, from).size()) return from;
  }
}

/// Whether chunk `i` of a tensor, which lies in file 0, begins at a multiple of kTensorAlignment:
/// it is the first one, or comes after one in another file.
inline bool is_aligned_chunk(const Tables& t, const TensorRecord& tensor, std::uint32_t i) {
  return i == 0 || t.chunks[tensor.first_chunk + i - 1].file != 0;
}

/// The features that a file with these tables needs.
inline std::uint64_t features_of(const Tables& t) {
  std::uint64_t features = 0;
  for (const auto records : {t.chunks, t.bases}) {
    for (const ChunkRecord& record : records) {
      features |= feature_of(record.codec) | (record.file != 0 ? kFeatureOtherFiles : 0);
    }
  }
  return features;
}

/// The texts that name the axes of a tensor with `rank` axes; empty if they have no names.
std::span<const std::uint32_t> table_axis_names(const Tables& t, std::uint32_t tensor,
                                                std::size_t rank);

/// The text that labels a node, if any.
std::optional<std::uint32_t> table_label(const Tables& t, std::uint32_t node);

/// The key of a child of a dict or record.
inline KeyView node_key(const Tables& t, const NodeRecord& node) {
  if (node.key_kind == static_cast<std::uint8_t>(KeyKind::kInt)) {
    return KeyView::of(table_int(t, node.key));
  }
  return KeyView::of(table_text(t, node.key));
}

/// Whether key `a` stands before key `b`: ints first, by value, then texts. Texts are sorted in
/// their pool, so that their numbers compare as they do.
inline bool key_less(const Tables& t, const NodeRecord& a, const NodeRecord& b) {
  if (a.key_kind != b.key_kind) return a.key_kind == static_cast<std::uint8_t>(KeyKind::kInt);
  if (a.key_kind == static_cast<std::uint8_t>(KeyKind::kInt)) {
    return table_int(t, a.key) < table_int(t, b.key);
  }
  return a.key < b.key;
}

}  // namespace espalier

#endif  // ESPALIER_FORMAT_ACCESS_H_
