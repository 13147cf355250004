// Snappy, in which blocks of a table may be packed.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_SNAPPY_H_
#define ESPALIER_FOREIGN_TENSORFLOW_SNAPPY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier {

/// Unpacks a block of snappy (its raw format, without frames). kForeignInvalid for what is none, or
/// claims more bytes than its own can become; kLimitExceeded, before anything is allocated, for
/// more than `most` bytes.
[[nodiscard]] Result<std::vector<std::byte>> unpack_snappy(ByteSpan packed, std::uint64_t most);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_SNAPPY_H_
