// Splits numbers into planes: all their lowest bytes, then all their second bytes, and so on.
//
// The exponents of a tensor's numbers are similar, and their mantissas are noise. Interleaved, they
// compress badly. As planes, the exponents shrink to a third and the mantissas are stored raw. In
// floats, the sign moves below the upper eight bits of the exponent, where it completes a byte of
// mantissa: both are noise. Byte planes come from the shuffle filters of Blosc and HDF5; separating
// exponents comes from ZipNN (arXiv:2411.05239).
#ifndef ESPALIER_CODEC_PLANES_H_
#define ESPALIER_CODEC_PLANES_H_

#include <array>
#include <cstddef>

#include "espalier/bytes.h"
#include "espalier/codec/codec.h"

namespace espalier {

/// The beginning of each plane, lowest significance first; one plane for each byte of an element.
/// Each plane has one byte per element.
template <class Byte>
using PlanePointers = std::array<Byte*, kMaxElementWidth>;

/// Splits `elements`, which must be whole. Planes must not overlap each other or the elements.
/// Thread-safe.
void split_planes(ElementLayout layout, ByteSpan elements, const PlanePointers<std::byte>& planes);

/// Undoes split_planes(). Accepts any bytes. Planes must not overlap `elements`, which must be
/// whole. Thread-safe.
void merge_planes(ElementLayout layout, const PlanePointers<const std::byte>& planes,
                  MutableByteSpan elements);

}  // namespace espalier

#endif  // ESPALIER_CODEC_PLANES_H_
