// The tables of an index, owned: what writers and openers of other formats build.
#ifndef ESPALIER_FORMAT_OWNED_TABLES_H_
#define ESPALIER_FORMAT_OWNED_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/detail/catalog.h"

namespace espalier {

/// The vectors of Tables, owned: built by a writer or an opener of a foreign format.
struct OwnedTables {
  std::vector<NodeRecord> nodes;
  std::vector<TensorRecord> tensors;
  std::vector<ChunkRecord> chunks;
  std::vector<std::uint32_t> shape_ends;
  std::vector<std::uint64_t> dims;
  std::vector<std::uint64_t> words;
  std::vector<std::uint32_t> text_ends;
  std::vector<char> text;
  std::vector<std::byte> bytes;
  std::vector<LabelRecord> labels;
  std::vector<DictOrderRecord> dict_orders;
  std::vector<std::uint32_t> order;
  std::vector<AxesRecord> axes;
  std::vector<std::uint32_t> axis_names;
  std::vector<BlockRecord> blocks;
  std::vector<FileRecord> files = {};
  std::vector<ChunkRecord> bases = {};
  std::vector<StorageRecord> storages = {};
  std::vector<std::uint64_t> strides = {};

  Tables view() const;
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_OWNED_TABLES_H_
