#include <memory>
#include <new>
#include <span>
#include <utility>

#include "espalier/checkpoint_file.h"
#include "espalier/read/opening_machine.h"
#include "espalier/write/value_catalog.h"
#include "files/open/machine_opening.h"
#include "files/os/out_of_memory.h"

namespace espalier {
namespace {

class TensorSource : public Source {
 public:
  explicit TensorSource(ValueCatalog tensors) : tensors_(std::move(tensors)) {}

  std::uint64_t size() const override { return tensors_.size; }

  // Extents are those of chunks, or parts of them: each lies in one tensor.
  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    const auto out = scratch.first(static_cast<std::size_t>(extent.length));
    if (out.empty()) return ByteSpan(out);
    const ValueCatalog::Placed& placed = tensors_.at(extent.offset);
    if (auto ok = placed.tensor->data.read(extent.offset - placed.begin, out); !ok) {
      return propagate(ok);
    }
    return ByteSpan(out);
  }

 private:
  ValueCatalog tensors_;
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
  auto made = make_catalog(state, metadata, options.nest, options.limits);
  if (!made) return propagate(made);
  OpenFileOptions own = options;
  own.nest = false;
  const Checkpoint checkpoint(made->catalog);
  return MachineOpening::open(
      std::make_shared<TensorSource>(std::move(*made)), own,
      [&](const OpenOptions&) { return std::make_unique<KnownCheckpoint>(checkpoint); });
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
