// The two hashes of the format: XXH3-64 and XXH3-128, seed 0, as published by xxHash 0.8.
//
// They find damage fast. They are not signatures: an attacker who changes a file can recompute
// them.
#ifndef ESPALIER_CODEC_HASH_H_
#define ESPALIER_CODEC_HASH_H_

#include <cstdint>
#include <memory>
#include <string>

#include "espalier/base/bytes.h"

namespace espalier {

/// A 128-bit hash, laid out as in the file: the low 64 bits first.
struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const Hash128&, const Hash128&) = default;
};
static_assert(sizeof(Hash128) == 16);

/// XXH3-128 of `bytes`. Thread-safe.
Hash128 hash128(ByteSpan bytes);

/// XXH3-128 of bytes added piece by piece. Not thread-safe.
class Hasher128 {
 public:
  /// Allocates some 600 bytes; throws std::bad_alloc on failure.
  Hasher128();
  void update(ByteSpan bytes);
  /// The hash of all bytes so far.
  Hash128 hash() const;

 private:
  struct State;
  struct Free {
    void operator()(State* state) const;
  };
  std::unique_ptr<State, Free> state_;
};

/// XXH3-64 of `bytes`. Thread-safe.
std::uint64_t hash64(ByteSpan bytes);

/// The 16 bytes in file order as 32 lower-case hex digits.
std::string to_hex(const Hash128& hash);

}  // namespace espalier

#endif  // ESPALIER_CODEC_HASH_H_
