// Reads the bytes of files on disk, mapped or not.
#ifndef ESPALIER_NATIVE_SOURCE_H_
#define ESPALIER_NATIVE_SOURCE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/base/extent.h"

namespace espalier {

/// How a file is read. Both give the same bytes and the same errors.
enum class Access : std::uint8_t {
  /// Map it: tensors are used in place. If another program truncates a mapped file, this process
  /// dies with SIGBUS; if it writes to the file, checked bytes change. Use kRead for files that
  /// others may change, and on network file systems.
  kMapped,
  /// Read it into memory: checked bytes stay unchanged, and a truncated file is an error.
  kRead,
};

/// The access pattern of a file's bytes.
enum class ReadPattern : std::uint8_t {
  /// Random access. Reads only the requested bytes from the disk.
  kScattered,
  /// Long sequential reads. The kernel reads ahead in larger requests than prefetch() can, and some
  /// MiB too far.
  kSequential,
};

/// An open regular file, or the several files of a checkpoint. Const use is thread-safe.
class Source {
 public:
  virtual ~Source() = default;

  /// Size of file 0 in bytes when it was opened.
  virtual std::uint64_t size() const = 0;

  /// Returns the bytes of `extent`: a view of the mapping, or of `scratch` (at least extent.length
  /// bytes), where they are read. kFileChanged if the file has become shorter.
  [[nodiscard]] virtual Result<ByteSpan> read(const Extent& extent,
                                              MutableByteSpan scratch) const = 0;

  /// Copies the bytes of `extent` to `out`, which has the same length. Unlike mapped bytes, the
  /// copy cannot change, and it causes no page faults. Errors are those of read().
  [[nodiscard]] virtual Result<void> copy(const Extent& extent, MutableByteSpan out) const = 0;

  /// The whole of file number `file`, if it is mapped; valid as long as the source lives.
  virtual std::optional<ByteSpan> mapping(std::uint32_t file = 0) const {
    (void)file;
    return std::nullopt;
  }

  /// Sets the access pattern; kScattered by default. A hint; never fails.
  virtual void expect(ReadPattern pattern) const = 0;

  /// Starts to read exactly `extent` into the page cache, unless it is there. Does not wait. A
  /// hint; never fails.
  virtual void prefetch(const Extent& extent) const = 0;

  /// Tells that all of `extent` is about to be read. A mapping populates its pages in one call,
  /// which costs a fraction of the page faults. Waits for the disk. A hint; never fails.
  virtual void populate(const Extent& extent) const { (void)extent; }
};

/// Opens `path`, which must be a regular file: kFileNotFound, kNotARegularFile (a FIFO would block
/// for ever, a device has no size), kIoError or kOutOfMemory.
[[nodiscard]] Result<std::shared_ptr<const Source>> open_source(const std::filesystem::path& path,
                                                                Access access = Access::kMapped);

/// Several files as one source: extents of file k are read from `files[k]`. Null means a file that
/// cannot be read: its extents are kFileMissing.
std::shared_ptr<const Source> join_sources(std::vector<std::shared_ptr<const Source>> files);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_SOURCE_H_
