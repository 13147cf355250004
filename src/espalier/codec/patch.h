// Applies what a patch says to the elements of its base.
//
// A change is stored as the integer difference of an element's bits, modulo 2^(8 * width), and
// zigzag: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4. Trained weights nearly always move by one unit in
// the last place, so the upper bytes are zeros and the lowest one is 1 or 2. As an exclusive or, a
// carry would change many bits. docs/format.md, section 12, has the bytes.
#ifndef ESPALIER_CODEC_PATCH_H_
#define ESPALIER_CODEC_PATCH_H_

#include <cstddef>
#include <cstdint>

#include "espalier/bytes.h"
#include "espalier/codec/planes.h"

namespace espalier {

/// The bytes before a patch's streams: the number of changes, the bytes of their gaps, and the
/// stored length of each stream: the gaps and the planes of the differences.
constexpr std::size_t patch_head_bytes(std::size_t width) {
  return sizeof(std::uint32_t) * (2 + 1 + width);
}

/// Adds to each element of `logical`, of `width` bytes, its difference, whose bytes are in `planes`
/// (without the rotation of floats). Accepts any differences. Thread-safe.
void add_differences(std::size_t width, const PlanePointers<const std::byte>& planes,
                     MutableByteSpan logical);

/// Adds `count` differences to some elements of `logical`. `gaps` has the number of unchanged
/// elements before each of them in LEB128, followed by one zero byte. Returns false if the gaps are
/// not in their shortest form, do not fit `count` and `logical`, or if a difference is 0; `logical`
/// is then partly changed. Accepts any bytes. Thread-safe.
[[nodiscard]] bool apply_changes(std::size_t width, ByteSpan gaps,
                                 const PlanePointers<const std::byte>& planes, std::size_t count,
                                 MutableByteSpan logical);

}  // namespace espalier

#endif  // ESPALIER_CODEC_PATCH_H_
