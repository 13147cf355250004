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
  const FileFacts facts{.placement = Placement::kCanonical,
                        .features = header.features,
                        .file_length = header.file_length,
                        .data_begin = header.index_end(),
                        .index = bytes.data(),
                        .index_offset = kHeaderBytes};
  auto derived = validate(*tables, facts, limits);
  if (!derived) return propagate(derived);
  auto catalog = std::make_shared<Catalog>(Token{});
  catalog->file_length_ = header.file_length;
  catalog->data_begin_ = header.index_end();
  catalog->tree_digest_ = header.tree_digest;
  catalog->arena_ = std::move(index);
  catalog->tables_ = *tables;
  catalog->derived_ = std::move(*derived);
  return catalog;
}

Result<std::shared_ptr<const Catalog>> Catalog::from_foreign(FileFormat format, OwnedTables tables,
                                                             std::uint64_t file_length,
                                                             std::uint64_t data_begin,
                                                             const Limits& limits) {
  auto catalog = std::make_shared<Catalog>(Token{});
  catalog->format_ = format;
  catalog->file_length_ = file_length;
  catalog->data_begin_ = data_begin;
  catalog->owned_ = std::move(tables);
  catalog->tables_ = catalog->owned_.view();
  const FileFacts facts{
      .placement = Placement::kForeign, .file_length = file_length, .data_begin = data_begin};
  auto derived = validate(catalog->tables_, facts, limits);
  if (!derived) return propagate(derived);
  catalog->derived_ = std::move(*derived);
  return catalog;
}

}  // namespace espalier
