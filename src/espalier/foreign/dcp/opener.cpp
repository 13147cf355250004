#include "espalier/foreign/dcp/opener.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/release.h"
#include "espalier/foreign/dcp/tree.h"
#include "espalier/format/file_set.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

// Items that are opened at the same time: their ends take 4 KiB each.
constexpr std::size_t kBatchItems = 4096;

Error item_error(std::string_view message, ErrorCode code = ErrorCode::kForeignInvalid) {
  return {code, Error::kNoOffset, {}, message};
}

}  // namespace

DcpOpener::DcpOpener(const OpenOptions& options) : StepOpener(options) {}

Result<void> DcpOpener::step() {
  switch (stage_) {
    case Stage::kFront: {
      const std::uint64_t limit = options().limits.pickle_bytes;
      if (options().file_size > limit) {
        return fail(ErrorCode::kLimitExceeded,
                    "the pickle has " + counted(options().file_size, "byte") +
                        " and Limits::pickle_bytes allows " + std::to_string(limit));
      }
      bytes_.resize(static_cast<std::size_t>(options().file_size));
      std::copy(front().begin(), front().end(), bytes_.begin());
      const auto rest = MutableByteSpan(bytes_).subspan(front().size());
      stage_ = Stage::kMetadata;
      if (rest.empty()) return step();
      want({0, front().size(), rest.size()}, rest);
      return {};
    }
    case Stage::kMetadata:
      stage_ = Stage::kItems;
      if (auto ok = read_metadata(); !ok) return ok;
      return metadata_.files.empty() ? go_on() : Result<void>{};
    case Stage::kItems:
      if (order_.empty()) order_items();
      return go_on();
  }
  return {};
}

Result<void> DcpOpener::read_metadata() {
  auto metadata = read_dcp_metadata(bytes_, options().limits, notes_);
  if (!metadata) return propagate(metadata);
  metadata_ = std::move(*metadata);
  items_.resize(metadata_.items.size());
  return want_files({metadata_.files.begin(), metadata_.files.end()});
}

// Finds the items that can be opened. No two may overlap, so their number is bounded by the files.
void DcpOpener::order_items() {
  const auto add = [&](std::uint32_t number) {
    const DcpItem& item = metadata_.items[number];
    const FileEntry& file = files()[item.file + 1];
    std::optional<Error>& problem = items_[number].problem;
    if (file.problem) {
      problem = file.problem;
    } else if (!item.transform.empty()) {
      problem = item_error(
          "it was written with the extension '" + std::string(item.transform) +
              "', which is not supported; save the checkpoint without extensions where it "
              "was made",
          ErrorCode::kUnsupportedFeature);
    } else if (file.name.ends_with(".safetensors")) {
      problem =
          item_error("it lies in " + file.name + ", which is a file of safetensors; open that",
                     ErrorCode::kUnsupportedFeature);
    } else if (!range_fits(item.offset, item.length, file.length)) {
      problem = item_error("it lies beyond the end of " + file.name + ", which has " +
                           counted(file.length, "byte") + "; copy or download that again");
    } else {
      order_.push_back(number);
    }
  };
  for (const DcpEntry& entry : metadata_.entries) {
    if (entry.item) add(*entry.item);
    for (const DcpBox& box : entry.boxes) {
      const auto sizes = metadata_.sizes(entry, box);
      // Of a part without elements there is nothing to read.
      if (box.item && std::find(sizes.begin(), sizes.end(), 0u) == sizes.end()) add(*box.item);
    }
  }
  const auto place = [&](std::uint32_t number) {
    const DcpItem& item = metadata_.items[number];
    return std::tuple(item.file, item.offset, item.length, number);
  };
  std::sort(order_.begin(), order_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return place(a) < place(b); });
  // The same part of a tensor may be listed twice: it is refused as an overlap of boxes.
  order_.erase(std::unique(order_.begin(), order_.end()), order_.end());
  std::uint32_t file = 0;
  std::uint64_t end = 0;
  std::erase_if(order_, [&](std::uint32_t number) {
    const DcpItem& item = metadata_.items[number];
    if (item.file != file) end = 0;
    file = item.file;
    if (item.offset >= end) {
      end = item.offset + item.length;
      return false;
    }
    items_[number].problem = item_error("it overlaps another item in " + files()[file + 1].name);
    return true;
  });
}

Result<void> DcpOpener::go_on() {
  has_wanted_ = false;
  for (;;) {
    std::vector<Open> rest;
    for (Open& open : open_) {
      auto is_done = go_on_with(open.item, *open.opener);
      if (!is_done) return propagate(is_done);
      if (!*is_done) rest.push_back(std::move(open));
    }
    open_ = std::move(rest);
    if (!open_.empty() || begun_ == order_.size()) return {};
    const std::size_t end = std::min(order_.size(), begun_ + kBatchItems);
    for (; begun_ < end; ++begun_) {
      const DcpItem& item = metadata_.items[order_[begun_]];
      open_.push_back(
          {order_[begun_], std::make_unique<DcpItemOpener>(
                               Extent{item.file + 1, item.offset, item.length}, options(),
                               [this](const Extent& extent, MutableByteSpan to) {
                                 want(extent, to);
                                 has_wanted_ = true;
                               })});
      open_.back().opener->start();
    }
    // Items without bytes want none.
    if (has_wanted_) return {};
  }
}

Result<bool> DcpOpener::go_on_with(std::uint32_t number, DcpItemOpener& opener) {
  auto is_done = opener.step();
  if (is_done && !*is_done) return false;
  auto built = is_done ? opener.build() : Result<OpenedItem>(propagate(is_done));
  if (built) {
    auto& checksums = files()[metadata_.items[number].file + 1].checksums;
    checksums.insert(checksums.end(), built->checksums.begin(), built->checksums.end());
    release_memory(built->checksums);
    items_[number] = std::move(*built);
    return true;
  }
  built.error().file = files()[metadata_.items[number].file + 1].name;
  if (ends_all(built.error().code)) return propagate(built);
  items_[number].problem = std::move(built.error());
  return true;
}

// The first item that is damaged in a file that can be read. As a problem of the checkpoint, it
// makes verification fail, and a conversion of the whole.
std::optional<Error> DcpOpener::find_damage() {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const FileEntry& file = files()[metadata_.items[i].file + 1];
    const std::optional<Error>& problem = items_[i].problem;
    if (!problem || file.problem || problem->code == ErrorCode::kUnsupportedFeature) continue;
    Error damage = *problem;
    damage.message = "an item is lost: " + problem->message;
    damage.file = file.name;
    return damage;
  }
  return std::nullopt;
}

Result<Checkpoint> DcpOpener::build() {
  auto damage = find_damage();
  auto parts = join_dcp(metadata_, items_, std::move(files()), std::move(notes_), options().limits);
  if (!parts) return propagate(parts);
  if (damage) parts->files.push_back({.problem = std::move(damage)});
  parts->nest = options().nest;
  auto catalog = Catalog::from_foreign(std::move(*parts), options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
