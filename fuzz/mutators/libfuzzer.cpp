// Connects a format-aware mutation to libFuzzer: ESPALIER_FUZZ_MUTATE, which the build names for
// each target. Declared here, so that a mutator of a format needs no line in a header.
#include <algorithm>

#include "mutators/mutator.h"

namespace espalier::fuzz {
Bytes ESPALIER_FUZZ_MUTATE(const Bytes& file, std::size_t most, testing::Random& random,
                           const MutateBytes& mutate);
}  // namespace espalier::fuzz

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  espalier::testing::Random random(seed);
  const auto mutated =
      espalier::fuzz::ESPALIER_FUZZ_MUTATE({data, data + size}, most, random, LLVMFuzzerMutate);
  const std::size_t length = std::min(mutated.size(), most);
  std::copy_n(mutated.begin(), length, data);
  return length;
}
