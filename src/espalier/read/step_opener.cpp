#include "espalier/read/step_opener.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "espalier/base/merge_sort.h"

namespace espalier {

StepOpener::StepOpener(const OpenOptions& options)
    : options_(options),
      files_{{.length = options.file_size}},
      front_(static_cast<std::size_t>(std::min(options.file_size, kFirstReadBytes))),
      wanted_files_(options.limits) {
  want({0, 0, front_.size()}, front_);
  begin_gathering();
}

const WantedFiles* StepOpener::wanted_files() const { return error_ ? nullptr : &wanted_files_; }

std::span<const Extent> StepOpener::needs() const {
  return error_ ? std::span<const Extent>() : gather_.needs();
}

void StepOpener::want(const Extent& extent, MutableByteSpan to) {
  for (std::uint64_t at = 0; at < extent.length; at += kGatheredPiece) {
    const std::uint64_t length = std::min(kGatheredPiece, extent.length - at);
    next_.push_back({{extent.file, extent.offset + at, length},
                     to.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(length))});
  }
}

Result<void> StepOpener::want_files(std::vector<std::string> names, FilePlace place) {
  if (auto ok = wanted_files_.want(std::move(names), place); !ok) return ok;
  for (const WantedFile& file : wanted_files_.all().subspan(files_.size() - 1)) {
    files_.push_back({.name = file.name});
  }
  return {};
}

void StepOpener::begin_gathering() {
  std::vector<std::uint32_t> order(next_.size());
  std::iota(order.begin(), order.end(), 0u);
  sort_numbers(order, [this](std::uint32_t a, std::uint32_t b) {
    const Extent& x = next_[a].extent;
    const Extent& y = next_[b].extent;
    return x.file != y.file ? x.file < y.file : x.offset < y.offset;
  });
  std::vector<Extent> extents;
  extents.reserve(order.size());
  wanted_.clear();
  wanted_.reserve(order.size());
  for (const std::uint32_t i : order) {
    wanted_.push_back(next_[i]);
    extents.push_back(next_[i].extent);
  }
  next_.clear();
  gather_ = Gather(std::move(extents));
}

Result<void> StepOpener::go_on() {
  while (gather_.is_complete() && wanted_files_.waiting().empty() && !is_done_) {
    if (auto ok = step(); !ok) {
      error_ = ok.error();
      return ok;
    }
    is_done_ = next_.empty() && wanted_files_.waiting().empty();
    begin_gathering();
  }
  return {};
}

Result<void> StepOpener::answer(std::uint32_t number, const Result<std::uint64_t>& size) {
  if (error_) return tl::unexpected<Error>(*error_);
  if (auto ok = wanted_files_.take_answer(number); !ok) return ok;
  if (size) {
    files_[number].length = *size;
  } else {
    files_[number].problem = size.error();
  }
  return go_on();
}

Result<void> StepOpener::feed(const Extent& extent, ByteSpan bytes) {
  if (error_) return tl::unexpected<Error>(*error_);
  for (;;) {
    auto fed = gather_.feed(extent, bytes, [&](std::size_t i, ByteSpan piece) {
      std::copy(piece.begin(), piece.end(), wanted_[i].to.begin());
      return Result<void>{};
    });
    if (!fed) {
      error_ = fed.error();
      return fed;
    }
    if (!gather_.is_complete() || is_done_) return {};
    if (auto ok = go_on(); !ok) return ok;
    // The same bytes may hold what the next step wants, as when a whole mapped file is fed at once.
    const auto is_in = [&](const Extent& need) {
      return need.file == extent.file && need.offset < extent.offset + extent.length &&
             extent.offset < need.offset + need.length;
    };
    if (std::none_of(needs().begin(), needs().end(), is_in)) return {};
  }
}

Result<Checkpoint> StepOpener::finish() {
  if (error_) return tl::unexpected<Error>(*error_);
  // Nothing is fed of an empty file.
  if (auto ok = go_on(); !ok) return propagate(ok);
  if (!is_done_) return fail(ErrorCode::kIncomplete, "the opener still needs bytes of the file");
  return build();
}

}  // namespace espalier
