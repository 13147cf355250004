// Checks a region of a file: chunks, and the zeros before each.
#ifndef ESPALIER_CODEC_REGION_CHECK_H_
#define ESPALIER_CODEC_REGION_CHECK_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/codec/chunk_gate.h"
#include "espalier/error.h"

namespace espalier {

/// The faults of a region.
enum class Fault : std::uint8_t {
  kEndsEarly = 0,
  kDirtyPadding = 1,
  kNoDecoder = 2,
  kNotDecodable = 3,
  kWrongHash = 4,
  kWrongChecksum = 5,
  kWrongBase = 6,
};
inline constexpr Fault kLastFault = Fault::kWrongBase;

/// Code and message of a fault. Damage stores neither, because there may be millions of them.
ErrorCode code_of(Fault fault);
std::string_view message_of(Fault fault);

/// One damaged spot of a file.
struct Damage {
  Fault fault = Fault::kWrongHash;
  /// Offset in the chunk's file.
  std::uint64_t offset = 0;
  /// The damaged chunk; for padding, the chunk after it.
  std::uint32_t chunk = 0;
  /// Of kWrongBase: the number of the base among those of the chunk.
  std::uint32_t base = 0;
};

/// A chunk of a region, and the file offset of its first stored byte.
struct RegionChunk {
  std::uint64_t offset = 0;
  StoredChunk chunk;
};

/// A range of a file that holds only chunks, in order, and zeros before each. A patch is alone in
/// its region.
struct RegionTask {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
  std::span<const RegionChunk> chunks;
};

/// Returns the damage of a region, given its bytes and, if it has a patch, those of the bases.
/// `Damage::chunk` counts within the region. kOutOfMemory if decoding a chunk runs out of memory.
/// Thread-safe for different gates.
[[nodiscard]] Result<std::vector<Damage>> check_region(const RegionTask& region, StoredLayers bytes,
                                                       ChunkGate& gate);

}  // namespace espalier

#endif  // ESPALIER_CODEC_REGION_CHECK_H_
