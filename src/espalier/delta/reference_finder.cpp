#include "espalier/delta/reference_finder.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "espalier/format/access.h"
#include "espalier/format/stored_tensor.h"

namespace espalier {
namespace {

// Patches that a writer puts one upon the other; readers take kMaxPatches.
constexpr std::size_t kMostLayers = 16;
constexpr std::size_t kSampleBytes = std::size_t{64} << 10;
constexpr std::uint64_t kSamples = 32;

std::uint64_t bytes_of(const Tensor& tensor) {
  return tensor_bytes(tensor.dtype, tensor.shape, tensor.block()).value_or(0);
}

// The tensors of a state that have data, each once.
std::vector<const Tensor*> tensors_of(const Value& state) {
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

Extent chunk_extent(std::uint64_t size, std::uint32_t i) {
  return {0, i * kChunkBytes, chunk_length(size, i)};
}

// Chunk `i` of a tensor of `size` bytes, in its memory or in `scratch`. Empty if its memory has
// another size, which the writer reports.
Result<ByteSpan> read_own_chunk(const Tensor& tensor, std::uint64_t size, std::uint32_t i,
                                std::vector<std::byte>& scratch) {
  const Extent extent = chunk_extent(size, i);
  const auto length = static_cast<std::size_t>(extent.length);
  if (const auto memory = tensor.data.memory()) {
    if (memory->size() != size) return ByteSpan();
    return memory->subspan(static_cast<std::size_t>(extent.offset), length);
  }
  scratch.resize(length);
  if (auto ok = tensor.data.read(extent.offset, scratch); !ok) return propagate(ok);
  return ByteSpan(scratch);
}

bool is_damage(ErrorCode code) {
  return code == ErrorCode::kChunkCorrupt || code == ErrorCode::kBaseMismatch ||
         code == ErrorCode::kTruncated;
}

// Whether a tensor of a state is the one that the base has there, unchanged.
bool is_same(const Tensor& tensor, const TensorRef& there) {
  const StoredTensor* stored = tensor.data.stored();
  return stored != nullptr && stored->catalog.get() == &there.catalog() &&
         stored->number == there.number() && !stored->bytes->may_have_changed();
}

}  // namespace

Result<FinderHost::Patch> FinderHost::make_patch(ByteSpan /*before*/, ByteSpan /*now*/,
                                                 ElementLayout /*layout*/) {
  return Patch();
}

ReferenceFinder::ReferenceFinder(const Value& state, std::vector<ReferenceBase> bases,
                                 const FindRules& rules)
    : bases_(std::move(bases)), rules_(rules), tensors_(tensors_of(state)) {
  for (const Tensor* tensor : tensors_) all_bytes_ += bytes_of(*tensor);
  for (std::size_t i = 0; i < bases_.size(); ++i) match(state, i);
}

bool ReferenceFinder::next() {
  switch (stage_) {
    case Stage::kBegin:
      plan_first_chunks();
      stage_ = Stage::kFirstChunks;
      return true;
    case Stage::kFirstChunks:
      match_renamed();
      plan_places();
      stage_ = Stage::kCompare;
      return true;
    case Stage::kCompare:
      plan_samples();
      stage_ = Stage::kSample;
      return true;
    case Stage::kSample:
      plan_collecting();
      stage_ = Stage::kCollect;
      return true;
    default:
      stage_ = Stage::kEnd;
      return false;
  }
}

std::size_t ReferenceFinder::steps() const {
  switch (stage_) {
    case Stage::kFirstChunks:
      return others_.size();
    case Stage::kCompare:
      return places_.size();
    case Stage::kSample:
      return samples_.size();
    case Stage::kCollect:
      return worth_.empty() ? 0 : 1;
    default:
      return 0;
  }
}

std::uint64_t ReferenceFinder::step_bytes(std::size_t i) const {
  if (!is_comparing()) return 0;
  return chunk_length(pairs_[places_[i].pair].there.bytes(), places_[i].chunk);
}

std::vector<ReferenceFinder::Need> ReferenceFinder::needs(std::size_t i) const {
  std::vector<Need> needs;
  if (stage_ == Stage::kFirstChunks) {
    needs.push_back({.tensor = others_[i], .extent = chunk_extent(bytes_of(*others_[i]), 0)});
  } else if (stage_ == Stage::kCompare) {
    const Pair& pair = pairs_[places_[i].pair];
    const bool has_hashes = pair.there.catalog().has_hashes();
    if (has_hashes && is_same(*pair.tensor, pair.there)) return needs;
    const Extent extent = chunk_extent(pair.there.bytes(), places_[i].chunk);
    needs.push_back({.tensor = pair.tensor, .extent = extent});
    if (!has_hashes || rules_.patches) {
      needs.push_back({.base = pair.base, .there = pair.there, .extent = extent});
    }
  } else if (stage_ == Stage::kSample) {
    const Sample& sample = samples_[i];
    needs.push_back({.tensor = sample.tensor, .extent = {0, sample.offset, sample.length}});
  } else if (stage_ == Stage::kCollect) {
    for (const BaseExtent& head : heads_to_read(bases_, worth_)) {
      needs.push_back({.base = head.base, .extent = head.extent});
    }
  }
  return needs;
}

Result<void> ReferenceFinder::step(std::size_t i, FinderHost& host, Scratch& scratch) {
  switch (stage_) {
    case Stage::kFirstChunks:
      return hash_first_chunk(i, scratch);
    case Stage::kCompare: {
      const auto [pair, chunk] = places_[i];
      auto found = find(pairs_[pair], chunk, host, scratch);
      if (!found) return propagate(found);
      found_[pair][chunk] = std::move(*found);
      return {};
    }
    case Stage::kSample:
      return compress(samples_[i], scratch);
    default:
      return collect(host);
  }
}

// Walks both trees at once, by keys and positions.
void ReferenceFinder::match(const Value& state, std::size_t base) {
  struct Step {
    const Value* value;
    NodeRef node;
  };
  std::vector<Step> rest = {{&state, bases_[base].checkpoint.state()}};
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
      const KeyView key = keys.empty() ? KeyView::of(static_cast<std::int64_t>(i)) : keys[i].view();
      const auto child = node.find(key);
      if (child) rest.push_back({&children[i], *child});
    }
  }
}

void ReferenceFinder::add(const Tensor* tensor, const std::optional<TensorRef>& there,
                          std::size_t base) {
  if (!there || tensor->data.is_placeholder() || tensor->data.is_streamed()) return;
  const auto bytes = tensor_bytes(tensor->dtype, tensor->shape, tensor->block());
  if (!bytes || *bytes != there->bytes() || tensor->dtype != there->dtype()) return;
  if (!is_referable(*there, bases_[base].files) || !known_.emplace(tensor, pairs_.size()).second)
    return;
  pairs_.push_back({tensor, *there, base});
}

// Tensors at whose place no base has one of their dtype and size: the base's tensor that begins
// with the same chunk, if there is one. Its other chunks are compared as always.
void ReferenceFinder::plan_first_chunks() {
  for (const Tensor* tensor : tensors_) {
    if (tensor->data.is_streamed() || known_.contains(tensor) || bytes_of(*tensor) == 0) continue;
    others_.push_back(tensor);
  }
  if (others_.empty()) return;
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    const Checkpoint& base = bases_[i].checkpoint;
    if (!base.catalog().has_hashes()) continue;
    for (std::uint32_t k = 0; k < base.tensor_count(); ++k) {
      const auto chunks = table_chunks(base.catalog().tables(), k);
      if (!chunks.empty()) by_first_chunk_.try_emplace(chunks.front().hash, BaseTensor{i, k});
    }
  }
  if (by_first_chunk_.empty()) others_.clear();
  first_hashes_.resize(others_.size());
}

Result<void> ReferenceFinder::hash_first_chunk(std::size_t i, Scratch& scratch) {
  const auto first = read_own_chunk(*others_[i], bytes_of(*others_[i]), 0, scratch.bytes_);
  if (!first) return propagate(first);
  first_hashes_[i] = hash128(*first);
  return {};
}

void ReferenceFinder::match_renamed() {
  for (std::size_t i = 0; i < others_.size(); ++i) {
    if (!first_hashes_[i]) continue;
    const auto found = by_first_chunk_.find(*first_hashes_[i]);
    if (found == by_first_chunk_.end()) continue;
    const auto [base, number] = found->second;
    add(others_[i], bases_[base].checkpoint.tensor(number), base);
  }
}

// The chunks of all pairs.
void ReferenceFinder::plan_places() {
  found_.resize(pairs_.size());
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const std::uint32_t count = pairs_[i].there.chunk_count();
    found_[i].resize(count);
    for (std::uint32_t chunk = 0; chunk < count; ++chunk) places_.push_back({i, chunk});
  }
}

// The base's chunk, with its hash, if the new tensor has the same bytes, or a patch of it. Its
// files are still those of the base.
Result<ReferenceFinder::Found> ReferenceFinder::find(const Pair& pair, std::uint32_t i,
                                                     FinderHost& host, Scratch& scratch) const {
  const Catalog& catalog = pair.there.catalog();
  FoundChunk found = chunk_as_found(pair.there, i, pair.base);
  if (catalog.has_hashes() && is_same(*pair.tensor, pair.there)) return Found(std::move(found));

  const auto chunk = read_own_chunk(*pair.tensor, pair.there.bytes(), i, scratch.bytes_);
  if (!chunk) return propagate(chunk);
  const ByteSpan bytes = *chunk;
  if (bytes.empty()) return Found();
  const Hash128 hash = hash128(bytes);
  if (catalog.has_hashes() && hash == found.chunk.record.hash) return Found(std::move(found));
  if (catalog.has_hashes() && !rules_.patches) return Found();
  const auto there = host.read_chunk(pair.base, pair.there, i);
  if (!there && is_damage(there.error().code)) return Found();
  if (!there) return propagate(there);
  if (there->data() == bytes.data() ||
      std::memcmp(there->data(), bytes.data(), bytes.size()) == 0) {
    found.chunk.record.hash = hash;
    return Found(std::move(found));
  }
  if (!rules_.patches || found.bases.size() + 1 > kMostLayers) return Found();
  if (!catalog.has_hashes()) found.chunk.record.hash = hash128(*there);
  auto patch = host.make_patch(*there, bytes, element_layout(pair.there.dtype()));
  if (!patch) return propagate(patch);
  if (*patch == nullptr) return Found();
  found.bases.insert(found.bases.begin(), found.chunk);
  found.put_patch(std::move(*patch), hash);
  return Found(std::move(found));
}

// What shows which part of their bytes tensors take in a file of their own: spread evenly. Without
// patches, the part makes no difference.
void ReferenceFinder::plan_samples() {
  const auto is_patched = [](const Found& each) { return each && each->patch != nullptr; };
  const bool has_patches = std::any_of(found_.begin(), found_.end(), [&](const auto& chunks) {
    return std::any_of(chunks.begin(), chunks.end(), is_patched);
  });
  if (!has_patches || rules_.compression_level == kNoCompression) return;
  const std::uint64_t step = std::max<std::uint64_t>(all_bytes_ / kSamples, kSampleBytes);
  std::uint64_t begin = 0;  // of the tensor, in all tensors
  std::uint64_t next = 0;
  for (const Tensor* tensor : tensors_) {
    const std::uint64_t size = bytes_of(*tensor);
    for (; next < begin + size; next += step) {
      if (tensor->data.is_streamed()) continue;
      const std::uint64_t offset = (next - begin) / kSampleBytes * kSampleBytes;
      samples_.push_back(
          {tensor, offset,
           static_cast<std::size_t>(std::min<std::uint64_t>(kSampleBytes, size - offset))});
    }
    begin += size;
  }
}

Result<void> ReferenceFinder::compress(Sample& sample, Scratch& scratch) const {
  if (!scratch.encoder_) scratch.encoder_.emplace(rules_.compression_level);
  scratch.bytes_.resize(sample.length);
  if (auto ok = sample.tensor->data.read(sample.offset, scratch.bytes_); !ok) return ok;
  const auto encoded =
      scratch.encoder_->encode(scratch.bytes_, element_layout(sample.tensor->dtype));
  if (!encoded) return propagate(encoded);
  sample.stored = encoded->bytes.size();
  return {};
}

// Whether the new file would be small enough that it may depend on others.
bool ReferenceFinder::is_worth_it() const {
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
  std::uint64_t sampled = 0;
  std::uint64_t stored = 0;
  for (const Sample& sample : samples_) {
    sampled += sample.length;
    stored += sample.stored;
  }
  const double part =
      sampled == 0 ? 1.0 : static_cast<double>(stored) / static_cast<double>(sampled);
  const double full = part * static_cast<double>(all_bytes_);
  const double incremental =
      part * static_cast<double>(all_bytes_ - found) + static_cast<double>(patches);
  return incremental <= rules_.most_of_full * full;
}

void ReferenceFinder::plan_collecting() {
  if (!is_worth_it()) return;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    worth_.push_back({pairs_[i].tensor, std::move(found_[i])});
  }
}

Result<void> ReferenceFinder::collect(FinderHost& host) {
  auto references = collect_references(
      bases_, std::move(worth_),
      [&](const BaseExtent& from, MutableByteSpan out) { return host.copy(from, out); });
  if (!references) return propagate(references);
  // Nobody could open what needs more files than readers take.
  if (references->files.size() < Limits().files) references_ = std::move(*references);
  return {};
}

}  // namespace espalier
