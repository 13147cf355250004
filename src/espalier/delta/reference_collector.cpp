#include "espalier/delta/reference_collector.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/codec/codec.h"
#include "espalier/codec/hash.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/file_table.h"

namespace espalier {
namespace {

tl::unexpected<Error> about(const std::string& file, std::string_view message) {
  auto failed = fail(ErrorCode::kInvalidArgument, message);
  failed.value().file = file;
  return failed;
}

// Whether the table of files of the base describes file `number`.
bool is_described(const ReferenceBase& base, std::uint32_t number) {
  return base.is_espalier && number > 0;
}

BaseExtent head_of(std::span<const ReferenceBase> bases, std::size_t base, std::uint32_t number) {
  const FileEntry& entry = bases[base].files[number];
  return {base, {number, 0, head_bytes(bases[base].is_espalier, entry.length)}};
}

// What is known of file `number` of a base.
Result<ReferredFile> describe(std::span<const ReferenceBase> bases, std::size_t base_number,
                              std::uint32_t number, const ReadBase& read) {
  const ReferenceBase& base = bases[base_number];
  const Catalog& catalog = base.checkpoint.catalog();
  const FileEntry& entry = base.files[number];
  const std::string& name = number == 0 ? base.name : entry.name;
  if (auto ok = check_label(name); !ok) {
    ok.error().file = name;
    return propagate(ok);
  }
  ReferredFile file{.name = name, .length = entry.length};
  if (is_described(base, number)) {
    // A nested tree has no table of files of its own.
    const FileRecord& record = catalog.stored_tables().files[number - 1];
    file.length = record.length;
    file.head = record.head;
    file.head_hash = record.head_hash;
    file.tree_digest = record.tree_digest;
    return file;
  }
  if (base.is_espalier) file.tree_digest = catalog.tree_digest().value_or(Hash128());
  const BaseExtent from = head_of(bases, base_number, number);
  std::vector<std::byte> head(static_cast<std::size_t>(from.extent.length));
  if (auto ok = read(from, head); !ok) {
    ok.error().file = name;
    return propagate(ok);
  }
  file.head = static_cast<std::uint32_t>(head.size());
  file.head_hash = hash128(head);
  return file;
}

// Calls `use` with each record that lies in a file of a base.
template <class Chunk, class Use>
Result<void> for_each_record(Chunk& chunk, const Use& use) {
  Result<void> ok;
  if (chunk.patch == nullptr) ok = use(chunk.chunk);
  for (std::size_t i = 0; ok && i < chunk.bases.size(); ++i) ok = use(chunk.bases[i]);
  return ok;
}

template <class Tensors, class Use>
Result<void> for_all(Tensors& tensors, const Use& use) {
  for (auto& tensor : tensors) {
    for (auto& chunk : tensor.chunks) {
      if (!chunk) continue;
      if (auto ok = for_each_record(*chunk, use); !ok) return ok;
    }
  }
  return {};
}

class ReferenceCollector {
 public:
  ReferenceCollector(std::span<const ReferenceBase> bases, const ReadBase& read)
      : bases_(bases), read_(read) {}

  Result<References> run(std::vector<FoundTensor> tensors) {
    auto ok = for_all(tensors, [&](FoundRecord& found) { return add_file(found); });
    if (!ok) return propagate(ok);
    if (auto numbered = number_files(); !numbered) return propagate(numbered);
    ok = for_all(tensors, [&](FoundRecord& found) -> Result<void> {
      found.record.file = numbers_.at(names_.at({found.base, found.record.file}));
      return {};
    });
    if (!ok) return propagate(ok);
    for (FoundTensor& tensor : tensors) add_tensor(tensor);
    return std::move(references_);
  }

 private:
  Result<void> add_file(const FoundRecord& found) {
    const std::pair key(found.base, found.record.file);
    if (names_.contains(key)) return {};
    auto file = describe(bases_, found.base, found.record.file, read_);
    if (!file) return propagate(file);
    names_.emplace(key, file->name);
    const auto [at, is_new] = by_name_.emplace(file->name, *file);
    if (!is_new && (at->second.length != file->length || at->second.head_hash != file->head_hash)) {
      return about(file->name, "two different files of one name cannot both be referred to");
    }
    return {};
  }

  Result<void> number_files() {
    if (by_name_.size() > kMaxFiles) {
      return fail(ErrorCode::kInvalidArgument,
                  "a checkpoint cannot refer to more than 65,534 files");
    }
    for (auto& [name, file] : by_name_) {
      references_.files.push_back(std::move(file));
      numbers_[name] = static_cast<std::uint16_t>(references_.files.size());
    }
    return {};
  }

  void add_tensor(FoundTensor& tensor) {
    std::vector<ReferredChunk> chunks(tensor.chunks.size());
    bool has_any = false;
    for (std::size_t k = 0; k < chunks.size(); ++k) {
      auto& found = tensor.chunks[k];
      if (!found) continue;
      chunks[k].record = found->chunk.record;
      for (const FoundRecord& base : found->bases) chunks[k].bases.push_back(base.record);
      chunks[k].patch = std::move(found->patch);
      has_any = true;
    }
    if (has_any) references_.chunks.emplace(tensor.tensor, std::move(chunks));
  }

  const std::span<const ReferenceBase> bases_;
  const ReadBase& read_;
  std::map<std::string, ReferredFile> by_name_;
  std::map<std::pair<std::size_t, std::uint16_t>, std::string> names_;  // by base and file
  std::map<std::string, std::uint16_t> numbers_;
  References references_;
};

}  // namespace

Result<void> check_label(const std::string& name) {
  if (is_file_label(name)) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      "a checkpoint cannot refer to a file of this name; rename it to letters, digits, '.', "
      "'_' and '-' of ASCII, at most 128, with a letter, a digit or '_' first");
}

void FoundChunk::put_patch(std::shared_ptr<const std::vector<std::byte>> stored,
                           const Hash128& hash) {
  chunk = {{.hash = hash,
            .stored = static_cast<std::uint32_t>(stored->size()),
            .codec = static_cast<std::uint8_t>(Codec::kPatch)},
           0};
  patch = std::move(stored);
}

bool is_referable(const TensorRef& ref, std::span<const FileEntry> files) {
  if (ref.is_placeholder() || ref.storage() != nullptr || ref.chunk_count() == 0) return false;
  const auto is_there = [&](const ChunkRecord& record) {
    return !files[record.file].problem && !files[record.file].maker;
  };
  const auto chunks = table_chunks(ref.catalog().tables(), ref.number());
  if (!std::all_of(chunks.begin(), chunks.end(), is_there)) return false;
  if (!has_patches(chunks)) return true;
  for (std::uint32_t i = 0; i < chunks.size(); ++i) {
    const auto bases = ref.bases(i);
    if (!std::all_of(bases.begin(), bases.end(), is_there)) return false;
  }
  return true;
}

FoundChunk chunk_as_found(const TensorRef& ref, std::uint32_t i, std::size_t base) {
  FoundChunk found{{ref.catalog().tables().chunks[ref.first_chunk() + i], base}};
  for (const ChunkRecord& record : ref.bases(i)) found.bases.push_back({record, base});
  return found;
}

std::vector<BaseExtent> heads_to_read(std::span<const ReferenceBase> bases,
                                      std::span<const FoundTensor> tensors) {
  std::set<std::pair<std::size_t, std::uint16_t>> files;
  std::vector<BaseExtent> heads;
  (void)for_all(tensors, [&](const FoundRecord& found) -> Result<void> {
    const bool is_new = files.emplace(found.base, found.record.file).second;
    if (is_new && !is_described(bases[found.base], found.record.file)) {
      heads.push_back(head_of(bases, found.base, found.record.file));
    }
    return {};
  });
  return heads;
}

Result<References> collect_references(std::span<const ReferenceBase> bases,
                                      std::vector<FoundTensor> tensors, const ReadBase& read) {
  return ReferenceCollector(bases, read).run(std::move(tensors));
}

}  // namespace espalier
