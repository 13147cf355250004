#include <algorithm>

#include "mutators/mutator.h"

namespace espalier::fuzz {

Bytes mutate_npy(const Bytes& file, std::size_t most, testing::Random& random,
                 const MutateBytes& mutate) {
  // Magic, version, and the length of the header in 2 bytes, or 4 from version 2 on.
  constexpr std::size_t kVersion = 6;
  constexpr std::size_t kLength = 8;
  const std::size_t width = file.size() > kVersion && file[kVersion] > 1 ? 4 : 2;
  const std::size_t begin = kLength + width;
  if (file.size() < begin || most < file.size() || random.one_in(4)) {
    return mutate_anything(file, most, mutate);
  }
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i) length |= std::size_t{file[kLength + i]} << (8 * i);
  const auto head = file.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto tail = head + static_cast<std::ptrdiff_t>(std::min(length, file.size() - begin));
  const Bytes header = mutate_anything(
      {head, tail}, static_cast<std::size_t>(tail - head) + most - file.size(), mutate);
  Bytes made(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(kLength));
  for (std::size_t i = 0; i < width; ++i) {
    made.push_back(static_cast<std::uint8_t>(header.size() >> (8 * i)));
  }
  made.insert(made.end(), header.begin(), header.end());
  made.insert(made.end(), tail, file.end());
  return made;
}

}  // namespace espalier::fuzz
