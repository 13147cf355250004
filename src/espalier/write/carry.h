// Which tensors a new file takes over from the checkpoints that they were loaded from, chunk by
// chunk as they are stored there.
#ifndef ESPALIER_WRITE_CARRY_H_
#define ESPALIER_WRITE_CARRY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "espalier/detail/catalog.h"
#include "espalier/write/layout.h"

namespace espalier {

/// What a save takes over with the hashes that it has there: such bytes are not decoded, checked,
/// hashed or compressed again. Damage in them is taken over too, and their hashes tell.
enum class Carry : std::uint8_t {
  kNothing,
  /// Raw chunks, if the new file is not compressed. It gets the same bytes as with kNothing.
  kRaw,
  /// Also all chunks of compressed files, if the new file is compressed: whatever the level of
  /// either.
  kStored,
};

/// By tensor number: the chunks of the checkpoint that the tensor is taken over from; none for the
/// others. They are valid as long as the layout's tensors.
std::vector<std::span<const ChunkRecord>> choose_carried(const Layout& layout, bool is_compressed,
                                                         Carry carry);

}  // namespace espalier

#endif  // ESPALIER_WRITE_CARRY_H_
