// Compares the form that the encoder chooses for each chunk with all forms that it could choose.
#include <algorithm>
#include <vector>

#include "command.h"
#include "report.h"
#include "support/chunk_forms.h"
#include <zstd.h>

#include "espalier/checkpoint_file.h"
#include "espalier/codec/chunk_encoder.h"
#include "espalier/format/element_layout.h"
#include "espalier/walker.h"
#include "files/os/parallel.h"

namespace espalier::bench {
namespace {

struct Sizes {
  testing::FormSizes forms;
  std::uint64_t chosen = 0;
};

Result<Sizes> measure(const TensorView& tensor, int level) {
  Sizes sizes;
  ChunkEncoder encoder(level);
  const ElementLayout layout = element_layout(tensor.dtype);
  const auto bytes = tensor.bytes();
  for (ByteSpan rest = bytes; !rest.empty();) {
    const ByteSpan chunk = rest.first(std::min<std::size_t>(rest.size(), kChunkBytes));
    rest = rest.subspan(chunk.size());
    const auto forms = testing::measure_forms(chunk, layout, level);
    if (!forms) return propagate(forms);
    sizes.forms += *forms;
    const auto encoded = encoder.encode(chunk, layout);
    if (!encoded) return propagate(encoded);
    sizes.chosen += encoded->bytes.size();
  }
  return sizes;
}

}  // namespace

void forms(const Options& options) {
  const CheckpointFile file = must(CheckpointFile::open(options.file, {.access = Access::kRead}));
  std::vector<std::string> paths;
  std::vector<TensorView> tensors;
  for (Walker walk(file.state()); walk.next();) {
    const auto tensor = walk.node().tensor();
    if (!tensor) continue;
    paths.emplace_back(walk.path());
    tensors.push_back(must(file.view(*tensor)));
  }
  std::vector<Sizes> sizes(tensors.size());
  must(parallel_for(tensors.size(), options.threads, [&](unsigned, std::size_t i) -> Result<void> {
    auto measured = measure(tensors[i], options.level);
    if (!measured) return propagate(measured);
    sizes[i] = *measured;
    return {};
  }));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Report("forms", options.file)
        .with("tensor", paths[i])
        .with("zstd_version", std::string(ZSTD_versionString()))
        .with("level", options.level)
        .with("raw", sizes[i].forms.raw)
        .with("zstd", sizes[i].forms.zstd)
        .with("planes", sizes[i].forms.planes)
        .with("best", sizes[i].forms.best)
        .with("chosen", sizes[i].chosen)
        .print();
  }
}

}  // namespace espalier::bench
