#include "espalier/detail/catalog.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "espalier/base/arena.h"
#include "espalier/base/counted.h"
#include "espalier/base/release.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/format/format_info.h"
#include "espalier/format/header.h"
#include "espalier/format/index.h"
#include "espalier/format/nest_names.h"
#include "espalier/format/validate.h"

namespace espalier {

struct Catalog::Owned final : Catalog {
  void nest_names(const Limits& limits);

  FileSet files_;
  Notes notes_;
  std::optional<Arena> arena_;
  OwnedTables owned_;   // if they do not stand in the arena
  OwnedTables nested_;  // the tree, if names were nested
};

// Volatile, because nothing can see the value otherwise, once the object is gone.
Catalog::~Catalog() { *const_cast<volatile std::uint32_t*>(&alive_) = 0; }

const Catalog::Owned& Catalog::owned() const { return static_cast<const Owned&>(*this); }

std::span<const FileEntry> Catalog::files() const { return owned().files_; }
std::uint64_t Catalog::file_length() const { return owned().files_.front().length; }
std::uint64_t Catalog::data_begin() const { return owned().files_.front().data_begin; }
const Notes& Catalog::notes() const { return owned().notes_; }
bool Catalog::is_nested() const { return !owned().nested_.nodes.empty(); }

std::span<const ChunkRecord> Catalog::bases(std::uint32_t chunk) const {
  const auto& patched = pool_facts_.patched;
  const auto found = std::lower_bound(
      patched.begin(), patched.end(), chunk,
      [](const PatchedChunk& patch, std::uint32_t number) { return patch.chunk < number; });
  if (found == patched.end() || found->chunk != chunk) return {};
  const auto next = std::next(found);
  const std::size_t end = next == patched.end() ? tables_.bases.size() : next->first_base;
  return tables_.bases.subspan(found->first_base, end - found->first_base);
}

Result<std::shared_ptr<const Catalog>> Catalog::from_index(const Header& header, Arena index,
                                                           const Tables& tables, FileSet files,
                                                           const Limits& limits, bool nest) {
  const ByteSpan bytes = std::as_const(index).bytes();
  auto catalog = std::make_shared<Owned>();
  catalog->format_ = &kEspalierFormat;
  catalog->files_ = std::move(files);
  const FileFacts facts{.placement = Placement::kCanonical,
                        .features = header.features,
                        .files = catalog->files_,
                        .index = bytes.data(),
                        .index_offset = kHeaderBytes};
  auto facts_of_pools = validate(tables, facts, limits);
  if (!facts_of_pools) return propagate(facts_of_pools);
  catalog->tree_digest_ = header.tree_digest;
  catalog->arena_ = std::move(index);
  catalog->tables_ = catalog->stored_ = tables;
  catalog->pool_facts_ = std::move(*facts_of_pools);
  if (nest) catalog->nest_names(limits);
  return catalog;
}

Result<std::shared_ptr<const Catalog>> Catalog::from_foreign(ForeignParts parts,
                                                             const Limits& limits) {
  if (parts.tree_digest && !parts.tables.storages.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "a catalog with strides or foreign byte orders cannot have hashes");
  }
  for (FileEntry& file : parts.files) {
    if (!file.maker || file.problem || file.length <= limits.made_bytes) continue;
    file.problem = Error{ErrorCode::kLimitExceeded,
                         Error::kNoOffset,
                         {},
                         "this part of the checkpoint takes " + counted(file.length, "byte") +
                             " once it is unpacked, and Limits::made_bytes allows " +
                             std::to_string(limits.made_bytes),
                         file.name};
  }
  auto catalog = std::make_shared<Owned>();
  catalog->format_ = parts.format;
  catalog->files_ = std::move(parts.files);
  catalog->notes_ = std::move(parts.notes);
  catalog->tree_digest_ = parts.tree_digest;
  catalog->owned_ = std::move(parts.tables);
  catalog->tables_ = catalog->stored_ = catalog->owned_.view();
  auto facts_of_pools = validate(
      catalog->tables_, {.placement = Placement::kForeign, .files = catalog->files_}, limits);
  if (!facts_of_pools) return propagate(facts_of_pools);
  catalog->pool_facts_ = std::move(*facts_of_pools);
  if (parts.nest) catalog->nest_names(limits);
  return catalog;
}

std::shared_ptr<const Catalog> Catalog::from_copy(OwnedTables tables,
                                                  const std::optional<Hash128>& tree_digest) {
  auto catalog = std::make_shared<Owned>();
  catalog->format_ = &kEspalierFormat;
  catalog->files_.emplace_back();
  catalog->tree_digest_ = tree_digest;
  catalog->owned_ = std::move(tables);
  catalog->tables_ = catalog->stored_ = catalog->owned_.view();
  const Tables& t = catalog->tables_;
  for (std::uint32_t i = 0; i < t.shape_ends.size(); ++i) {
    std::uint64_t elements = 1;
    for (const std::uint64_t axis : table_shape(t, i)) elements *= axis;
    catalog->pool_facts_.shape_elements.push_back(elements);
  }
  for (std::uint32_t i = 0; i < t.text_ends.size(); ++i) {
    catalog->pool_facts_.plain_texts.push_back(is_plain_key(table_text(t, i)));
  }
  std::uint32_t base = 0;
  for (std::uint32_t i = 0; i < t.chunks.size(); ++i) {
    if (!t.chunks[i].is_patch()) continue;
    catalog->pool_facts_.patched.push_back({i, base});
    // Those of a chunk end with the first that is no patch.
    while (base < t.bases.size() && t.bases[base++].is_patch()) {
    }
  }
  return catalog;
}

// A valid tree becomes a valid tree, so it is not validated again.
void Catalog::Owned::nest_names(const Limits& limits) {
  auto nested = espalier::nest_names(stored_, limits);
  if (!nested) return;
  nested_ = std::move(*nested);
  tables_ = nested_.view();
  tables_.tensors = stored_.tensors;
  tables_.chunks = stored_.chunks;
  tables_.shape_ends = stored_.shape_ends;
  tables_.dims = stored_.dims;
  tables_.bases = stored_.bases;
  tables_.storages = stored_.storages;
  tables_.strides = stored_.strides;
  pool_facts_.plain_texts.clear();
  for (std::uint32_t i = 0; i < tables_.text_ends.size(); ++i) {
    pool_facts_.plain_texts.push_back(is_plain_key(table_text(tables_, i)));
  }
  if (tree_digest_) return;
  // Without a digest, nothing looks at the stored tree again.
  stored_ = tables_;
  release_memory(owned_.nodes);
  release_memory(owned_.words);
  release_memory(owned_.text_ends);
  release_memory(owned_.text);
  release_memory(owned_.bytes);
  release_memory(owned_.order);
}

}  // namespace espalier
