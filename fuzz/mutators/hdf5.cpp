// Mutates HDF5 files: bytes anywhere, or in one structure. The checksums of superblocks, object
// headers and of the headers of trees, heaps and indexes are repaired, so that what they protect is
// read.
#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "mutators/mutator.h"

#include "espalier/base/little_endian.h"
#include "espalier/foreign/hdf5/checksums.h"

namespace espalier::fuzz {
namespace {

// Structures whose size is known, with addresses and lengths of 8 bytes; the checksum is the end.
struct Structure {
  std::string_view letters;
  std::size_t bytes;
};
constexpr Structure kStructures[] = {{"BTHD", 38}, {"FRHP", 146}, {"FAHD", 28},
                                     {"EAHD", 72}, {"OHDR", 0},   {"\x89HDF", 48}};
constexpr std::size_t kLargestWindow = 512;

std::size_t find_next(const Bytes& file, std::size_t from, const Structure** found) {
  for (std::size_t at = from; at + 8 <= file.size(); ++at) {
    for (const Structure& structure : kStructures) {
      // Most bytes are no first letter: comparing words at each takes three quarters of a campaign.
      if (file[at] == static_cast<std::uint8_t>(structure.letters.front()) &&
          std::memcmp(file.data() + at, structure.letters.data(), structure.letters.size()) == 0) {
        *found = &structure;
        return at;
      }
    }
  }
  return file.size();
}

// Of the structure at `at`, with its checksum; 0 if it has none.
std::size_t size_of(const Bytes& file, std::size_t at, const Structure& structure) {
  if (structure.letters == "\x89HDF") return at + 9 <= file.size() && file[at + 8] >= 2 ? 48 : 0;
  if (structure.bytes > 0) return structure.bytes;
  const std::uint8_t flags = file[at + 5];
  std::size_t head = 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
  const std::size_t width = std::size_t{1} << (flags & 3);
  if (at + head + width > file.size()) return 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = width; i-- > 0;) bytes = bytes << 8 | file[at + head + i];
  return bytes > file.size() ? 0 : head + width + static_cast<std::size_t>(bytes) + 4;
}

void repair(Bytes& file) {
  const Structure* structure = nullptr;
  for (std::size_t at = 0; (at = find_next(file, at, &structure)) < file.size(); ++at) {
    const std::size_t bytes = size_of(file, at, *structure);
    if (bytes < 8 || bytes > file.size() - at) continue;
    const std::uint32_t sum = lookup3(view({file.data() + at, bytes - 4}));
    std::memcpy(file.data() + at + bytes - 4, &sum, sizeof sum);
  }
}

}  // namespace

Bytes mutate_hdf5(const Bytes& file, std::size_t most, testing::Random& random,
                  const MutateBytes& mutate) {
  Bytes changed = file;
  if (file.size() < 64 || file.size() > most || random.one_in(4)) {
    changed = mutate_anything(std::move(changed), most, mutate);
  } else {
    // In its place: addresses stay right.
    const Structure* structure = nullptr;
    std::size_t at = find_next(file, random.below(file.size()), &structure);
    if (at == file.size()) at = random.below(file.size() - 16);
    const std::size_t window = std::min(kLargestWindow, file.size() - at);
    change_numbers({changed.data() + at, window}, random);
    if (random.one_in(2))
      changed[at + random.below(window)] = static_cast<std::uint8_t>(random.below(256));
  }
  if (!random.one_in(8)) repair(changed);
  return changed;
}

}  // namespace espalier::fuzz
