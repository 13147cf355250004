// Fills a new file from several threads and renames it to its target. Every save uses it.
#ifndef ESPALIER_NATIVE_WRITE_FILE_H_
#define ESPALIER_NATIVE_WRITE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/native/file_sink.h"
#include "espalier/native/save.h"

namespace espalier {

/// The bytes of a part of a file, and its offset.
struct PlacedPiece {
  std::uint64_t offset = 0;
  ByteSpan bytes = {};
};

/// The contents of a new file.
struct FileContents {
  /// Bytes to reserve at once; 0 if the length is known only at the end.
  std::uint64_t reserved_bytes = 0;
  /// The total for progress. The pieces have this many bytes or fewer.
  std::uint64_t total_bytes = 0;
  std::size_t pieces = 0;
  /// Bytes of piece `i`, for progress.
  std::function<std::uint64_t(std::size_t i)> piece_bytes;
  /// Makes piece `i`. Its bytes must stay valid until the next call with the same `worker`. Called
  /// once for each piece, in ascending order, from several threads.
  std::function<Result<PlacedPiece>(unsigned worker, std::size_t i)> make_piece;
  /// Writes the bytes before the pieces, once all pieces are written. Write the bytes that make the
  /// file valid last: an unfinished file must look unfinished.
  std::function<Result<void>(const FileSink& sink)> write_front;
};

/// Writes a file at `path` completely or not at all, as save() promises. It uses `sync`, `replace`,
/// `threads`, `progress` and `ops` of `options`.
[[nodiscard]] Result<void> write_file(const std::filesystem::path& path,
                                      const FileContents& contents, const SaveOptions& options);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_WRITE_FILE_H_
