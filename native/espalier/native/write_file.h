// Fills a new file from several threads and puts it in its place: what every save does.
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

/// A part of a file, made, and its offset.
struct PlacedPiece {
  std::uint64_t offset = 0;
  ByteSpan bytes = {};
};

/// What a file will hold.
struct FileContents {
  /// Bytes to reserve at once; 0 if the length is known only when all is made.
  std::uint64_t reserved_bytes = 0;
  /// What progress is told as the total. The pieces have as many bytes or fewer.
  std::uint64_t total_bytes = 0;
  std::size_t pieces = 0;
  /// Bytes of piece `i`, for progress.
  std::function<std::uint64_t(std::size_t i)> piece_bytes;
  /// Makes piece `i`. Its bytes must stay valid until the next call for the same `worker`. Called
  /// once for each piece, in ascending order but from several threads.
  std::function<Result<PlacedPiece>(unsigned worker, std::size_t i)> make_piece;
  /// Writes what stands before the pieces, once all are written. What makes the file valid comes
  /// last: an unfinished file must look like one.
  std::function<Result<void>(const FileSink& sink)> write_front;
};

/// Writes a file at `path` completely or not at all, as save() promises. Of `options` it heeds
/// `sync`, `replace`, `threads`, `progress` and `ops`.
Result<void> write_file(const std::filesystem::path& path, const FileContents& contents,
                        const SaveOptions& options);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_WRITE_FILE_H_
