// Connects a format-aware mutation to libFuzzer: ESPALIER_FUZZ_MUTATE, which the build names for
// each target.
#include <algorithm>

#include "mutators/mutator.h"

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
