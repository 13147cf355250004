#include "espalier/format/catalog.h"

#include "espalier/format/access.h"
#include "espalier/format/index.h"
#include "espalier/format/nest_names.h"

namespace espalier {

std::string_view format_name(FileFormat format) {
  return format == FileFormat::kSafetensors ? "safetensors" : "espalier";
}

Result<std::shared_ptr<const Catalog>> Catalog::from_index(const Header& header, Arena index,
                                                           const Limits& limits, bool nest) {
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
  auto derived = validate(*tables, facts, limits);
  if (!derived) return propagate(derived);
  catalog->tree_digest_ = header.tree_digest;
  catalog->arena_ = std::move(index);
  catalog->tables_ = catalog->stored_ = *tables;
  catalog->derived_ = std::move(*derived);
  if (nest) catalog->nest_names(limits);
  return catalog;
}

Result<std::shared_ptr<const Catalog>> Catalog::from_foreign(FileFormat format, OwnedTables tables,
                                                             FileSet files, const Limits& limits,
                                                             std::optional<Hash128> tree_digest,
                                                             bool nest) {
  auto catalog = std::make_shared<Catalog>(Token{});
  catalog->format_ = format;
  catalog->files_ = std::move(files);
  catalog->tree_digest_ = tree_digest;
  catalog->owned_ = std::move(tables);
  catalog->tables_ = catalog->stored_ = catalog->owned_.view();
  auto derived = validate(catalog->tables_,
                          {.placement = Placement::kForeign, .files = catalog->files_}, limits);
  if (!derived) return propagate(derived);
  catalog->derived_ = std::move(*derived);
  if (nest) catalog->nest_names(limits);
  return catalog;
}

// A valid tree becomes a valid tree, so it is not validated again.
void Catalog::nest_names(const Limits& limits) {
  auto nested = espalier::nest_names(stored_, limits);
  if (!nested) return;
  nested_ = std::move(*nested);
  tables_ = nested_.view();
  tables_.tensors = stored_.tensors;
  tables_.chunks = stored_.chunks;
  tables_.shape_ends = stored_.shape_ends;
  tables_.dims = stored_.dims;
  derived_.plain_texts.clear();
  for (std::uint32_t i = 0; i < tables_.text_ends.size(); ++i) {
    derived_.plain_texts.push_back(is_plain_key(table_text(tables_, i)));
  }
  if (tree_digest_) return;
  // Without a digest, nothing looks at the stored tree again.
  stored_ = tables_;
  owned_.nodes = {};
  owned_.words = {};
  owned_.text_ends = {};
  owned_.text = {};
  owned_.bytes = {};
  owned_.order = {};
}

}  // namespace espalier
