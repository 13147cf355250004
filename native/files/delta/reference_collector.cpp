#include "files/delta/reference_collector.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/checkpoint_file.h"
#include "espalier/codec/codec.h"
#include "espalier/codec/hash.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/file_table.h"
#include "espalier/format/format_info.h"

namespace espalier {
namespace {

tl::unexpected<Error> about(const std::string& file, std::string_view message) {
  auto failed = fail(ErrorCode::kInvalidArgument, message);
  failed.value().file = file;
  return failed;
}

// What is known of file `number` of a base.
Result<ReferredFile> describe(const SaveBase& base, std::uint32_t number) {
  const Catalog& catalog = base.file->checkpoint().catalog();
  const FileEntry& entry = catalog.files()[number];
  const std::string& name = number == 0 ? base.name : entry.name;
  if (auto ok = check_label(name); !ok) {
    ok.error().file = name;
    return propagate(ok);
  }
  ReferredFile file{.name = name, .length = entry.length};
  const bool is_espalier = catalog.format() == kEspalierFormat;
  if (is_espalier && number > 0) {
    // A nested tree has no table of files of its own.
    const FileRecord& record = catalog.stored_tables().files[number - 1];
    file.head = record.head;
    file.head_hash = record.head_hash;
    file.tree_digest = record.tree_digest;
    return file;
  }
  if (is_espalier) file.tree_digest = catalog.tree_digest().value_or(Hash128());
  file.head = head_bytes(is_espalier, entry.length);
  std::vector<std::byte> head(file.head);
  if (auto ok = base.file->source().copy({number, 0, head.size()}, head); !ok) {
    ok.error().file = name;
    return propagate(ok);
  }
  file.head_hash = hash128(head);
  return file;
}

// Calls `use` with each record that lies in a file of a base.
template <class Use>
Result<void> for_each_record(FoundChunk& chunk, const Use& use) {
  Result<void> ok;
  if (chunk.patch == nullptr) ok = use(chunk.chunk);
  for (std::size_t i = 0; ok && i < chunk.bases.size(); ++i) ok = use(chunk.bases[i]);
  return ok;
}

class ReferenceCollector {
 public:
  explicit ReferenceCollector(std::span<const SaveBase> bases) : bases_(bases) {}

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
  template <class Use>
  static Result<void> for_all(std::vector<FoundTensor>& tensors, const Use& use) {
    for (FoundTensor& tensor : tensors) {
      for (auto& chunk : tensor.chunks) {
        if (!chunk) continue;
        if (auto ok = for_each_record(*chunk, use); !ok) return ok;
      }
    }
    return {};
  }

  Result<void> add_file(const FoundRecord& found) {
    const std::pair key(found.base, found.record.file);
    if (names_.contains(key)) return {};
    auto file = describe(bases_[found.base], found.record.file);
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

  const std::span<const SaveBase> bases_;
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

bool is_referable(const TensorRef& ref) {
  if (ref.is_placeholder() || ref.storage() != nullptr || ref.chunk_count() == 0) return false;
  const auto files = ref.catalog().files();
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

Result<References> collect_references(std::span<const SaveBase> bases,
                                      std::vector<FoundTensor> tensors) {
  return ReferenceCollector(bases).run(std::move(tensors));
}

}  // namespace espalier
