// Reads a tensor whose layout in the file is not its layout in memory.
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include "command.h"
#include "peak_growth.h"
#include "report.h"

#include "espalier/checkpoint_file.h"
#include "espalier/dtype.h"
#include "espalier/foreign/safetensors/format.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/format/owned_tables.h"
#include "espalier/read/opening_machine.h"
#include "files/open/machine_opening.h"

namespace espalier::bench {
namespace {

// Opens a file as the transpose of a square matrix of f32.
class TransposeOpener : public OpeningMachine {
 public:
  explicit TransposeOpener(const OpenOptions& options)
      : file_size_(options.file_size),
        rows_(static_cast<std::uint64_t>(std::sqrt(static_cast<double>(file_size_)) / 2)) {}

  std::span<const Extent> needs() const override { return {}; }
  Result<void> feed(const Extent&, ByteSpan) override { return {}; }

  Result<Checkpoint> finish() override {
    OwnedTables tables;
    tables.nodes = {{.kind = static_cast<std::uint8_t>(Kind::kTensor)},
                    {.kind = static_cast<std::uint8_t>(Kind::kDict), .value = 2}};
    tables.tensors = {{.dtype = static_cast<std::uint8_t>(DType::kF32)}};
    tables.shape_ends = {2};
    tables.dims = {rows_, rows_};
    tables.storages = {{.flags = kStorageStrided, .elements = rows_ * rows_}};
    tables.strides = {1, rows_};
    const std::uint64_t bytes = rows_ * rows_ * 4;
    for (std::uint64_t i = 0; i < chunk_count(bytes); ++i) {
      tables.chunks.push_back({.offset = i * kChunkBytes,
                               .hash = {},
                               .stored = static_cast<std::uint32_t>(chunk_length(bytes, i))});
    }
    auto catalog = Catalog::from_foreign({.format = &kSafetensorsFormat,
                                          .tables = std::move(tables),
                                          .files = {{.length = file_size_}}},
                                         Limits());
    if (!catalog) return propagate(catalog);
    return Checkpoint(std::move(*catalog));
  }

 private:
  std::uint64_t file_size_;
  std::uint64_t rows_;
};

}  // namespace

void transposed(const Options& options) {
  Samples read_ns;
  std::uint64_t bytes = 0, most_kib = 0;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    const CheckpointFile file = must(MachineOpening::open(
        options.file,
        {.access = options.mapped ? Access::kMapped : Access::kRead, .threads = options.threads},
        [](const OpenOptions& open) { return std::make_unique<TransposeOpener>(open); }));
    const PeakGrowth growth;
    auto start = Clock::now();
    const TensorView result = must(file.slice(*file.state().tensor(), {}));
    read_ns.push_back(nanoseconds_since(start));
    bytes = result.bytes().size();
    most_kib = std::max(most_kib, growth.kib() - std::min(growth.kib(), bytes / 1024));
  }
  Report("transposed", options.file)
      .with("threads", options.threads)
      .with("mapped", options.mapped)
      .with("bytes", bytes)
      .with("above_result_kib", most_kib)
      .with("read_ns", read_ns)
      .print();
}

}  // namespace espalier::bench
