// Connects the format-aware mutations to libFuzzer.
#include <algorithm>

#include "mutator.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  espalier::testing::Random random(seed);
  const auto mutated =
      espalier::fuzz::mutate_file({data, data + size}, most, random, LLVMFuzzerMutate);
  const std::size_t length = std::min(mutated.size(), most);
  std::copy_n(mutated.begin(), length, data);
  return length;
}
