// Fills a new file from several threads. Every save uses it.
#ifndef ESPALIER_FILES_SAVE_WRITE_FILE_H_
#define ESPALIER_FILES_SAVE_WRITE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/save.h"
#include "espalier/sink.h"
#include "espalier/source.h"

namespace espalier {

/// The contents of a new file: its front, and pieces that threads make independently. A worker
/// number identifies a thread and its buffers.
class FileContents {
 public:
  FileContents() = default;
  FileContents(const FileContents&) = delete;
  FileContents& operator=(const FileContents&) = delete;
  virtual ~FileContents() = default;

  /// Bytes to reserve at once; 0 if the length is known only at the end.
  virtual std::uint64_t reserved_bytes() const = 0;
  /// The total for progress. The pieces have this many bytes or fewer.
  virtual std::uint64_t total_bytes() const = 0;
  /// The most memory that one worker's buffers take.
  virtual std::uint64_t worker_bytes() const = 0;

  virtual std::size_t pieces() const = 0;
  /// Bytes of piece `i`, for progress.
  virtual std::uint64_t piece_bytes(std::size_t i) const = 0;

  /// Whether tensors of piece `i` must be read in order.
  virtual bool is_streamed(std::size_t i) const = 0;
  /// Reads them. Called for each such piece in ascending order, one at a time, before make().
  [[nodiscard]] virtual Result<void> read(unsigned worker, std::size_t i) = 0;
  /// Bytes in another file.
  struct StoredBytes {
    const ByteSource* source = nullptr;
    Extent extent;
  };
  /// Where piece `i` stands in another file as it is to be written, if its offset in the new one is
  /// known; nothing if it must be made. Called before read() and make(), which do not follow for a
  /// piece that can be shared or copied.
  virtual std::optional<StoredBytes> stored(std::size_t i) {
    (void)i;
    return std::nullopt;
  }
  /// Makes piece `i`. Its bytes must stay valid until the next call with the same `worker`. Called
  /// once for each piece, begun in ascending order, from several threads.
  [[nodiscard]] virtual Result<ByteSpan> make(unsigned worker, std::size_t i) = 0;

  /// Whether the offset of a piece depends on those before it.
  virtual bool is_placed_in_order() const = 0;
  /// The offset of piece `i`, which has been made or is stored(). Called in order, one at a time,
  /// if it must be.
  virtual std::uint64_t place(std::size_t i) = 0;

  /// Writes the bytes before the pieces, once all pieces are written. Writes those that make the
  /// file valid last: an unfinished file must look unfinished.
  [[nodiscard]] virtual Result<void> write_front(Sink& sink) = 0;
};

/// Writes a file at `path` completely or not at all, as save() promises. It uses `sync`, `replace`,
/// `threads`, `memory_bytes`, `progress`, `cancel` and `ops` of `options`.
[[nodiscard]] Result<void> write_file(const std::filesystem::path& path, FileContents& contents,
                                      const SaveOptions& options);

/// The same to a sink; without `sync`, `replace` and `ops`.
[[nodiscard]] Result<void> write_file(Sink& sink, FileContents& contents,
                                      const SaveOptions& options);

}  // namespace espalier

#endif  // ESPALIER_FILES_SAVE_WRITE_FILE_H_
