// The checksums of HDF5.
#ifndef ESPALIER_FOREIGN_HDF5_CHECKSUMS_H_
#define ESPALIER_FOREIGN_HDF5_CHECKSUMS_H_

#include <cstdint>

#include "espalier/bytes.h"

namespace espalier {

/// Of metadata: Bob Jenkins's lookup3, hashlittle() with the initial value 0.
std::uint32_t lookup3(ByteSpan bytes);

/// Of chunks that pass the filter Fletcher-32: of words of 16 bits, big-endian, the last odd byte
/// as the upper half of one.
std::uint32_t fletcher32(ByteSpan bytes);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_CHECKSUMS_H_
