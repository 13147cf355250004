#include "files/delta/find_references.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/codec/chunk_encoder.h"
#include "espalier/codec/compression_level.h"
#include "espalier/codec/hash.h"
#include "espalier/codec/patch_encoder.h"
#include "espalier/format/access.h"
#include "espalier/format/element_layout.h"
#include "espalier/format/file_set.h"
#include "espalier/format/file_table.h"
#include "espalier/format/stored_tensor.h"
#include "files/delta/reference_collector.h"

namespace espalier {
namespace {

// A tensor of the new tree, and the one at its place in a base.
struct Pair {
  const Tensor* tensor;
  TensorRef there;
  const CheckpointFile* base;
  std::size_t base_number;
};

// A chunk becomes a patch only if that takes at most this part of its smallest other form: a patch
// costs a read of its base each time.
constexpr std::size_t kMostOfChunk[] = {3, 4};
// Patches that a writer puts one upon the other; readers take kMaxPatches.
constexpr std::size_t kMostLayers = 16;
// Chunks of which a part of this size gains nothing are not tried as a whole.
constexpr std::size_t kSampleBytes = std::size_t{64} << 10;

std::size_t most_of(std::size_t bytes) { return bytes * kMostOfChunk[0] / kMostOfChunk[1]; }

class ReferenceFinder {
 public:
  ReferenceFinder(std::span<const SaveBase> bases, const FindOptions& options)
      : bases_(bases), options_(options) {}

  Result<References> run(const Value& state) {
    for (std::size_t i = 0; i < bases_.size(); ++i) match(state, i);
    if (auto ok = match_renamed(state); !ok) return propagate(ok);
    if (auto ok = compare(); !ok) return propagate(ok);
    const auto is_worth_it = this->is_worth_it(state);
    if (!is_worth_it) return propagate(is_worth_it);
    if (!*is_worth_it) return References();
    auto references = collect();
    // Nobody could open what needs more files than readers take.
    if (references && references->files.size() >= Limits().files) return References();
    return references;
  }

 private:
  // Walks both trees at once, by keys and positions.
  void match(const Value& state, std::size_t base) {
    struct Step {
      const Value* value;
      NodeRef node;
    };
    std::vector<Step> rest = {{&state, bases_[base].file->state()}};
    while (!rest.empty()) {
      const auto [value, node] = rest.back();
      rest.pop_back();
      if (value->kind() == Kind::kTensor) {
        add(value->as_tensor().get(), node.tensor(), base);
        continue;
      }
      const auto keys = value->keys();
      const auto children = value->children();
      for (std::size_t i = 0; i < children.size(); ++i) {
        const KeyView key =
            keys.empty() ? KeyView::of(static_cast<std::int64_t>(i)) : keys[i].view();
        const auto child = node.find(key);
        if (child) rest.push_back({&children[i], *child});
      }
    }
  }

  // Tensors at whose place no base has one of their dtype and size: the base's tensor that begins
  // with the same chunk, if there is one. Its other chunks are compared as always.
  Result<void> match_renamed(const Value& state) {
    std::vector<const Tensor*> others;
    for (const Tensor* tensor : tensors_of(state)) {
      if (!tensor->data.is_streamed() && !known_.contains(tensor)) others.push_back(tensor);
    }
    if (others.empty()) return {};
    struct Place {
      std::size_t base;
      std::uint32_t tensor;
    };
    std::map<Hash128, Place, HashOrder> by_first_chunk;
    for (std::size_t i = 0; i < bases_.size(); ++i) {
      const Checkpoint& base = bases_[i].file->checkpoint();
      if (!base.catalog().has_hashes()) continue;
      for (std::uint32_t k = 0; k < base.tensor_count(); ++k) {
        const auto chunks = table_chunks(base.catalog().tables(), k);
        if (!chunks.empty()) by_first_chunk.try_emplace(chunks.front().hash, Place{i, k});
      }
    }
    if (by_first_chunk.empty()) return {};
    std::vector<std::byte> scratch;
    for (const Tensor* tensor : others) {
      const auto bytes = tensor_bytes(tensor->dtype, tensor->shape, tensor->block());
      if (!bytes || *bytes == 0) continue;
      const auto first = read_chunk(*tensor, *bytes, 0, scratch);
      if (!first) return propagate(first);
      const auto found = by_first_chunk.find(hash128(*first));
      if (found == by_first_chunk.end()) continue;
      const auto [base, number] = found->second;
      add(tensor, bases_[base].file->checkpoint().tensor(number), base);
    }
    return {};
  }

  // The tensors of a state that have data, each once.
  static std::vector<const Tensor*> tensors_of(const Value& state) {
    std::vector<const Tensor*> tensors;
    std::unordered_set<const Tensor*> seen;
    std::vector<const Value*> rest = {&state};
    while (!rest.empty()) {
      const Value* value = rest.back();
      rest.pop_back();
      for (const Value& child : value->children()) rest.push_back(&child);
      if (value->kind() != Kind::kTensor) continue;
      const Tensor* tensor = value->as_tensor().get();
      if (!tensor->data.is_placeholder() && seen.insert(tensor).second) tensors.push_back(tensor);
    }
    return tensors;
  }

  // Chunk `i` of a tensor of `size` bytes, in its memory or in `scratch`. Empty if its memory has
  // another size, which the writer reports.
  static Result<ByteSpan> read_chunk(const Tensor& tensor, std::uint64_t size, std::uint32_t i,
                                     std::vector<std::byte>& scratch) {
    const auto length = static_cast<std::size_t>(chunk_length(size, i));
    const std::uint64_t begin = i * kChunkBytes;
    if (const auto memory = tensor.data.memory()) {
      if (memory->size() != size) return ByteSpan();
      return memory->subspan(static_cast<std::size_t>(begin), length);
    }
    scratch.resize(length);
    if (auto ok = tensor.data.read(begin, scratch); !ok) return propagate(ok);
    return ByteSpan(scratch);
  }

  void add(const Tensor* tensor, const std::optional<TensorRef>& there, std::size_t base) {
    if (!there || tensor->data.is_placeholder() || tensor->data.is_streamed()) return;
    const auto bytes = tensor_bytes(tensor->dtype, tensor->shape, tensor->block());
    if (!bytes || *bytes != there->bytes() || tensor->dtype != there->dtype()) return;
    if (!is_referable(*there) || !known_.emplace(tensor, pairs_.size()).second) return;
    pairs_.push_back({tensor, *there, bases_[base].file, base});
  }

  // Finds the chunks of all pairs that are equal, or nearly.
  Result<void> compare() {
    struct Place {
      std::size_t pair;
      std::uint32_t chunk;
    };
    std::vector<Place> places;
    std::uint64_t total = 0;
    found_.resize(pairs_.size());
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const std::uint32_t count = pairs_[i].there.chunk_count();
      found_[i].resize(count);
      for (std::uint32_t chunk = 0; chunk < count; ++chunk) places.push_back({i, chunk});
      total += pairs_[i].there.bytes();
    }
    std::uint64_t done = 0;
    std::mutex mutex;
    std::vector<Buffers> buffers(thread_count(options_.threads));
    return parallel_for(
        places.size(), options_.threads, [&](unsigned worker, std::size_t i) -> Result<void> {
          if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) {
            return fail(ErrorCode::kCancelled, "the save was cancelled");
          }
          const auto [pair, chunk] = places[i];
          auto found = find(pairs_[pair], chunk, buffers[worker]);
          if (!found) return propagate(found);
          found_[pair][chunk] = std::move(*found);
          if (!options_.progress) return {};
          const std::lock_guard lock(mutex);
          done += chunk_length(pairs_[pair].there.bytes(), chunk);
          options_.progress(done, total);
          return {};
        });
  }

  struct Buffers {
    std::vector<std::byte> chunk;
    CheckpointFile::ChunkBuffer base;
    std::optional<PatchEncoder> patches;
    std::optional<ChunkEncoder> chunks;
  };

  // The base's chunk, with its hash, if the new tensor has the same bytes, or a patch of it. Its
  // files are still those of the base.
  using Found = std::optional<FoundChunk>;
  Result<Found> find(const Pair& pair, std::uint32_t i, Buffers& buffers) const {
    const Catalog& catalog = pair.there.catalog();
    FoundChunk found = chunk_as_found(pair.there, i, pair.base_number);
    const StoredTensor* stored = pair.tensor->data.stored();
    const bool is_same = stored != nullptr && stored->catalog.get() == &catalog &&
                         stored->number == pair.there.number() &&
                         !stored->bytes->may_have_changed();
    if (is_same && catalog.has_hashes()) return Found(std::move(found));

    const auto chunk = read_chunk(*pair.tensor, pair.there.bytes(), i, buffers.chunk);
    if (!chunk) return propagate(chunk);
    const ByteSpan bytes = *chunk;
    if (bytes.empty()) return Found();
    const Hash128 hash = hash128(bytes);
    if (catalog.has_hashes() && hash == found.chunk.record.hash) return Found(std::move(found));
    if (catalog.has_hashes() && !options_.patches) return Found();
    const auto there = pair.base->read_chunk(pair.there, i, buffers.base);
    if (!there && is_damage(there.error().code)) return Found();
    if (!there) return propagate(there);
    if (there->data() == bytes.data() ||
        std::memcmp(there->data(), bytes.data(), bytes.size()) == 0) {
      found.chunk.record.hash = hash;
      return Found(std::move(found));
    }
    if (!options_.patches || found.bases.size() + 1 > kMostLayers) return Found();
    if (!catalog.has_hashes()) found.chunk.record.hash = hash128(*there);
    auto patch = make_patch(*there, bytes, element_layout(pair.there.dtype()), buffers);
    if (!patch) return propagate(patch);
    if (*patch == nullptr) return Found();
    found.bases.insert(found.bases.begin(), found.chunk);
    found.put_patch(std::move(*patch), hash);
    return Found(std::move(found));
  }

  static bool is_damage(ErrorCode code) {
    return code == ErrorCode::kChunkCorrupt || code == ErrorCode::kBaseMismatch ||
           code == ErrorCode::kTruncated;
  }

  // The patch that makes `bytes` of `base`; null if it is not worth it.
  Result<std::shared_ptr<const std::vector<std::byte>>> make_patch(ByteSpan base, ByteSpan bytes,
                                                                   ElementLayout layout,
                                                                   Buffers& buffers) const {
    std::shared_ptr<const std::vector<std::byte>> none;
    if (!buffers.patches) buffers.patches.emplace();
    if (bytes.size() > 4 * kSampleBytes) {
      const std::size_t begin = bytes.size() / 2 / kSampleBytes * kSampleBytes;
      const ByteSpan before = base.subspan(begin, kSampleBytes);
      const ByteSpan after = bytes.subspan(begin, kSampleBytes);
      if (std::memcmp(before.data(), after.data(), kSampleBytes) != 0) {
        const auto sample = buffers.patches->encode(before, after, layout, most_of(kSampleBytes));
        if (!sample) return propagate(sample);
        if (!*sample) return none;
      }
    }
    const auto patch = buffers.patches->encode(base, bytes, layout, most_of(bytes.size()));
    if (!patch) return propagate(patch);
    if (!*patch) return none;
    const std::size_t size = (*patch)->size();
    // No need to try how small the chunk gets by itself if the patch is tiny.
    if (options_.compression_level != kNoCompression && size > bytes.size() / 16) {
      if (!buffers.chunks) buffers.chunks.emplace(options_.compression_level);
      const auto by_itself = buffers.chunks->encode(bytes, layout);
      if (!by_itself) return propagate(by_itself);
      if (size > most_of(by_itself->bytes.size())) return none;
    }
    return std::make_shared<const std::vector<std::byte>>((*patch)->begin(), (*patch)->end());
  }

  // Whether the new file would be small enough that it may depend on others.
  Result<bool> is_worth_it(const Value& state) const {
    std::uint64_t all = 0;
    for (const Tensor* tensor : tensors_of(state)) {
      all += tensor_bytes(tensor->dtype, tensor->shape, tensor->block()).value_or(0);
    }
    std::uint64_t found = 0;
    std::uint64_t patches = 0;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      for (std::size_t k = 0; k < found_[i].size(); ++k) {
        if (!found_[i][k]) continue;
        found += chunk_length(pairs_[i].there.bytes(), k);
        if (found_[i][k]->patch != nullptr) patches += found_[i][k]->patch->size();
      }
    }
    if (found == 0) return false;
    const auto part = stored_part(state, all);
    if (!part) return propagate(part);
    const double full = *part * static_cast<double>(all);
    const double incremental =
        *part * static_cast<double>(all - found) + static_cast<double>(patches);
    return incremental <= options_.most_of_full * full;
  }

  // What part of their bytes tensors take in a file of their own: that of samples, spread evenly.
  Result<double> stored_part(const Value& state, std::uint64_t all) const {
    constexpr std::uint64_t kSamples = 32;
    if (options_.compression_level == kNoCompression) return 1.0;
    ChunkEncoder encoder(options_.compression_level);
    std::vector<std::byte> sample;
    std::uint64_t sampled = 0;
    std::uint64_t stored = 0;
    const std::uint64_t step = std::max<std::uint64_t>(all / kSamples, kSampleBytes);
    std::uint64_t begin = 0;  // of the tensor, in all tensors
    std::uint64_t next = 0;
    for (const Tensor* tensor : tensors_of(state)) {
      const auto size = tensor_bytes(tensor->dtype, tensor->shape, tensor->block()).value_or(0);
      for (; next < begin + size; next += step) {
        if (tensor->data.is_streamed()) continue;
        const std::uint64_t offset = (next - begin) / kSampleBytes * kSampleBytes;
        sample.resize(
            static_cast<std::size_t>(std::min<std::uint64_t>(kSampleBytes, size - offset)));
        if (auto ok = tensor->data.read(offset, sample); !ok) return propagate(ok);
        const auto encoded = encoder.encode(sample, element_layout(tensor->dtype));
        if (!encoded) return propagate(encoded);
        sampled += sample.size();
        stored += encoded->bytes.size();
      }
      begin += size;
    }
    return sampled == 0 ? 1.0 : static_cast<double>(stored) / static_cast<double>(sampled);
  }

  Result<References> collect() {
    std::vector<FoundTensor> tensors;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      tensors.push_back({pairs_[i].tensor, std::move(found_[i])});
    }
    return collect_references(bases_, std::move(tensors));
  }

  const std::span<const SaveBase> bases_;
  const FindOptions& options_;
  std::vector<Pair> pairs_;
  std::unordered_map<const Tensor*, std::size_t> known_;
  std::vector<std::vector<Found>> found_;  // by pair and chunk
};

}  // namespace

Result<References> find_references(const Value& state, std::span<const SaveBase> bases,
                                   const FindOptions& options) {
  return ReferenceFinder(bases, options).run(state);
}

Result<void> check_is_no_base(const std::filesystem::path& path, std::span<const SaveBase> bases) {
  if (bases.empty()) return {};
  std::error_code ignored;
  // A link leads to the file that is replaced.
  const std::string names[] = {
      path.filename().string(),
      std::filesystem::weakly_canonical(path, ignored).filename().string()};
  for (const SaveBase& base : bases) {
    for (const FileEntry& file : base.file->checkpoint().catalog().files()) {
      const std::string& name = file.name.empty() ? base.name : file.name;
      const bool is_named = std::find(std::begin(names), std::end(names), name) != std::end(names);
      // The base's name may be the link.
      if (!is_named && !std::filesystem::equivalent(path, path.parent_path() / name, ignored)) {
        continue;
      }
      return fail(ErrorCode::kInvalidArgument,
                  "the new file would replace one that it refers to; give it another name");
    }
  }
  return {};
}

}  // namespace espalier
