// What all mutations share.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "mutators/mutator.h"

namespace espalier::fuzz {
namespace {

// Numbers that break range and sum checks.
std::uint64_t interesting(testing::Random& random, std::uint64_t old) {
  constexpr std::array<std::uint64_t, 16> kNumbers = {
      0,          1,          2,           0x7F,        0x80,     0xFF,
      0xFFFF,     0x7FFFFFFF, 0x80000000u, 0xFFFFFFFFu, 1u << 20, (1u << 20) + 1,
      1ull << 62, 1ull << 63, ~0ull,       ~0ull >> 1};
  switch (random.below(5)) {
    case 0:
      return old + 1;
    case 1:
      return old - 1;
    case 2:
      return old ^ (std::uint64_t{1} << random.below(64));
    case 3:
      return random.below(64);
    default:
      return kNumbers[static_cast<std::size_t>(random.below(kNumbers.size()))];
  }
}

// Changes one aligned number of a section, or gives it the value of another.
template <class T>
void change_number(std::span<std::uint8_t> section, testing::Random& random) {
  const std::size_t count = section.size() / sizeof(T);
  if (count == 0) return;
  const auto at = [&] { return section.data() + random.below(count) * sizeof(T); };
  std::uint8_t* target = at();
  T value;
  std::memcpy(&value, random.one_in(4) ? at() : target, sizeof value);
  if (!random.one_in(4)) value = static_cast<T>(interesting(random, value));
  std::memcpy(target, &value, sizeof value);
}

}  // namespace

void change_numbers(std::span<std::uint8_t> section, testing::Random& random) {
  for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
    switch (random.below(4)) {
      case 0:
        change_number<std::uint8_t>(section, random);
        break;
      case 1:
        change_number<std::uint16_t>(section, random);
        break;
      case 2:
        change_number<std::uint64_t>(section, random);
        break;
      default:
        change_number<std::uint32_t>(section, random);
        break;
    }
  }
}

Bytes mutate_anything(Bytes bytes, std::size_t most, const MutateBytes& mutate) {
  const std::size_t size = bytes.size();
  bytes.resize(std::max(size, most));
  if (bytes.empty()) return bytes;  // libFuzzer needs a nonzero size.
  bytes.resize(mutate(bytes.data(), size, bytes.size()));
  return bytes;
}

}  // namespace espalier::fuzz
