// Format-aware mutations: they change a section of an Espalier file and then repair its sizes and
// hashes, so that fuzzing gets past the checksums.
#ifndef ESPALIER_FUZZ_MUTATOR_H_
#define ESPALIER_FUZZ_MUTATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "support/random.h"

namespace espalier::fuzz {

/// Changes `bytes` in place, to at most `most` bytes; returns the new length.
using MutateBytes =
    std::function<std::size_t(std::uint8_t* bytes, std::size_t size, std::size_t most)>;

/// A mutation of `file` of at most `most` bytes. Sizes and hashes are repaired three times in four.
/// `mutate` changes bytes without knowledge of the format.
std::vector<std::uint8_t> mutate_file(const std::vector<std::uint8_t>& file, std::size_t most,
                                      testing::Random& random, const MutateBytes& mutate);

/// Makes the sizes and hashes of a file agree with its contents, from the inside out: the chunks'
/// hashes, the tree digest, the index's length and hash, the file's length, the header's hash.
/// Invalid parts are left unchanged.
void mend(std::vector<std::uint8_t>& file, std::size_t index_length);

}  // namespace espalier::fuzz

#endif  // ESPALIER_FUZZ_MUTATOR_H_
