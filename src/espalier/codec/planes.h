// Takes numbers apart into planes: all their lowest bytes, then all their second bytes, and so on.
//
// The exponents of a tensor's numbers are much alike, and their mantissas are noise. Side by side,
// they spoil each other's compression; as planes, the one shrinks to a third and the other is left
// alone. Of floats, the sign moves from above the exponent to below its upper eight bits, where it
// completes a byte of mantissa: noise belongs with noise. The idea of byte planes is that of
// Blosc's and HDF5's shuffle filters; to part exponents from the rest, of ZipNN (arXiv:2411.05239).
#ifndef ESPALIER_CODEC_PLANES_H_
#define ESPALIER_CODEC_PLANES_H_

#include <array>
#include <cstddef>

#include "espalier/base/bytes.h"
#include "espalier/codec/codec.h"

namespace espalier {

/// Where each plane begins, by significance, the lowest first; as many as an element is wide. Each
/// has as many bytes as there are elements.
template <class Byte>
using PlanePointers = std::array<Byte*, kMaxElementWidth>;

/// Takes `elements`, which are whole, apart. No plane overlaps another or the elements.
/// Thread-safe.
void split_planes(ElementLayout layout, ByteSpan elements, const PlanePointers<std::byte>& planes);

/// Undoes split_planes(). Any bytes give some elements. No plane overlaps `elements`, which are
/// whole. Thread-safe.
void merge_planes(ElementLayout layout, const PlanePointers<const std::byte>& planes,
                  MutableByteSpan elements);

}  // namespace espalier

#endif  // ESPALIER_CODEC_PLANES_H_
