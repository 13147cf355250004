// The two hashes of the format: XXH3-64 and XXH3-128, seed 0, as published by xxHash 0.8.
//
// They find damage fast. They are not signatures: an attacker who changes a file can recompute
// them.
#ifndef ESPALIER_CODEC_HASH_H_
#define ESPALIER_CODEC_HASH_H_

#include <cstdint>
#include <memory>

#include "espalier/bytes.h"

namespace espalier {

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

}  // namespace espalier

#endif  // ESPALIER_CODEC_HASH_H_
