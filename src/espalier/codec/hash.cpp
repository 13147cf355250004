#include "espalier/codec/hash.h"

#include <array>

// With dispatch, the library picks the widest vector instructions of the machine that it runs on
// (AVX2 and AVX-512 hash about twice as fast as the SSE2 that every x86-64 has). Without it, the
// hash is compiled in from the header: what WebAssembly and other machines need. For the complete
// type of the state, which is allocated here.
#define XXH_STATIC_LINKING_ONLY
#if ESPALIER_XXH_DISPATCH
#include <xxhash.h>
// The dispatching header must come second: it redirects the functions that the first one declares.
#include <xxh_x86dispatch.h>
#else
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

namespace espalier {

struct Hasher128::State : XXH3_state_t {};

Hasher128::Hasher128() : state_(new State) { XXH3_128bits_reset(state_.get()); }

void Hasher128::Free::operator()(State* state) const { delete state; }

void Hasher128::update(ByteSpan bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

Hash128 Hasher128::hash() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return {hash.low64, hash.high64};
}

Hash128 hash128(ByteSpan bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

std::uint64_t hash64(ByteSpan bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string to_hex(const Hash128& hash) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<std::byte, sizeof(Hash128)> bytes;
  std::memcpy(bytes.data(), &hash, sizeof hash);
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

}  // namespace espalier
