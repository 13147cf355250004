// What the planners of targets share: pieces whose loops are joined, and how hard a target is.
#ifndef ESPALIER_MAP_PIECES_H_
#define ESPALIER_MAP_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "espalier/map/plan.h"

namespace espalier {

/// Stops a rule that makes billions of pieces of a stranger's file.
inline constexpr std::size_t kMaxPieces = std::size_t{1} << 24;
/// Names of tensors that a plan makes beyond the number of tensors that it reads; copies and ties
/// count. A shape of a few bytes could ask for as many tensors as it has rows, without any data.
inline constexpr std::size_t kMaxTargets = std::size_t{1} << 20;
/// Bytes of all these names: a name may have 64 KiB.
inline constexpr std::uint64_t kMaxNameBytes = std::uint64_t{1} << 28;

/// Whether the elements of both have one dtype; opaque ones, blocks of one kind and size. A file
/// may give two sizes of block one name.
bool is_stored_alike(const MapLeaf& a, const MapLeaf& b);

/// "'a' is f32, and 'b' is f16; both go into ".
std::string of_two_dtypes(const MapLeaf& a, const MapLeaf& b);

/// Puts the loops in the order of the target, and joins those that go on alike. Returns false if
/// there is nothing to copy.
bool settle(std::vector<MapLoop>& loops);

/// Whether a settled piece moves whole units alone.
bool is_whole_units(const MapPiece& piece, const MapUnit& unit);

/// Whether a settled piece is the whole of its source, and of the target, in the same order.
bool is_identity(const MapTarget& target, const MapPiece& piece, std::span<const MapLeaf> leaves);

/// How hard it is to make a target of settled pieces, whose numbers stay.
MapWork work_of(const MapTarget& target, std::span<const MapLeaf> leaves);

/// Whether a target is its source, in whatever dtype.
bool keeps_elements(const MapTarget& target, std::span<const MapLeaf> leaves);

}  // namespace espalier

#endif  // ESPALIER_MAP_PIECES_H_
