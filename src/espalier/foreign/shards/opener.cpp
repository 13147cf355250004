#include "espalier/foreign/shards/opener.h"

#include <algorithm>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/release.h"

namespace espalier {
namespace {

// Extents that are asked for at the same time: more than any driver makes requests for.
constexpr std::size_t kNeedsAtOnce = 256;

std::vector<Extent> pieces_of(std::uint64_t length) {
  std::vector<Extent> pieces;
  for (std::uint64_t at = 0; at < length; at += kGatheredPiece) {
    pieces.push_back({0, at, std::min(kGatheredPiece, length - at)});
  }
  return pieces;
}

}  // namespace

ShardsOpener::ShardsOpener(const OpenOptions& options, MakeMachine make_machine)
    : options_(options), make_machine_(make_machine), wanted_(options.limits) {
  const std::uint64_t limit = options.limits.foreign_header_bytes;
  if (options.file_size > limit) {
    error_ = Error{ErrorCode::kLimitExceeded,
                   0,
                   {},
                   "the index has " + counted(options.file_size, "byte") +
                       " and Limits::foreign_header_bytes allows " + std::to_string(limit)};
    return;
  }
  text_.resize(static_cast<std::size_t>(options.file_size));
  gather_ = Gather(pieces_of(options.file_size));
  needs_.assign(gather_.needs().begin(), gather_.needs().end());
}

const WantedFiles* ShardsOpener::wanted_files() const { return error_ ? nullptr : &wanted_; }

std::span<const Extent> ShardsOpener::needs() const {
  return error_ ? std::span<const Extent>() : std::span(needs_);
}

Result<void> ShardsOpener::fail_with(Error error) {
  error_ = std::move(error);
  return tl::unexpected<Error>(*error_);
}

void ShardsOpener::copy_needs(std::uint32_t shard, std::vector<Extent>& to) const {
  if (machines_[shard] == nullptr) return;
  for (Extent need : machines_[shard]->needs()) {
    need.file = wanted_.all()[shard].number;
    to.push_back(need);
  }
}

// Adds those of further shards.
void ShardsOpener::add_needs() {
  for (; next_ < wanted_.answered() && needs_.size() < kNeedsAtOnce; ++next_) {
    copy_needs(static_cast<std::uint32_t>(next_), needs_);
  }
}

// Puts those of a shard in place of what it needed before. Collecting all anew for each of a
// thousand shards would take the square of their number.
void ShardsOpener::replace_needs(std::uint32_t shard) {
  if (shard >= next_) return;  // They come when it is its turn.
  const std::uint32_t file = wanted_.all()[shard].number;
  const auto is_its = [&](const Extent& need) { return need.file == file; };
  auto at = std::find_if(needs_.begin(), needs_.end(), is_its);
  at = needs_.erase(at, std::find_if_not(at, needs_.end(), is_its));
  std::vector<Extent> its;
  copy_needs(shard, its);
  needs_.insert(at, its.begin(), its.end());
}

Result<void> ShardsOpener::feed(const Extent& extent, ByteSpan bytes) {
  if (error_) return tl::unexpected<Error>(*error_);
  if (auto ok = check_fed(extent, bytes); !ok) return ok;
  Result<void> fed;
  if (extent.file > 0) {
    const std::uint32_t shard = extent.file - 1;
    if (shard >= machines_.size() || machines_[shard] == nullptr) return {};
    fed = go_on(shard, machines_[shard]->feed({0, extent.offset, extent.length}, bytes));
    replace_needs(shard);
  } else if (!index_) {
    fed = gather_.feed(extent, bytes, [&](std::size_t i, ByteSpan piece) {
      std::copy(piece.begin(), piece.end(),
                reinterpret_cast<std::byte*>(text_.data()) + i * kGatheredPiece);
      return Result<void>{};
    });
    needs_.assign(gather_.needs().begin(), gather_.needs().end());
    if (fed && gather_.is_complete()) fed = read_index();
  }
  if (!fed) return fail_with(fed.error());
  add_needs();
  return {};
}

Result<void> ShardsOpener::read_index() {
  auto index = parse_shard_index(text_, options_.limits);
  if (!index) return propagate(index);
  index_ = std::move(*index);
  release_memory(text_);
  shards_.resize(index_->files.size());
  machines_.resize(shards_.size());
  return wanted_.want({index_->files.begin(), index_->files.end()});
}

Result<void> ShardsOpener::answer(std::uint32_t number, const Result<std::uint64_t>& size) {
  if (error_) return tl::unexpected<Error>(*error_);
  const auto shard = static_cast<std::uint32_t>(wanted_.answered());
  if (auto ok = wanted_.take_answer(number); !ok) return ok;
  Result<void> ok;
  if (size) {
    shards_[shard].length = *size;
    // Names are nested in the joined tree, if at all.
    OpenOptions options = options_;
    options.file_size = *size;
    options.nest = false;
    options.name = index_->files[shard];
    // Only all files together say what the layers are called.
    options.keeps_keys = index_->are_groups;
    machines_[shard] = make_machine_(options);
    ok = go_on(shard, {});
  } else {
    ok = give_up(shard, size.error());
  }
  if (!ok) return fail_with(ok.error());
  add_needs();
  return {};
}

// Finishes a shard's machine when it needs no more.
Result<void> ShardsOpener::go_on(std::uint32_t shard, Result<void> fed) {
  if (!fed) return give_up(shard, std::move(fed).error());
  OpeningMachine& machine = *machines_[shard];
  // Otherwise an index could name a second index, and that one a third.
  if (!machine.wants().empty()) {
    return give_up(shard, {ErrorCode::kForeignInvalid,
                           Error::kNoOffset,
                           {},
                           "the file names further files; a part of a sharded model must not"});
  }
  if (!machine.needs().empty()) return {};
  auto checkpoint = machine.finish();
  if (!checkpoint) return give_up(shard, std::move(checkpoint).error());
  if (auto defect = defect_of_shard(*checkpoint)) return give_up(shard, std::move(*defect));
  machines_[shard] = nullptr;
  shards_[shard].checkpoint = std::move(*checkpoint);
  return {};
}

Result<void> ShardsOpener::give_up(std::uint32_t shard, Error error) {
  machines_[shard] = nullptr;
  error.file = wanted_.all()[shard].name;
  if (ends_all(error.code)) return tl::unexpected<Error>(std::move(error));
  shards_[shard].problem = std::move(error);
  return {};
}

Result<Checkpoint> ShardsOpener::finish() {
  if (error_) return tl::unexpected<Error>(*error_);
  if (!index_ || !wants().empty() || !needs().empty()) {
    return fail(ErrorCode::kIncomplete, "the opener still needs bytes of the files");
  }
  auto parts = join_shards(*index_, options_.file_size, shards_, options_.limits);
  if (!parts) return propagate(parts);
  parts->nest = options_.nest;
  auto catalog = Catalog::from_foreign(std::move(*parts), options_.limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
