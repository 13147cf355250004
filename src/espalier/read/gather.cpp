#include "espalier/read/gather.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "espalier/base/counted.h"

namespace espalier {
namespace {

std::uint64_t end_of(const Extent& extent) { return extent.offset + extent.length; }

// The intersection of two extents; may be empty.
Extent intersect(const Extent& a, const Extent& b) {
  if (a.file != b.file) return {};
  const std::uint64_t begin = std::max(a.offset, b.offset);
  const std::uint64_t end = std::min(end_of(a), end_of(b));
  return end > begin ? Extent{a.file, begin, end - begin} : Extent{};
}

// The first of the sorted extents that ends after the beginning of `fed`.
template <class Iterator>
Iterator first_ending_after(Iterator begin, Iterator end, const Extent& fed) {
  return std::lower_bound(begin, end, fed, [](const Extent& extent, const Extent& other) {
    return std::tuple(extent.file, end_of(extent)) <= std::tuple(other.file, other.offset);
  });
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
    return fail(ErrorCode::kInvalidArgument, "fed " + counted(bytes.size(), "byte") +
                                                 " for an extent of " +
                                                 std::to_string(extent.length));
  }
  return {};
}

Gather::Gather(std::vector<Extent> wanted) : wanted_(std::move(wanted)) {
  std::erase_if(wanted_, [](const Extent& extent) { return extent.length == 0; });
  done_.assign(wanted_.size(), false);
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const Extent& extent = wanted_[i];
    const bool overlaps = !needs_.empty() && needs_.back().file == extent.file &&
                          end_of(needs_.back()) > extent.offset;
    if (!overlaps) {
      append_joined(needs_, extent);
    } else {
      const std::uint64_t end = end_of(needs_.back());
      if (end_of(extent) > end) needs_.back().length += end_of(extent) - end;
      if (reach_.empty())
        reach_.assign(wanted_.begin(), wanted_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!reach_.empty()) {
      reach_.push_back({extent.file, extent.offset, end_of(needs_.back()) - extent.offset});
    }
  }
}

// The first of wanted_ that may have bytes of `fed`.
std::size_t Gather::first_reached(const Extent& fed) const {
  const std::vector<Extent>& extents = reach_.empty() ? wanted_ : reach_;
  return static_cast<std::size_t>(first_ending_after(extents.begin(), extents.end(), fed) -
                                  extents.begin());
}

void Gather::remove_from_needs(const Extent& fed) {
  const auto begin = first_ending_after(needs_.begin() + static_cast<std::ptrdiff_t>(needs_begin_),
                                        needs_.end(), fed);
  auto end = begin;
  std::vector<Extent> left;
  for (; end != needs_.end(); ++end) {
    const Extent shared = intersect(*end, fed);
    if (shared.length == 0) break;
    append_joined(left, {end->file, end->offset, shared.offset - end->offset});
    append_joined(left, {end->file, end_of(shared), end_of(*end) - end_of(shared)});
  }
  const auto touched = static_cast<std::size_t>(end - begin);
  const auto at = static_cast<std::size_t>(begin - needs_.begin());
  if (left.size() > touched) {  // the middle of one extent was fed: both ends are left
    needs_[at] = left[1];
    needs_.insert(needs_.begin() + static_cast<std::ptrdiff_t>(at), left[0]);
    return;
  }
  std::copy(left.begin(), left.end(),
            needs_.begin() + static_cast<std::ptrdiff_t>(at + touched - left.size()));
  if (at == needs_begin_) {
    needs_begin_ += touched - left.size();
  } else {
    needs_.erase(begin, begin + static_cast<std::ptrdiff_t>(touched - left.size()));
  }
}

Result<void> Gather::feed(const Extent& extent, ByteSpan bytes, const Complete& complete) {
  if (auto ok = check_fed(extent, bytes); !ok) return ok;
  Result<void> result;
  Extent taken = extent;
  for (std::size_t i = first_reached(extent); i < wanted_.size() && result; ++i) {
    const Extent& wanted = wanted_[i];
    if (wanted.file != extent.file || wanted.offset >= end_of(extent)) break;
    const Extent shared = intersect(wanted, extent);
    if (done_[i] || shared.length == 0) continue;
    const ByteSpan piece = bytes.subspan(static_cast<std::size_t>(shared.offset - extent.offset),
                                         static_cast<std::size_t>(shared.length));
    if (shared == wanted) {
      done_[i] = true;
      if (!partial_.empty()) partial_[i].reset();
      result = complete(i, piece);
      if (!result) taken.length = end_of(wanted) - extent.offset;
      continue;
    }
    if (partial_.empty()) partial_.resize(wanted_.size());
    if (!partial_[i]) partial_[i] = std::make_unique<Partial>();
    Partial& partial = *partial_[i];
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
      partial_[i].reset();
      done_[i] = true;
      result = complete(i, whole);
      if (!result) taken.length = end_of(shared) - extent.offset;
    }
  }
  remove_from_needs(taken);
  return result;
}

}  // namespace espalier
