#include "espalier/codec/region_check.h"

#include <algorithm>
#include <cstddef>

namespace espalier {
namespace {

Fault fault_of(const Error& error) {
  if (error.code == ErrorCode::kUnsupportedCodec) return Fault::kNoDecoder;
  if (error.code == ErrorCode::kTruncated) return Fault::kEndsEarly;
  if (error.code == ErrorCode::kBaseMismatch) return Fault::kWrongBase;
  return error.message == kUndecodable ? Fault::kNotDecodable : Fault::kWrongHash;
}

}  // namespace

ErrorCode code_of(Fault fault) {
  switch (fault) {
    case Fault::kEndsEarly:
      return ErrorCode::kTruncated;
    case Fault::kDirtyPadding:
      return ErrorCode::kPaddingCorrupt;
    case Fault::kNoDecoder:
      return ErrorCode::kUnsupportedCodec;
    case Fault::kNotDecodable:
    case Fault::kWrongHash:
    case Fault::kWrongBase:
    case Fault::kWrongChecksum:
      break;
  }
  return ErrorCode::kChunkCorrupt;
}

std::string_view message_of(Fault fault) {
  switch (fault) {
    case Fault::kEndsEarly:
      return "the file ends before its recorded length";
    case Fault::kDirtyPadding:
      return "padding before a tensor is not zero: the file was damaged, though no tensor was";
    case Fault::kNoDecoder:
      return "this build has no decoder for the codec of these tensor bytes, so they are unchecked";
    case Fault::kNotDecodable:
      return kUndecodable;
    case Fault::kWrongBase:
      return kBaseChanged;
    case Fault::kWrongChecksum:
      return "the bytes do not match the CRC-32 that the file has for them; copy or "
             "download "
             "the file again";
    case Fault::kWrongHash:
      break;
  }
  return kHashMismatch;
}

Result<std::vector<Damage>> check_region(const RegionTask& region, StoredLayers stored,
                                         ChunkGate& gate) {
  const ByteSpan bytes = stored.chunk();
  if (bytes.size() != region.length) {
    return std::vector<Damage>{{Fault::kEndsEarly, region.begin + bytes.size(), 0}};
  }
  std::vector<Damage> damage;
  std::vector<ByteSpan> layers(stored.size());
  for (std::size_t i = 1; i < layers.size(); ++i) layers[i] = stored.base(i - 1);
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < region.chunks.size(); ++i) {
    const auto& [offset, chunk] = region.chunks[i];
    const auto begin = static_cast<std::size_t>(offset - region.begin);
    const auto padding = bytes.subspan(at, begin - at);
    const auto dirty = std::find_if(padding.begin(), padding.end(),
                                    [](std::byte byte) { return byte != std::byte{0}; });
    if (dirty != padding.end()) {
      const auto before = static_cast<std::size_t>(dirty - padding.begin());
      damage.push_back({Fault::kDirtyPadding, region.begin + at + before, i});
    }
    layers.front() = bytes.subspan(begin, chunk.stored);
    if (const auto opened = gate.open(chunk, std::span<const ByteSpan>(layers)); !opened) {
      const Error& error = opened.error();
      if (error.code == ErrorCode::kOutOfMemory) return propagate(opened);
      const bool is_base = error.code == ErrorCode::kBaseMismatch;
      damage.push_back(
          {fault_of(error), offset, i, is_base ? static_cast<std::uint32_t>(error.offset) : 0});
    }
    at = begin + chunk.stored;
  }
  return damage;
}

}  // namespace espalier
