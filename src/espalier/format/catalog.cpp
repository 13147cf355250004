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
#include "espalier/format/header.h"
#include "espalier/format/index.h"
#include "espalier/format/nest_names.h"
#include "espalier/format/validate.h"

namespace espalier {

struct Catalog::Owned {
  FileSet files;
  Notes notes;
  std::optional<Arena> arena;
  OwnedTables tables;  // if they do not stand in the arena
  OwnedTables nested;  // the tree, if names were nested
};

Catalog::Catalog(Token) : owned_(std::make_unique<Owned>()) {}
Catalog::~Catalog() = default;

std::span<const FileEntry> Catalog::files() const { return owned_->files; }
std::uint64_t Catalog::file_length() const { return owned_->files.front().length; }
std::uint64_t Catalog::data_begin() const { return owned_->files.front().data_begin; }
const Notes& Catalog::notes() const { return owned_->notes; }
bool Catalog::is_nested() const { return !owned_->nested.nodes.empty(); }

std::string_view format_name(FileFormat format) {
  constexpr std::string_view kNames[] = {"espalier", "safetensors", "sharded", "npy", "npz",
                                         "torch",    "gguf",        "msgpack", "dcp", "value"};
  return kNames[static_cast<std::size_t>(format)];
}

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
  auto catalog = std::make_shared<Catalog>(Token{});
  catalog->owned_->files = std::move(files);
  const FileFacts facts{.placement = Placement::kCanonical,
                        .features = header.features,
                        .files = catalog->owned_->files,
                        .index = bytes.data(),
                        .index_offset = kHeaderBytes};
  auto facts_of_pools = validate(tables, facts, limits);
  if (!facts_of_pools) return propagate(facts_of_pools);
  catalog->tree_digest_ = header.tree_digest;
  catalog->owned_->arena = std::move(index);
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
  auto catalog = std::make_shared<Catalog>(Token{});
  catalog->format_ = parts.format;
  catalog->owned_->files = std::move(parts.files);
  catalog->owned_->notes = std::move(parts.notes);
  catalog->tree_digest_ = parts.tree_digest;
  catalog->owned_->tables = std::move(parts.tables);
  catalog->tables_ = catalog->stored_ = catalog->owned_->tables.view();
  auto facts_of_pools =
      validate(catalog->tables_,
               {.placement = Placement::kForeign, .files = catalog->owned_->files}, limits);
  if (!facts_of_pools) return propagate(facts_of_pools);
  catalog->pool_facts_ = std::move(*facts_of_pools);
  if (parts.nest) catalog->nest_names(limits);
  return catalog;
}

std::shared_ptr<const Catalog> Catalog::from_copy(OwnedTables tables,
                                                  const std::optional<Hash128>& tree_digest) {
  auto catalog = std::make_shared<Catalog>(Token{});
  catalog->owned_->files.emplace_back();
  catalog->tree_digest_ = tree_digest;
  catalog->owned_->tables = std::move(tables);
  catalog->tables_ = catalog->stored_ = catalog->owned_->tables.view();
  const Tables& t = catalog->tables_;
  for (std::uint32_t i = 0; i < t.shape_ends.size(); ++i) {
    std::uint64_t elements = 1;
    for (const std::uint64_t axis : table_shape(t, i)) elements *= axis;
    catalog->pool_facts_.shape_elements.push_back(elements);
  }
  for (std::uint32_t i = 0; i < t.text_ends.size(); ++i) {
    catalog->pool_facts_.plain_texts.push_back(is_plain_key(table_text(t, i)));
  }
  return catalog;
}

// A valid tree becomes a valid tree, so it is not validated again.
void Catalog::nest_names(const Limits& limits) {
  auto nested = espalier::nest_names(stored_, limits);
  if (!nested) return;
  owned_->nested = std::move(*nested);
  tables_ = owned_->nested.view();
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
  release_memory(owned_->tables.nodes);
  release_memory(owned_->tables.words);
  release_memory(owned_->tables.text_ends);
  release_memory(owned_->tables.text);
  release_memory(owned_->tables.bytes);
  release_memory(owned_->tables.order);
}

}  // namespace espalier
