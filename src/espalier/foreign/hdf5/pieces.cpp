#include "espalier/foreign/hdf5/pieces.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"

namespace espalier {
namespace {

// Pieces with smaller gaps between them are one.
constexpr std::uint64_t kGap = 1024;

}  // namespace

const std::byte* Hdf5Pieces::find(std::uint64_t offset, std::uint64_t count, std::uint64_t ahead) {
  const auto after = pieces_.upper_bound(offset);
  if (after != pieces_.begin()) {
    const auto& [begin, piece] = *std::prev(after);
    if (range_fits(offset - begin, count, piece.length)) return piece.bytes + (offset - begin);
  }
  wants_.push_back({offset, offset + std::max(count, std::min(ahead, length_ - offset))});
  return nullptr;
}

std::byte* Hdf5Pieces::insert(std::uint64_t offset, std::size_t length) {
  // Pieces within the new one would hide it.
  const std::uint64_t end = offset + length;
  for (auto at = pieces_.lower_bound(offset);
       at != pieces_.end() && at->first + at->second.length <= end;) {
    at = pieces_.erase(at);
  }
  memory_.push_back(std::make_unique<std::byte[]>(length));
  pieces_[offset] = {memory_.back().get(), length};
  return memory_.back().get();
}

void Hdf5Pieces::add(std::uint64_t offset, ByteSpan bytes) {
  if (bytes.empty()) return;
  std::copy(bytes.begin(), bytes.end(), insert(offset, bytes.size()));
}

Result<void> Hdf5Pieces::take_wants(
    FunctionRef<void(std::uint64_t offset, MutableByteSpan to)> want) {
  std::sort(wants_.begin(), wants_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range& range : wants_) {
    if (!joined.empty() && range.begin <= joined.back().end + kGap) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  wants_.clear();
  for (const Range& range : joined) {
    const auto length = narrow_size(range.end - range.begin);
    if (!length || *length > most_ - taken_) {
      return fail(ErrorCode::kLimitExceeded,
                  "the structures of the HDF5 file take more than the " + counted(most_, "byte") +
                      " that Limits::foreign_header_bytes allows",
                  range.begin);
    }
    taken_ += *length;
    want(range.begin, {insert(range.begin, *length), *length});
  }
  return {};
}

}  // namespace espalier
