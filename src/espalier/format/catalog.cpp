#include "espalier/format/catalog.h"

#include "espalier/format/index.h"

namespace espalier {

std::string_view format_name(FileFormat format) {
  return format == FileFormat::kSafetensors ? "safetensors" : "espalier";
}

Result<std::shared_ptr<const Catalog>> Catalog::from_index(const Header& header, Arena index,
                                                           const Limits& limits) {
  const ByteSpan bytes = std::as_const(index).bytes();
  if (hash128(bytes) != header.index_hash) {
    return fail(ErrorCode::kIndexCorrupt,
                "the index does not match its hash; copy or download the file again", kHeaderBytes);
  }
  auto tables = decode_index(bytes, kHeaderBytes);
  if (!tables) return propagate(tables);
  auto catalog = std::make_shared<Catalog>(Token{});
  catalog->files_.push_back({.length = header.file_length, .data_begin = header.index_end()});
  const FileFacts facts{.placement = Placement::kCanonical,
                        .features = header.features,
                        .files = catalog->files_,
                        .index = bytes.data(),
                        .index_offset = kHeaderBytes};
  auto facts_of_pools = validate(*tables, facts, limits);
  if (!facts_of_pools) return propagate(facts_of_pools);
  catalog->tree_digest_ = header.tree_digest;
  catalog->arena_ = std::move(index);
  catalog->tables_ = *tables;
  catalog->pool_facts_ = std::move(*facts_of_pools);
  return catalog;
}

Result<std::shared_ptr<const Catalog>> Catalog::from_foreign(FileFormat format, OwnedTables tables,
                                                             FileSet files, const Limits& limits,
                                                             std::optional<Hash128> tree_digest,
                                                             Notes notes) {
  if (tree_digest && !tables.storages.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "a catalog with strides or foreign byte orders cannot have hashes");
  }
  auto catalog = std::make_shared<Catalog>(Token{});
  catalog->format_ = format;
  catalog->files_ = std::move(files);
  catalog->notes_ = std::move(notes);
  catalog->tree_digest_ = tree_digest;
  catalog->owned_ = std::move(tables);
  catalog->tables_ = catalog->owned_.view();
  auto facts_of_pools = validate(
      catalog->tables_, {.placement = Placement::kForeign, .files = catalog->files_}, limits);
  if (!facts_of_pools) return propagate(facts_of_pools);
  catalog->pool_facts_ = std::move(*facts_of_pools);
  return catalog;
}

}  // namespace espalier
