// The outer form of an OCDBT manifest or node: a magic, a length, a checksum, and a body that may
// be compressed (https://google.github.io/tensorstore/kvstore/ocdbt/index.html).
#ifndef ESPALIER_FOREIGN_OCDBT_ENVELOPE_H_
#define ESPALIER_FOREIGN_OCDBT_ENVELOPE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier {

/// The first four bytes, as a big-endian number.
enum class OcdbtMagic : std::uint32_t { kManifest = 0x0CDB3A2A, kNode = 0x0CDB20DE };

/// Whether `front` begins with that magic.
bool has_ocdbt_magic(ByteSpan front, OcdbtMagic magic);

/// The body of an envelope that fills `bytes`. kForeignInvalid for another magic, length or
/// checksum, kUnsupportedVersion, and kLimitExceeded for a body that may have more than `most`
/// bytes.
[[nodiscard]] Result<std::vector<std::byte>> open_ocdbt_envelope(ByteSpan bytes, OcdbtMagic magic,
                                                                 std::uint64_t most);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_OCDBT_ENVELOPE_H_
