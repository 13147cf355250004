#include "espalier/read/gather.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace espalier {
namespace {

std::uint64_t end_of(const Extent& extent) { return extent.offset + extent.length; }

// The part that two extents share; empty if none.
Extent intersect(const Extent& a, const Extent& b) {
  if (a.file != b.file) return {};
  const std::uint64_t begin = std::max(a.offset, b.offset);
  const std::uint64_t end = std::min(end_of(a), end_of(b));
  return end > begin ? Extent{a.file, begin, end - begin} : Extent{};
}

void append_joined(std::vector<Extent>& extents, const Extent& next) {
  if (next.length == 0) return;
  if (!extents.empty() && extents.back().file == next.file &&
      end_of(extents.back()) == next.offset) {
    extents.back().length += next.length;
  } else {
    extents.push_back(next);
  }
}

}  // namespace

Result<void> check_fed(const Extent& extent, ByteSpan bytes) {
  if (extent.length != bytes.size() || extent.offset > ~std::uint64_t{0} - extent.length) {
    return fail(ErrorCode::kInvalidArgument, "fed " + std::to_string(bytes.size()) +
                                                 " bytes for an extent of " +
                                                 std::to_string(extent.length));
  }
  return {};
}

Gather::Gather(std::vector<Extent> wanted) : wanted_(std::move(wanted)) {
  std::erase_if(wanted_, [](const Extent& extent) { return extent.length == 0; });
  done_.assign(wanted_.size(), false);
  refresh_needs();
}

void Gather::refresh_needs() {
  needs_.clear();
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    if (done_[i]) continue;
    const auto partial = partial_.find(i);
    if (partial == partial_.end()) {
      append_joined(needs_, wanted_[i]);
    } else {
      for (const Extent& missing : partial->second.missing) append_joined(needs_, missing);
    }
  }
}

Result<void> Gather::feed(const Extent& extent, ByteSpan bytes, const Complete& complete) {
  if (auto ok = check_fed(extent, bytes); !ok) return ok;
  const auto first = std::lower_bound(
      wanted_.begin(), wanted_.end(), extent, [](const Extent& wanted, const Extent& fed) {
        return std::tuple(wanted.file, end_of(wanted)) <= std::tuple(fed.file, fed.offset);
      });
  Result<void> result;
  for (auto i = static_cast<std::size_t>(first - wanted_.begin()); i < wanted_.size() && result;
       ++i) {
    const Extent& wanted = wanted_[i];
    const Extent shared = intersect(wanted, extent);
    if (shared.length == 0) break;
    if (done_[i]) continue;
    const ByteSpan piece = bytes.subspan(static_cast<std::size_t>(shared.offset - extent.offset),
                                         static_cast<std::size_t>(shared.length));
    if (shared == wanted) {
      done_[i] = true;
      partial_.erase(i);
      result = complete(i, piece);
      continue;
    }
    Partial& partial = partial_[i];
    if (partial.bytes.empty()) {
      partial.bytes.resize(static_cast<std::size_t>(wanted.length));
      partial.missing = {wanted};
    }
    std::copy(piece.begin(), piece.end(),
              partial.bytes.begin() + static_cast<std::ptrdiff_t>(shared.offset - wanted.offset));
    std::vector<Extent> missing;
    for (const Extent& hole : partial.missing) {
      const Extent filled = intersect(hole, shared);
      if (filled.length == 0) {
        missing.push_back(hole);
        continue;
      }
      append_joined(missing, {hole.file, hole.offset, filled.offset - hole.offset});
      append_joined(missing, {hole.file, end_of(filled), end_of(hole) - end_of(filled)});
    }
    partial.missing = std::move(missing);
    if (partial.missing.empty()) {
      const std::vector<std::byte> whole = std::move(partial.bytes);
      partial_.erase(i);
      done_[i] = true;
      result = complete(i, whole);
    }
  }
  refresh_needs();
  return result;
}

}  // namespace espalier
