// The arithmetic of key maps: numbers of targets from the numbers of their sources.
//
// Every number is computed in doubles, in one order, and rounded once. So the bytes depend neither
// on the machine nor on the number of threads.
#ifndef ESPALIER_MAP_COMPUTE_H_
#define ESPALIER_MAP_COMPUTE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/dtype.h"
#include "espalier/map/plan.h"

namespace espalier {

/// Whether maps compute with elements of this type: f16, bf16, f32 and f64.
constexpr bool can_compute(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32 ||
         dtype == DType::kF64;
}

/// What rounding did to the numbers that were computed.
struct MapRounding {
  /// Finite numbers beyond the largest one of their type, which became infinite.
  std::uint64_t overflows = 0;
  /// Numbers that the inverse of the rule would not give back.
  std::uint64_t inexact = 0;

  MapRounding& operator+=(const MapRounding& other) {
    overflows += other.overflows;
    inexact += other.inexact;
    return *this;
  }
};

/// Applies `steps` in order to packed elements of type `from`, and writes them to `out` as packed
/// elements of type `to`. `in` and `out` have the same number of whole elements, and
/// can_compute() both types.
MapRounding compute(DType from, ByteSpan in, std::span<const MapStep> steps, DType to,
                    MutableByteSpan out);

/// The elements of an operand that a computation needs: those from `begin` on.
struct OperandElements {
  DType dtype = DType::kF32;
  std::uint64_t begin = 0;
  ByteSpan packed;
};

struct OperandRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// The elements of the source of `operand` that elements [first, last) of a target need, and those
/// between them; none if a loop of the term is empty. `last` is above `first`.
OperandRange elements_for(const MapTerm& term, const MapOperand& operand, std::uint64_t first,
                          std::uint64_t last);

/// Computes elements from `first` on of a target of type `to` as the sum of `terms`. `operands` has
/// the elements of each operand of each term, in order: at least those of elements_for().
MapRounding compute_terms(std::span<const MapTerm> terms, std::span<const OperandElements> operands,
                          std::uint64_t first, DType to, MutableByteSpan out);

}  // namespace espalier

#endif  // ESPALIER_MAP_COMPUTE_H_
