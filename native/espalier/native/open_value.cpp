#include "espalier/native/open_value.h"

#include <algorithm>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "espalier/format/access.h"
#include "espalier/format/catalog.h"
#include "espalier/native/out_of_memory.h"
#include "espalier/write/value_tables.h"

namespace espalier {
namespace {

// The tensors one after the other, each from a multiple of the alignment on, as if they lay in a
// file.
class TensorSource : public Source {
 public:
  struct Placed {
    std::uint64_t begin = 0;
    std::shared_ptr<const Tensor> tensor;
  };

  TensorSource(std::vector<Placed> placed, std::uint64_t size)
      : placed_(std::move(placed)), size_(size) {}

  std::uint64_t size() const override { return size_; }

  // Extents are those of chunks, or parts of them: each lies in one tensor.
  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    const auto out = scratch.first(static_cast<std::size_t>(extent.length));
    if (out.empty()) return ByteSpan(out);
    const auto after =
        std::upper_bound(placed_.begin(), placed_.end(), extent.offset,
                         [](std::uint64_t at, const Placed& placed) { return at < placed.begin; });
    const Placed& placed = *(after - 1);
    if (auto ok = placed.tensor->data.read(extent.offset - placed.begin, out); !ok) {
      return propagate(ok);
    }
    return ByteSpan(out);
  }

 private:
  std::vector<Placed> placed_;
  std::uint64_t size_;
};

// There is nothing to read before the tree is known.
class KnownCheckpoint : public OpeningMachine {
 public:
  explicit KnownCheckpoint(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  std::span<const Extent> needs() const override { return {}; }
  Result<void> feed(const Extent&, ByteSpan) override { return {}; }
  Result<Checkpoint> finish() override { return checkpoint_; }

 private:
  Checkpoint checkpoint_;
};

}  // namespace

Result<CheckpointFile> open_value(const Value& state, const Value& metadata,
                                  const OpenFileOptions& options) try {
  auto made = make_tables(state, metadata, {}, options.limits);
  if (!made) return propagate(made);
  OwnedTables& tables = made->tables;
  tables.chunks.reserve(made->chunk_count);
  std::vector<TensorSource::Placed> placed;
  std::uint64_t end = 0;
  for (std::uint32_t i = 0; i < tables.tensors.size(); ++i) {
    const auto& tensor = made->tensors[i];
    if (tensor->data.is_placeholder()) continue;
    if (tensor->data.is_streamed()) {
      return fail(ErrorCode::kInvalidTree,
                  "a streamed tensor can be read once, and so cannot be opened; save it");
    }
    end = (end + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    const std::uint64_t bytes = table_tensor_bytes(tables.view(), tables.tensors[i]);
    for (std::uint64_t at = 0; at < bytes; at += kChunkBytes) {
      ChunkRecord chunk;
      chunk.offset = end + at;
      chunk.stored = static_cast<std::uint32_t>(std::min(kChunkBytes, bytes - at));
      tables.chunks.push_back(chunk);
    }
    // One without bytes would hide the one that begins where it does.
    if (bytes > 0) placed.push_back({end, tensor});
    end += bytes;
  }
  ForeignParts parts{.format = FileFormat::kValue,
                     .tables = std::move(tables),
                     .files = {{.length = end}},
                     .nest = options.nest};
  auto catalog = Catalog::from_foreign(std::move(parts), options.limits);
  if (!catalog) return propagate(catalog);
  OpenFileOptions own = options;
  own.nest = false;
  return CheckpointFile::open(
      std::make_shared<TensorSource>(std::move(placed), end), own, [&](const OpenOptions&) {
        return std::make_unique<KnownCheckpoint>(Checkpoint(std::move(*catalog)));
      });
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
