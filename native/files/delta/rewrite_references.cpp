#include "files/delta/rewrite_references.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/codec/chunk_decoder.h"
#include "espalier/codec/hash.h"
#include "espalier/codec/patch_encoder.h"
#include "espalier/foreign/common/flatten.h"
#include "espalier/format/access.h"
#include "espalier/format/element_layout.h"
#include "espalier/format/file_set.h"
#include "espalier/read/to_value.h"
#include "files/delta/reference_bases.h"

namespace espalier {
namespace {

using Patch = std::shared_ptr<const std::vector<std::byte>>;

// The tensors of `state`, each once, and where they lie in `file`.
std::vector<std::pair<const Tensor*, TensorRef>> tensors_of(const CheckpointFile& file,
                                                            const Value& state) {
  std::vector<std::pair<const Tensor*, TensorRef>> tensors;
  std::unordered_set<const Tensor*> seen;
  std::vector<std::pair<const Value*, NodeRef>> rest = {{&state, file.state()}};
  while (!rest.empty()) {
    const auto [value, node] = rest.back();
    rest.pop_back();
    if (const auto ref = node.tensor()) {
      const Tensor* tensor = value->as_tensor().get();
      if (!ref->is_placeholder() && seen.insert(tensor).second) tensors.emplace_back(tensor, *ref);
      continue;
    }
    const auto children = value->children();
    for (std::size_t i = 0; i < children.size(); ++i) {
      rest.emplace_back(&children[i], node.child(static_cast<std::uint32_t>(i)));
    }
  }
  return tensors;
}

Result<Patch> read_stored(const CheckpointFile& file, const ChunkRecord& record) {
  auto bytes = std::make_shared<std::vector<std::byte>>(record.stored);
  const FileEntry& entry = file.checkpoint().catalog().files()[record.file];
  if (entry.problem) return tl::unexpected<Error>(*entry.problem);
  if (auto ok = file.source().copy({record.file, record.offset, record.stored}, *bytes); !ok) {
    ok.error().file = entry.name;
    return propagate(ok);
  }
  return Patch(std::move(bytes));
}

class PatchFold {
 public:
  explicit PatchFold(const CheckpointFile& file) : file_(file) {}

  // How a patch with several bases becomes one with the last of them alone. The chunks of a tensor
  // come one after the other.
  Result<std::optional<FoundChunk>> fold(const TensorRef& ref, std::uint32_t i) {
    if (i == 0) taken_.clear();
    auto folded = fold_alone(ref, i);
    if (!folded || !*folded || (*folded)->patch != nullptr) return folded;
    // Chunks of one tensor share no bytes of a file: the second one is written.
    const ChunkRecord& record = (*folded)->chunk.record;
    if (taken_.emplace(record.file, record.offset).second) return folded;
    return std::optional<FoundChunk>();
  }

 private:
  Result<std::optional<FoundChunk>> fold_alone(const TensorRef& ref, std::uint32_t i) {
    FoundChunk found = chunk_as_found(ref, i, 0);
    const Hash128 hash = found.chunk.record.hash;
    if (!found.chunk.record.is_patch()) {
      return found.chunk.record.file == 0 ? std::nullopt : std::optional(std::move(found));
    }
    const FoundRecord last = found.bases.back();
    // A chunk of this very file: it is written, and so is the patch's result.
    if (last.record.file == 0) return std::nullopt;
    auto folded =
        found.bases.size() == 1 ? read_stored(file_, found.chunk.record) : add_up(ref, i, found);
    if (!folded) return propagate(folded);
    if (*folded == nullptr) {
      // Nothing has changed in the end, or it takes as much as the chunk.
      if (hash != last.record.hash) return std::nullopt;
      return FoundChunk{last};
    }
    found.bases = {last};
    found.put_patch(std::move(*folded), hash);
    return std::optional(std::move(found));
  }

  // The patches of a chunk of zeros have the same differences as those of any other.
  Result<Patch> add_up(const TensorRef& ref, std::uint32_t i, const FoundChunk& found) {
    const auto length = static_cast<std::size_t>(chunk_length(ref.bytes(), i));
    const ElementLayout layout = element_layout(ref.dtype());
    zeros_.assign(length, std::byte{0});
    sum_.assign(length, std::byte{0});
    for (std::size_t k = found.bases.size() - 1; k-- > 0;) {
      if (auto ok = add(layout, found.bases[k].record); !ok) return propagate(ok);
    }
    if (auto ok = add(layout, found.chunk.record); !ok) return propagate(ok);
    const auto patch = encoder_.encode(zeros_, sum_, layout, length);
    if (!patch) return propagate(patch);
    if (!*patch) return Patch();
    return std::make_shared<const std::vector<std::byte>>((*patch)->begin(), (*patch)->end());
  }

  Result<void> add(ElementLayout layout, const ChunkRecord& record) {
    const auto stored = read_stored(file_, record);
    if (!stored) return propagate(stored);
    auto ok = decoder_.apply_patch(layout, **stored, sum_);
    if (!ok) {
      ok.error().file = file_.checkpoint().catalog().files()[record.file].name;
      ok.error().offset = record.offset;
    }
    return ok;
  }

  const CheckpointFile& file_;
  std::set<std::pair<std::uint16_t, std::uint64_t>> taken_;  // by chunks of the tensor so far
  ChunkDecoder decoder_;
  PatchEncoder encoder_;
  std::vector<std::byte> zeros_;
  std::vector<std::byte> sum_;
};

// A chunk of one of several checkpoints.
struct Place {
  std::size_t base;
  std::uint32_t tensor;
  std::uint32_t chunk;
};
using Places = std::map<Hash128, std::vector<Place>, HashOrder>;

Result<void> add_places(const CheckpointFile& file, std::size_t base, Places& places) {
  const Catalog& catalog = file.checkpoint().catalog();
  CheckpointFile::ChunkBuffer buffer;
  for (std::uint32_t number = 0; number < file.checkpoint().tensor_count(); ++number) {
    const TensorRef tensor = file.checkpoint().tensor(number);
    if (!is_referable(tensor, tensor.catalog().files())) continue;
    for (std::uint32_t i = 0; i < tensor.chunk_count(); ++i) {
      Hash128 hash = catalog.tables().chunks[tensor.first_chunk() + i].hash;
      if (!catalog.has_hashes()) {
        const auto bytes = file.read_chunk(tensor, i, buffer);
        if (!bytes) return propagate(bytes);
        hash = hash128(*bytes);
      }
      places[hash].push_back({base, number, i});
    }
  }
  return {};
}

class Rebaser {
 public:
  // `places` are those of all bases but number 0, which is the file itself.
  Rebaser(std::span<const SaveBase> bases, const Places& places, Unfound unfound)
      : bases_(bases), places_(places), unfound_(unfound) {}

  // The chunks of a tensor come one after the other.
  Result<std::optional<FoundChunk>> rebase(const TensorRef& ref, std::uint32_t i) {
    if (i == 0) {
      taken_.clear();
      next_.clear();
    }
    FoundChunk found = chunk_as_found(ref, i, 0);
    const std::uint64_t length = chunk_length(ref.bytes(), i);
    // The first of the chunk and its bases that is there, and how much of the recipe stays.
    std::vector<FoundRecord> recipe = {found.chunk};
    recipe.insert(recipe.end(), found.bases.begin(), found.bases.end());
    std::size_t kept = 0;
    std::optional<FoundChunk> there;
    for (; kept < recipe.size() && !there; ++kept) {
      there = kept == 0 ? take(recipe[kept].record.hash, ref.dtype(), length)
                        : find(recipe[kept].record.hash, ref.dtype(), length);
    }
    if (!there) {
      const bool is_stored_here = found.chunk.record.file == 0 && found.bases.empty();
      if (unfound_ == Unfound::kRefuse && !is_stored_here) {
        return fail(ErrorCode::kBaseMismatch, "its base is another one", Error::kNoOffset,
                    tensor_path(ref));
      }
      if (auto ok = check_there(recipe, ref); !ok) return propagate(ok);
      return keep(std::move(found));
    }
    --kept;
    if (kept == 0) {
      // Written here as it is: a reference would only make the file depend on another.
      return found.chunk.record.file == 0 && !found.chunk.record.is_patch() ? std::nullopt
                                                                            : std::move(there);
    }
    std::vector<FoundRecord> bases(recipe.begin() + 1,
                                   recipe.begin() + static_cast<std::ptrdiff_t>(kept));
    bases.push_back(there->chunk);
    bases.insert(bases.end(), there->bases.begin(), there->bases.end());
    if (bases.size() > kMaxPatches) {
      return fail(ErrorCode::kInvalidArgument,
                  "a chunk would have more than 32 patches; flatten the checkpoint, or fold it",
                  Error::kNoOffset, tensor_path(ref));
    }
    // The patches between stay in their files.
    recipe.resize(kept);
    if (auto ok = check_there(recipe, ref); !ok) return propagate(ok);
    found.bases = std::move(bases);
    return keep(std::move(found));
  }

 private:
  // A chunk of this hash that can take the place of one of such elements.
  std::optional<FoundChunk> find(const Hash128& hash, DType dtype, std::uint64_t length) const {
    const auto places = places_.find(hash);
    if (places == places_.end()) return std::nullopt;
    return at(places->second.front(), hash, dtype, length);
  }

  // The same for the chunk itself: those of one tensor share no bytes of a file, so equal
  // ones each need their own.
  std::optional<FoundChunk> take(const Hash128& hash, DType dtype, std::uint64_t length) {
    const auto places = places_.find(hash);
    if (places == places_.end()) return std::nullopt;
    for (std::size_t& next = next_[hash]; next < places->second.size();) {
      auto found = at(places->second[next++], hash, dtype, length);
      if (!found) continue;
      const FoundRecord& chunk = found->chunk;
      if (taken_.emplace(chunk.base, chunk.record.file, chunk.record.offset).second) return found;
    }
    return std::nullopt;
  }

  std::optional<FoundChunk> at(const Place& place, const Hash128& hash, DType dtype,
                               std::uint64_t length) const {
    const TensorRef there = bases_[place.base].file->checkpoint().tensor(place.tensor);
    // Codecs go by the width of elements.
    if (element_layout(there.dtype()) != element_layout(dtype)) return std::nullopt;
    if (chunk_length(there.bytes(), place.chunk) != length) return std::nullopt;
    FoundChunk found = chunk_as_found(there, place.chunk, place.base);
    found.chunk.record.hash = hash;
    return found;
  }

  // What lies in this file goes to the new one.
  Result<std::optional<FoundChunk>> keep(FoundChunk found) const {
    const ChunkRecord& record = found.chunk.record;
    const bool needs_this = std::any_of(
        found.bases.begin(), found.bases.end(),
        [](const FoundRecord& each) { return each.base == 0 && each.record.file == 0; });
    if (needs_this || (record.file == 0 && !record.is_patch())) return std::nullopt;
    if (record.file != 0) return std::optional(std::move(found));
    auto patch = read_stored(*bases_[0].file, record);
    if (!patch) return propagate(patch);
    found.put_patch(std::move(*patch), Hash128(record.hash));
    return std::optional(std::move(found));
  }

  Result<void> check_there(const std::vector<FoundRecord>& recipe, const TensorRef& ref) const {
    for (const FoundRecord& each : recipe) {
      const FileEntry& file = bases_[0].file->checkpoint().catalog().files()[each.record.file];
      if (!file.problem) continue;
      Error error = *file.problem;
      error.path = tensor_path(ref);
      return tl::unexpected<Error>(std::move(error));
    }
    return {};
  }

  const std::span<const SaveBase> bases_;
  const Places& places_;
  const Unfound unfound_;
  // Of the tensor so far: the places of its chunks, and the next one for each hash.
  std::set<std::tuple<std::size_t, std::uint16_t, std::uint64_t>> taken_;
  std::map<Hash128, std::size_t, HashOrder> next_;
};

// The chunks of all tensors, as `make` gives each of them.
template <class Make>
Result<std::vector<FoundTensor>> find_all(const CheckpointFile& file, const Value& state,
                                          const Make& make) {
  std::vector<FoundTensor> tensors;
  for (const auto& [tensor, ref] : tensors_of(file, state)) {
    FoundTensor found{tensor, {}};
    for (std::uint32_t i = 0; i < ref.chunk_count(); ++i) {
      auto chunk = make(ref, i);
      if (!chunk) {
        if (chunk.error().path.empty()) chunk.error().path = tensor_path(ref);
        return propagate(chunk);
      }
      found.chunks.push_back(std::move(*chunk));
    }
    tensors.push_back(std::move(found));
  }
  return tensors;
}

}  // namespace

Result<Value> state_to_rewrite(const CheckpointFile& file) {
  return to_value(file.state(), [&](const TensorRef& tensor) -> Result<TensorData> {
    return TensorData::produced([&file, tensor](std::uint64_t offset,
                                                MutableByteSpan out) -> Result<void> {
      // A save asks for one chunk at a time.
      CheckpointFile::ChunkBuffer buffer;
      const auto i = static_cast<std::uint32_t>(offset / kChunkBytes);
      const auto bytes = file.read_chunk(tensor, i, buffer);
      if (!bytes) return propagate(bytes);
      if (bytes->size() != out.size()) {
        return fail(ErrorCode::kInvalidArgument, "the part of a tensor that is read is no chunk");
      }
      std::copy(bytes->begin(), bytes->end(), out.begin());
      return {};
    });
  });
}

Result<References> fold_references(const SaveBase& file, const Value& state) {
  PatchFold folder(*file.file);
  auto tensors = find_all(*file.file, state, [&](const TensorRef& ref, std::uint32_t i) {
    return folder.fold(ref, i);
  });
  if (!tensors) return propagate(tensors);
  return collect_references(std::span(&file, 1), std::move(*tensors));
}

Result<References> rebase_references(const SaveBase& file, std::span<const SaveBase> onto,
                                     const Value& state, Unfound unfound) {
  std::vector<SaveBase> bases = {file};
  bases.insert(bases.end(), onto.begin(), onto.end());
  Places places;
  for (std::size_t i = 1; i < bases.size(); ++i) {
    if (auto ok = add_places(*bases[i].file, i, places); !ok) return propagate(ok);
  }
  Rebaser rebaser(bases, places, unfound);
  auto tensors = find_all(*file.file, state, [&](const TensorRef& ref, std::uint32_t i) {
    return rebaser.rebase(ref, i);
  });
  if (!tensors) return propagate(tensors);
  return collect_references(bases, std::move(*tensors));
}

}  // namespace espalier
