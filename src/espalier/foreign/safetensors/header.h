// Parses the JSON header of a safetensors file into plain records.
#ifndef ESPALIER_FOREIGN_SAFETENSORS_HEADER_H_
#define ESPALIER_FOREIGN_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/format/shape_pool.h"
#include "espalier/limits.h"

namespace espalier {

/// Bytes before the header: its length, as a u64.
inline constexpr std::uint64_t kSafetensorsLengthBytes = 8;
/// Largest header in bytes that the specification allows.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// A tensor as the header describes it.
struct SafetensorsEntry {
  std::string_view name;
  /// Bytes [begin, end) of the buffer after the header.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  /// Index into SafetensorsHeader::shapes.
  std::uint32_t shape = 0;
  DType dtype = DType::kF32;
};

/// A header whose syntax has been checked. Each tensor has been checked by itself, not against the
/// others. The texts point into the parsed JSON.
struct SafetensorsHeader {
  /// In the order of the header. Names may repeat.
  std::vector<SafetensorsEntry> tensors;
  ShapePool shapes;
  /// The pairs of `__metadata__`, in order. Keys may repeat.
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  /// Whether `__metadata__` is there at all.
  bool has_metadata = false;
};

/// Parses a header in place. `json` holds the header and one more byte, which is overwritten; its
/// texts are unescaped in place. It must have fewer than 2^32 bytes. kSafetensorsInvalid or
/// kLimitExceeded, with offsets in the file. Iterative, in linear time; memory grows only with the
/// number of tensors and of distinct shapes.
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors_header(std::span<char> json,
                                                                 const Limits& limits);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SAFETENSORS_HEADER_H_
