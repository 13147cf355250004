#include "support/chunk_forms.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <zstd.h>

#include "espalier/codec/frame_encoder.h"
#include "espalier/codec/planes.h"

namespace espalier::testing {
namespace {

std::uint64_t zstd_size(ByteSpan bytes, int level) {
  std::vector<std::byte> out(ZSTD_compressBound(bytes.size()));
  const std::size_t size =
      ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), zstd_level(level));
  return size + kSealBytes;
}

Result<std::uint64_t> plane_size(ByteSpan plane, int level) {
  if (std::equal(plane.begin() + 1, plane.end(), plane.begin())) return 1;
  std::uint64_t best = std::min<std::uint64_t>(plane.size(), zstd_size(plane, level));
  FrameEncoder encoders[] = {FrameEncoder::entropy_only(), FrameEncoder::local_entropy_only()};
  std::vector<std::byte> out(plane.size());
  for (FrameEncoder& encoder : encoders) {
    const auto size = encoder.encode(plane, out);
    if (!size) return propagate(size);
    if (*size) best = std::min<std::uint64_t>(best, **size);
  }
  return best;
}

}  // namespace

FormSizes& FormSizes::operator+=(const FormSizes& other) {
  raw += other.raw;
  zstd += other.zstd;
  planes += other.planes;
  best += other.best;
  return *this;
}

Result<FormSizes> measure_forms(ByteSpan logical, ElementLayout layout, int level) {
  FormSizes sizes{logical.size(), zstd_size(logical, level), logical.size(), logical.size()};
  if (layout.has_planes()) {
    std::vector<std::byte> parted(logical.size());
    const std::size_t n = logical.size() / layout.width;
    PlanePointers<std::byte> planes = {};
    for (std::size_t k = 0; k < layout.width; ++k) planes[k] = parted.data() + k * n;
    split_planes(layout, logical, planes);
    sizes.planes = layout.width * sizeof(std::uint32_t);
    for (std::size_t k = 0; k < layout.width; ++k) {
      const auto size = plane_size({planes[k], n}, level);
      if (!size) return propagate(size);
      sizes.planes += *size;
    }
  }
  const std::uint64_t smallest = std::min(sizes.zstd, sizes.planes);
  if (smallest + sizes.raw / 100 < sizes.raw) sizes.best = smallest;
  return sizes;
}

}  // namespace espalier::testing
