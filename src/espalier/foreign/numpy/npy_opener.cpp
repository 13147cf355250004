#include "espalier/foreign/numpy/npy_opener.h"

#include <string>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/detail/catalog.h"
#include "espalier/foreign/common/reader_error.h"
#include "espalier/foreign/numpy/format.h"
#include "espalier/foreign/numpy/npy_tensor.h"
#include "espalier/format/foreign_parts.h"

namespace espalier {

Result<void> NpyOpener::step() {
  const std::uint64_t file_bytes = options().file_size;
  const auto bytes = npy_header_bytes(front());
  if (!bytes) return propagate(bytes);
  if (*bytes > file_bytes) {
    return fail(ErrorCode::kTruncated, "the .npy header is cut; copy or download the file again",
                file_bytes);
  }
  auto array = read_npy_header(front().first(static_cast<std::size_t>(*bytes)));
  if (!array) return propagate(array);
  array_ = std::move(*array);
  if (array_.shape.size() > options().limits.rank) {
    return fail(ErrorCode::kLimitExceeded, "the array has " + counted(array_.shape.size(), "axis") +
                                               " and Limits::rank allows " +
                                               std::to_string(options().limits.rank));
  }
  if (array_.has_objects) return {};  // build() says what to do
  const auto data = npy_data_bytes(array_);
  const std::uint64_t room = file_bytes - *bytes;
  if (!data || *data > room) {
    return fail(ErrorCode::kTruncated,
                "the array needs " + (data ? counted(*data, "byte") : "more than 2^63 bytes") +
                    " and the file has " + std::to_string(room) +
                    " after its header; copy or download it again",
                file_bytes);
  }
  if (*data < room) {
    return fail(ErrorCode::kTrailingBytes,
                "the file goes on for " + counted(room - *data, "byte") +
                    " after its array; save several arrays with numpy.savez",
                *bytes + *data);
  }
  return {};
}

Result<Checkpoint> NpyOpener::build() {
  if (!npy_data_bytes(array_)) {
    return fail(ErrorCode::kForeignInvalid, "the array has more than 2^63 elements");
  }
  TableBuilder builder(options().limits);
  auto note = add_npy_tensor(builder, array_, 0, array_.header_bytes);
  if (note && note->kind == Note::Kind::kLoss) {
    return fail(ErrorCode::kForeignInvalid, std::move(note->message), array_.header_bytes);
  }
  builder.container(Kind::kDict);
  builder.open(kMetadataRoot, 0);
  auto tables = builder.finish();
  if (!tables) {
    make_reader_error(tables.error());
    return propagate(tables);
  }
  files()[0].data_begin = array_.header_bytes;
  ForeignParts parts{.format = &kNpyFormat,
                     .tables = std::move(*tables),
                     .files = std::move(files()),
                     .nest = options().nest};
  if (note) parts.notes.add(std::move(*note));
  auto catalog = Catalog::from_foreign(std::move(parts), options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
