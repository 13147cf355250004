// Applies the input as a patch, and makes patches of it. Its first byte selects the element type
// and whether a seal is repaired, the next two the number of elements. The rest is stored bytes;
// for the encoder it is a base and the chunk that comes of it.
#include "espalier/codec/patch.h"

#include <algorithm>

#include "fuzz.h"

#include "espalier/base/little_endian.h"
#include "espalier/codec/chunk_decoder.h"
#include "espalier/codec/hash.h"
#include "espalier/codec/patch_encoder.h"

namespace {

using namespace espalier;

// Encodes and applies; the result must have the same bytes.
void round_trip(ByteSpan base, ByteSpan logical, ElementLayout layout) {
  PatchEncoder encoder;
  const auto patch = encoder.encode(base, logical, layout, logical.size());
  fuzz::require(patch.has_value(), "a chunk cannot be encoded as a patch");
  if (!*patch) return;
  fuzz::require((*patch)->size() < logical.size(), "a patch is not shorter than the chunk");
  std::vector<std::byte> applied(base.begin(), base.end());
  fuzz::require(ChunkDecoder().apply_patch(layout, **patch, applied).has_value(),
                "what was encoded cannot be applied");
  fuzz::require(std::ranges::equal(applied, logical), "what was encoded makes something else");
}

// Repairs the seals of all streams, as far as their lengths go, so that damage gets past them.
void seal_streams(std::vector<std::byte>& stored, std::size_t width) {
  const std::size_t head = patch_head_bytes(width);
  if (stored.size() < head) return;
  std::size_t begin = head;
  for (std::size_t k = 0; k <= width; ++k) {
    const std::size_t length = load_le<std::uint32_t>(stored.data() + 4 * (2 + k));
    if (length > stored.size() - begin) return;
    constexpr std::byte kMagic{0x28};  // the first byte of a frame
    if (length > kSealBytes && stored[begin] == kMagic) {
      const std::size_t frame = length - kSealBytes;
      store_le(stored.data() + begin + frame, hash64(ByteSpan(stored).subspan(begin, frame)));
    }
    begin += length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const auto input = fuzz::copy_input(data, size);
  const auto choice = std::to_integer<unsigned>(input[0]);
  const ElementLayout layout{static_cast<std::uint8_t>(1u << (choice & 3u)), (choice & 4u) != 0};
  const std::size_t width = layout.width;
  const std::size_t elements = 1 + load_le<std::uint16_t>(input.data() + 1) % 8192u;
  std::vector<std::byte> stored(input.begin() + 3, input.end());
  if ((choice & 8u) != 0) seal_streams(stored, width);

  std::vector<std::byte> base(elements * width);
  for (std::size_t i = 0; i < base.size(); ++i) base[i] = static_cast<std::byte>(i * 37);
  std::vector<std::byte> applied = base;
  ChunkDecoder decoder;
  if (decoder.apply_patch(layout, stored, applied)) {
    std::vector<std::byte> again = base;
    fuzz::require(decoder.apply_patch(layout, stored, again).has_value() && again == applied,
                  "the same patch makes something else");
    round_trip(base, applied, layout);
    round_trip(applied, base, layout);
  }

  const std::size_t half = stored.size() / 2 / width * width;
  round_trip(ByteSpan(stored).first(half), ByteSpan(stored).subspan(half, half), layout);
  // Few changes: the base and what the stored bytes add to the beginning of it.
  std::vector<std::byte> changed = base;
  for (std::size_t i = 0; i < std::min(stored.size(), changed.size()); ++i) changed[i] ^= stored[i];
  round_trip(base, changed, layout);
  return 0;
}
