#include "espalier/write/value_catalog.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "espalier/format/access.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/format/format_info.h"
#include "espalier/write/value_tables.h"

namespace espalier {

const ValueCatalog::Placed& ValueCatalog::at(std::uint64_t offset) const {
  const auto after =
      std::upper_bound(placed.begin(), placed.end(), offset,
                       [](std::uint64_t at, const Placed& each) { return at < each.begin; });
  return *(after - 1);
}

Result<ValueCatalog> make_catalog(const Value& state, const Value& metadata, bool nest,
                                  const Limits& limits) {
  auto made = make_tables(state, metadata, {}, limits);
  if (!made) return propagate(made);
  OwnedTables& tables = made->tables;
  tables.chunks.reserve(made->chunk_count);
  ValueCatalog result;
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
    if (bytes > 0) result.placed.push_back({end, tensor});
    end += bytes;
  }
  result.size = end;
  ForeignParts parts{.format = &kValueFormat,
                     .tables = std::move(tables),
                     .files = {{.length = end}},
                     .nest = nest};
  auto catalog = Catalog::from_foreign(std::move(parts), limits);
  if (!catalog) return propagate(catalog);
  result.catalog = std::move(*catalog);
  return result;
}

}  // namespace espalier
