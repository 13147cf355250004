// The part of abi.h that decodes and checks.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"
#include "task.h"

#include "espalier/codec/chunk_gate.h"
#include "espalier/codec/region_check.h"
#include "espalier/read/strided_copy.h"

namespace espalier::abi {

static_assert(sizeof(Piece) == 16);
static_assert(sizeof(DamagedSpots) == 8);

class Decoding {
 public:
  Decoding(StridedCopy made, std::uint32_t chunks) : copy_(std::move(made)), missing_(chunks) {}

  ResultPart take(std::uint64_t begin, ByteSpan logical, std::vector<std::byte>& scratch) {
    if (copy_.is_ordered()) return copy_.part(begin, logical, scratch);
    // A chunk's elements are spread over the result, so the result is assembled here.
    if (result_.empty()) result_.resize(static_cast<std::size_t>(copy_.bytes()));
    copy_.copy(begin, logical, result_);
    return {0, --missing_ == 0 ? ByteSpan(result_) : ByteSpan()};
  }

 private:
  StridedCopy copy_;
  std::uint32_t missing_;
  std::vector<std::byte> result_;
};

namespace {

// Shared by all reads, because the decoder's memory is large compared with a small tensor.
struct Shared {
  ChunkGate gate;
  std::vector<std::byte> scratch;
  std::vector<DamagedSpot> spots;
};

Shared& shared() {
  static Shared all;
  return all;
}

}  // namespace

Decoding* espalier_decoding(const std::uint64_t* copy, std::uint32_t words, std::uint32_t chunks) {
  return new Decoding(copy_of({copy, words}), chunks);
}

Status espalier_decode(Decoding* decoding, const ChunkTask* task, const std::byte* stored,
                       std::uint32_t length, Piece* out) {
  const StoredChunk chunk = stored_chunk(*task, reinterpret_cast<const BaseTask*>(task + 1));
  const auto layers = layers_of({stored, length}, chunk.stored, chunk.bases);
  const auto logical = shared().gate.open(chunk, std::span<const ByteSpan>(layers));
  if (!logical) return set_failure(logical.error());
  const ResultPart part = decoding->take(task->begin, *logical, shared().scratch);
  *out = {part.bytes.data(), static_cast<std::uint32_t>(part.bytes.size()), part.begin};
  return 0;
}

void espalier_decoding_free(Decoding* decoding) { delete decoding; }

Status espalier_check_region(const RegionTask* task, const std::byte* bytes, std::uint32_t length,
                             DamagedSpots* out) {
  std::vector<RegionChunk> chunks;
  chunks.reserve(task->count);
  // A patch is alone in its region.
  const auto* bases = reinterpret_cast<const BaseTask*>(task->chunks + task->count);
  for (const ChunkTask& chunk : std::span(task->chunks, task->count)) {
    chunks.push_back({chunk.begin, stored_chunk(chunk, bases)});
  }
  const auto layers =
      layers_of({bytes, length}, task->length,
                chunks.empty() ? std::span<const StoredBase>() : chunks.front().chunk.bases);
  const auto damage = check_region({task->begin, task->length, chunks},
                                   std::span<const ByteSpan>(layers), shared().gate);
  if (!damage) return set_failure(damage.error());
  auto& spots = shared().spots;
  spots.clear();
  for (const Damage& spot : *damage) {
    spots.push_back(
        {spot.offset, spot.chunk, static_cast<std::uint32_t>(spot.fault) | spot.base << 8});
  }
  *out = {spots.data(), static_cast<std::uint32_t>(spots.size())};
  return 0;
}

}  // namespace espalier::abi
