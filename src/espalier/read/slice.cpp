#include "espalier/read/slice.h"

#include <algorithm>

#include "espalier/checkpoint.h"

namespace espalier {
namespace {

// Interprets an index as Python does: negative counts from the end, and the result is clamped to
// [0, length].
std::uint64_t clamp_index(std::int64_t index, std::uint64_t length) {
  if (index >= 0) return std::min(static_cast<std::uint64_t>(index), length);
  const std::uint64_t from_end = std::uint64_t{0} - static_cast<std::uint64_t>(index);
  return from_end > length ? 0 : length - from_end;
}

}  // namespace

AxisRange resolve(const Slice& slice, std::uint64_t length) {
  const std::uint64_t begin = slice.start ? clamp_index(*slice.start, length) : 0;
  const std::uint64_t end = slice.stop ? clamp_index(*slice.stop, length) : length;
  const auto step = static_cast<std::uint64_t>(slice.step);
  const std::uint64_t span = end > begin ? end - begin : 0;
  return {begin, span / step + (span % step != 0 ? 1 : 0), step};
}

}  // namespace espalier
