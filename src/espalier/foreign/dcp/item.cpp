#include "espalier/foreign/dcp/item.h"

#include <algorithm>
#include <utility>

#include "espalier/foreign/torch/archive_reader.h"
#include "espalier/format/access.h"
#include "espalier/notes.h"

namespace espalier {
namespace {

// The pickle of a tensor and what stands before its bytes take less than half of this, and so do
// the entries after them with the directory.
constexpr std::uint64_t kItemEndBytes = 2048;

// The tensor that is all of an item, if it lies in the item's file.
std::optional<DcpTensor> tensor_of(const Checkpoint& item) {
  const auto root = item.state().tensor();
  if (!root || root->is_placeholder() || item.state().label()) return std::nullopt;
  const Tables& t = item.catalog().tables();
  const BlockType block = root->block();
  if (block.elements > 1) return std::nullopt;
  DcpTensor tensor{
      .dtype = root->dtype(), .block = std::string(block.name), .block_bytes = block.bytes};
  tensor.shape.assign(root->shape().begin(), root->shape().end());
  const auto chunks = table_chunks(t, root->number());
  if (!chunks.empty()) {
    if (chunks.front().file != 0) return std::nullopt;
    tensor.offset = chunks.front().offset;
  }
  if (const StorageRecord* const storage = root->storage()) {
    tensor.flags = storage->flags & static_cast<std::uint8_t>(~kStorageStrided);
    if ((storage->flags & kStorageStrided) != 0) {
      const auto strides = t.strides.subspan(storage->first_stride, tensor.shape.size());
      tensor.strides.assign(strides.begin(), strides.end());
      tensor.offset += storage->offset * (dtype_bits(tensor.dtype) / 8);
    }
  }
  return tensor;
}

}  // namespace

DcpItemOpener::DcpItemOpener(const Extent& where, const OpenOptions& options, ZipArchive::Want want)
    : where_(where),
      options_(options),
      want_([this, want = std::move(want)](const Extent& extent, MutableByteSpan to) {
        // An entry without bytes, say: waiting for them would leave the item half open.
        if (extent.length == 0) return;
        has_wanted_ = true;
        want({where_.file, extent.offset, extent.length}, to);
      }),
      files_{{.length = where.offset + where.length, .data_begin = where.offset}} {}

void DcpItemOpener::start() {
  const bool is_small = where_.length <= 2 * kItemEndBytes;
  front_.resize(static_cast<std::size_t>(is_small ? where_.length : kItemEndBytes));
  want_({0, where_.offset, front_.size()}, front_);
  if (is_small) return;
  tail_.resize(kItemEndBytes);
  want_({0, where_.offset + where_.length - kItemEndBytes, kItemEndBytes}, tail_);
}

Result<bool> DcpItemOpener::step() {
  if (!archive_) {
    archive_.emplace(Extent{0, where_.offset, where_.length}, front_, options_, files_, want_,
                     std::move(tail_));
  }
  has_wanted_ = false;
  while (!has_wanted_) {
    auto is_done = go_on();
    if (!is_done || *is_done) return is_done;
  }
  return false;
}

Result<bool> DcpItemOpener::go_on() {
  if (reader_) return reader_->step(*archive_);
  auto is_open = archive_->open();
  if (!is_open || !*is_open) return is_open;
  if (!is_torch_archive(archive_->directory())) {
    return fail(ErrorCode::kForeignInvalid, "it is a zip archive without a data.pkl",
                where_.offset);
  }
  reader_ = make_torch_part_reader(calls_);
  return false;
}

Result<OpenedItem> DcpItemOpener::build() {
  auto parts = reader_->build(*archive_);
  if (!parts) return propagate(parts);
  archive_->add_notes(parts->notes);
  parts->files = std::move(files_);
  OpenedItem item;
  item.calls = std::move(calls_);
  item.checksums = archive_->checksums();
  auto catalog = Catalog::from_foreign(std::move(*parts), options_.limits);
  if (!catalog) return propagate(catalog);
  Checkpoint checkpoint(std::move(*catalog));
  const auto notes = checkpoint.catalog().notes().listed();
  item.notes.assign(notes.begin(), notes.end());
  item.tensor = tensor_of(checkpoint);
  if (!item.tensor) item.checkpoint = std::move(checkpoint);
  return item;
}

}  // namespace espalier
