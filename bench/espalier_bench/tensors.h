// Made-up tensors: the same names and contents as those of peers/safetensors_rs.
#ifndef ESPALIER_BENCH_TENSORS_H_
#define ESPALIER_BENCH_TENSORS_H_

#include <cstdint>
#include <string>

#include "espalier/bytes.h"
#include "espalier/value.h"

namespace espalier::bench {

/// A dict of `tensors` one-dimensional f32 tensors with `bytes` bytes in all: in memory, or
/// `produced` on demand.
Value flat_state(std::uint64_t tensors, std::uint64_t bytes, bool produced = false);

/// A state of `tensors` f32 tensors of `elements` elements each. `names` is "training" (the weights
/// of a language model and Adam's two moments of each, as one nested tree), "model" (the weights
/// alone, nested) or "flat" (the weights alone, one dict with dotted names).
Value named_state(const std::string& names, std::uint64_t tensors, std::uint64_t elements);

/// The sum, modulo 2^64, of the little-endian 64-bit words; the last one filled up with zeros.
std::uint64_t sum_words(ByteSpan bytes);

}  // namespace espalier::bench

#endif  // ESPALIER_BENCH_TENSORS_H_
