#include "espalier/read/group_gather.h"

#include <numeric>
#include <utility>

#include "espalier/base/merge_sort.h"

namespace espalier {

void GroupGather::add(const Extent& extent, std::span<const ChunkRecord> bases) {
  // The gather leaves out what is empty.
  if (extent.length == 0) return;
  const std::uint32_t group = groups_++;
  if (!bases.empty() && members_.empty()) {
    for (std::uint32_t i = 0; i < group; ++i) members_.push_back({i, 0});
  }
  extents_.push_back(extent);
  if (bases.empty() && members_.empty()) return;
  members_.push_back({group, 0});
  if (bases.empty()) return;
  partial_[group] = {std::vector<std::vector<std::byte>>(1 + bases.size()), 1 + bases.size()};
  for (std::uint32_t i = 0; i < bases.size(); ++i) {
    extents_.push_back({bases[i].file, bases[i].offset, bases[i].stored});
    members_.push_back({group, 1 + i});
  }
}

void GroupGather::start() {
  if (!members_.empty()) {
    std::vector<std::uint32_t> order(extents_.size());
    std::iota(order.begin(), order.end(), 0u);
    sort_numbers(order, [&](std::uint32_t a, std::uint32_t b) {
      const Extent& x = extents_[a];
      const Extent& y = extents_[b];
      return x.file != y.file ? x.file < y.file : x.offset < y.offset;
    });
    std::vector<Extent> extents;
    std::vector<Member> members;
    for (const std::uint32_t i : order) {
      extents.push_back(extents_[i]);
      members.push_back(members_[i]);
    }
    extents_ = std::move(extents);
    members_ = std::move(members);
  }
  gather_ = Gather(std::move(extents_));
}

Result<void> GroupGather::feed(const Extent& extent, ByteSpan bytes, const Complete& complete) {
  return gather_.feed(extent, bytes, [&](std::size_t i, ByteSpan piece) -> Result<void> {
    if (members_.empty()) return complete(i, piece);
    const Member member = members_[i];
    const auto found = partial_.find(member.group);
    if (found == partial_.end()) return complete(member.group, piece);
    found->second.parts[member.part].assign(piece.begin(), piece.end());
    if (--found->second.missing != 0) return {};
    const Partial whole = std::move(found->second);
    partial_.erase(found);
    std::vector<ByteSpan> layers(whole.parts.begin(), whole.parts.end());
    return complete(member.group, std::span<const ByteSpan>(layers));
  });
}

}  // namespace espalier
