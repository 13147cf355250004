// Decodes the input as a chunk, and encodes it as one. Its first byte selects codec and element
// type, the next two the number of elements. The rest is stored bytes, or the elements themselves.
#include "espalier/codec/codec.h"

#include <algorithm>

#include "fuzz.h"

#include "espalier/base/little_endian.h"
#include "espalier/codec/chunk_decoder.h"
#include "espalier/codec/chunk_encoder.h"
#include "espalier/codec/compression_level.h"
#include "espalier/codec/hash.h"

namespace {

using namespace espalier;

// Encodes and decodes; the result must have the same bytes.
void round_trip(ByteSpan logical, ElementLayout layout, int level) {
  ChunkEncoder encoder(level);
  const auto encoded = encoder.encode(logical, layout);
  fuzz::require(encoded.has_value(), "a chunk cannot be encoded");
  fuzz::require(encoded->codec == Codec::kRaw || encoded->bytes.size() < logical.size(),
                "a compressed chunk is not shorter");
  std::vector<std::byte> decoded(logical.size());
  fuzz::require(ChunkDecoder().decode(encoded->codec, layout, encoded->bytes, decoded).has_value(),
                "what was encoded cannot be decoded");
  fuzz::require(std::ranges::equal(decoded, logical), "what was encoded decodes to something else");
}

// Repairs the seal of the last frame, so that damage gets past it.
void seal_end(std::vector<std::byte>& stored, std::size_t begin) {
  if (stored.size() < begin + kSealBytes) return;
  const auto frame = ByteSpan(stored).subspan(begin, stored.size() - kSealBytes - begin);
  store_le(stored.data() + stored.size() - kSealBytes, hash64(frame));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const auto input = fuzz::copy_input(data, size);
  const auto choice = std::to_integer<unsigned>(input[0]);
  const auto codec = static_cast<Codec>(choice & 3u);
  const ElementLayout layout{static_cast<std::uint8_t>(1u << ((choice >> 3) & 3u)),
                             (choice & 4u) != 0};
  const std::size_t elements = 1 + load_le<std::uint16_t>(input.data() + 1) % 8192u;
  std::vector<std::byte> stored(input.begin() + 3, input.end());
  if ((choice & 0x20u) != 0) {
    // Where the last plane begins, if what comes before it is right.
    std::size_t begin = 0;
    if (codec == Codec::kPlanes && stored.size() >= 4u * layout.width) {
      const auto last = load_le<std::uint32_t>(stored.data() + 4u * (layout.width - 1u));
      begin = stored.size() - std::min<std::size_t>(last, stored.size());
    }
    seal_end(stored, begin);
  }
  std::vector<std::byte> logical(elements * layout.width);
  ChunkDecoder decoder;
  if (decoder.decode(codec, layout, stored, logical)) {
    std::vector<std::byte> again(logical.size());
    fuzz::require(decoder.decode(codec, layout, stored, again).has_value() && again == logical,
                  "the same chunk decodes to something else");
    round_trip(logical, layout, kFastCompression);
  }
  const std::size_t whole = stored.size() / layout.width * layout.width;
  if (whole > 0) {
    round_trip(ByteSpan(stored).first(whole), layout,
               (choice & 0x40u) != 0 ? kFastCompression + 1 : kFastCompression);
  }
  return 0;
}
