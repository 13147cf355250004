// The feature bits of a header: what a reader must support to open the file.
#ifndef ESPALIER_FORMAT_FEATURES_H_
#define ESPALIER_FORMAT_FEATURES_H_

#include <cstdint>

#include "espalier/codec/codec.h"
#include "espalier/detail/catalog.h"

namespace espalier {

/// Required-feature bits of the header.
inline constexpr std::uint64_t kFeatureZstd = 1u << 0;
inline constexpr std::uint64_t kFeaturePlanes = 1u << 1;
inline constexpr std::uint64_t kFeatureOtherFiles = 1u << 2;
inline constexpr std::uint64_t kFeaturePatches = 1u << 3;
/// A file with any of these has version 1.1.
inline constexpr std::uint64_t kFeaturesOf11 = kFeatureOtherFiles | kFeaturePatches;

/// The feature that a chunk of this codec needs; 0 for kRaw and for unknown codecs.
constexpr std::uint64_t feature_of(std::uint8_t codec) {
  if (codec == static_cast<std::uint8_t>(Codec::kZstd)) return kFeatureZstd;
  if (codec == static_cast<std::uint8_t>(Codec::kPatch)) return kFeaturePatches;
  return codec == static_cast<std::uint8_t>(Codec::kPlanes) ? kFeaturePlanes : 0;
}

static_assert(kPatchCodec == static_cast<std::uint8_t>(Codec::kPatch));

}  // namespace espalier

#endif  // ESPALIER_FORMAT_FEATURES_H_
