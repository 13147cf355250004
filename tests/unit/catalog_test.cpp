#include "espalier/detail/catalog.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "support/memory_file.h"
#include "support/tables_copy.h"
#include <doctest/doctest.h>

#include "espalier/base/arena.h"
#include "espalier/checkpoint.h"
#include "espalier/foreign/safetensors/format.h"
#include "espalier/format/file_set.h"
#include "espalier/format/file_table.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/format/format_info.h"
#include "espalier/format/header.h"
#include "espalier/format/index.h"
#include "espalier/format/owned_tables.h"
#include "espalier/read/fetch.h"
#include "espalier/read/verify.h"
#include "espalier/write/layout.h"

namespace espalier {
namespace {

using Bytes = std::vector<std::byte>;

Result<std::shared_ptr<const Catalog>> from_index(ByteSpan file, const Limits& limits = {}) {
  auto header = decode_header(file, limits, 0);
  REQUIRE(header);
  auto arena = Arena::allocate(header->index_length);
  REQUIRE(arena);
  const auto index = file.subspan(kHeaderBytes, header->index_length);
  std::copy(index.begin(), index.end(), arena->bytes().begin());
  const ByteSpan bytes = std::as_const(*arena).bytes();
  const auto tables = open_index(*header, bytes);
  if (!tables) return propagate(tables);
  REQUIRE(check_file_table(*tables, bytes.data()));
  FileSet files =
      file_set(*tables, {.length = header->file_length, .data_begin = header->index_end()});
  return Catalog::from_index(*header, std::move(*arena), *tables, std::move(files), limits);
}

Value one_tensor() {
  Tensor tensor;
  tensor.dtype = DType::kU8;
  tensor.shape = {4};
  tensor.data = TensorData::owned(testing::bytes_of<char>({'a', 'b', 'c', 'd'}));
  return Value::dict({{"w", Value::tensor(std::move(tensor))}});
}

TEST_CASE("A catalog of an Espalier file knows all but the tensors' bytes") {
  auto file = testing::write_file(one_tensor());
  REQUIRE(file);
  const auto catalog = from_index(*file);
  REQUIRE(catalog);
  CHECK((*catalog)->format() == kEspalierFormat);
  CHECK((*catalog)->format().name == "espalier");
  CHECK((*catalog)->file_length() == file->size());
  CHECK((*catalog)->has_hashes());
  CHECK((*catalog)->tables().tensors.size() == 1);
  // It has its own copy: the file may change, or go.
  std::fill(file->begin(), file->end(), std::byte{0xFF});
  const Checkpoint checkpoint(*catalog);
  CHECK(checkpoint.state().at("w"));
}

TEST_CASE("An index that is not the header's is corrupt, whatever it says") {
  auto file = testing::write_file(one_tensor());
  REQUIRE(file);
  file->at(kHeaderBytes + 60) ^= std::byte{1};
  const auto catalog = from_index(*file);
  REQUIRE_FALSE(catalog);
  CHECK(catalog.error().code == ErrorCode::kIndexCorrupt);
  CHECK(catalog.error().offset == kHeaderBytes);
}

// The tables that an opener of another format would make, for a file that holds "....abcd".
OwnedTables foreign_tables(std::uint64_t offset) {
  const auto layout = lay_out(one_tensor(), Value::dict());
  REQUIRE(layout);
  OwnedTables tables = testing::copy_of(layout->index.tables());
  tables.chunks[0].offset = offset;
  return tables;
}

TEST_CASE("A catalog of a foreign file has no hashes, and is still read") {
  const auto catalog = Catalog::from_foreign({.format = &kSafetensorsFormat,
                                              .tables = foreign_tables(4),
                                              .files = {{.length = 8, .data_begin = 4}}},
                                             Limits());
  REQUIRE(catalog);
  CHECK((*catalog)->format().name == "safetensors");
  CHECK_FALSE((*catalog)->has_hashes());
  CHECK_FALSE((*catalog)->tree_digest());
  const Checkpoint checkpoint(*catalog);
  const TensorRef tensor = *checkpoint.state().at("w")->tensor();
  CHECK_FALSE(tensor.content_hash());
  const Bytes file = testing::bytes_of<char>({'.', '.', '.', '.', 'a', 'b', 'c', 'd'});
  CHECK(testing::read_tensor(file, tensor).value() ==
        testing::bytes_of<char>({'a', 'b', 'c', 'd'}));
  Verify verify(checkpoint);
  CHECK(verify.needs().empty());
  const auto report = verify.finish();
  REQUIRE(report);
  CHECK_FALSE(report->has_hashes);
  CHECK(report->error_count == 0);
}

TEST_CASE("Tables of foreign files are validated too") {
  const auto beyond = Catalog::from_foreign({.format = &kSafetensorsFormat,
                                             .tables = foreign_tables(5),
                                             .files = {{.length = 8, .data_begin = 4}}},
                                            Limits());
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().code == ErrorCode::kChunkInvalid);
  CHECK(beyond.error().path == "w");
}

}  // namespace
}  // namespace espalier
