// Bytes of files on disk: mapped, or read.
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
  /// Map it: tensors are used in place. Somebody who truncates the file while it is mapped kills
  /// the process with SIGBUS, and somebody who writes to it changes what was checked: use kRead for
  /// files that others may change, and on network file systems.
  kMapped,
  /// Read it into memory: what was checked stays as it is, and a file cut short is an error.
  kRead,
};

/// How the bytes of a file are going to be asked for.
enum class ReadPattern : std::uint8_t {
  /// Here and there. Reads from the disk what is asked for, and nothing else.
  kScattered,
  /// One after the other, for long. The system reads ahead by itself, in larger pieces than
  /// prefetch() can, and some MiB too far.
  kSequential,
};

/// An open regular file, or the several files of a checkpoint. Const use is thread-safe.
class Source {
 public:
  virtual ~Source() = default;

  /// Bytes of file 0 when it was opened.
  virtual std::uint64_t size() const = 0;

  /// The bytes of `extent`: a view of the mapping, or of `scratch` (at least extent.length bytes)
  /// after reading there. kFileChanged if the file has become shorter.
  virtual Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const = 0;

  /// Copies the bytes of `extent` to `out`, which has as many. Unlike those of a mapping, they then
  /// stay as they are, and there is no page fault for them. Errors as of read().
  virtual Result<void> copy(const Extent& extent, MutableByteSpan out) const = 0;

  /// The whole of file number `file`, if it is mapped; valid as long as the source lives.
  virtual std::optional<ByteSpan> mapping(std::uint32_t file = 0) const {
    (void)file;
    return std::nullopt;
  }

  /// Says how bytes are going to be asked for: kScattered until told otherwise. A hint; never
  /// fails.
  virtual void expect(ReadPattern pattern) const = 0;

  /// Starts to bring `extent`, and nothing around it, from the disk into the page cache, unless it
  /// is there. Does not wait for it. A hint; never fails.
  virtual void prefetch(const Extent& extent) const = 0;

  /// Says that all of `extent` is about to be read: a mapping makes its pages accessible in one
  /// call, which costs a fraction of the page faults that it saves. Waits for the disk. A hint;
  /// never fails.
  virtual void populate(const Extent& extent) const { (void)extent; }
};

/// Opens `path`, which must be a regular file: kFileNotFound, kNotARegularFile (a FIFO would block
/// for ever, a device has no size), kIoError or kOutOfMemory.
Result<std::shared_ptr<const Source>> open_source(const std::filesystem::path& path,
                                                  Access access = Access::kMapped);

/// Several files as one source: the extents of file k are those of `files[k]`. Null stands for a
/// file that cannot be read: its extents are kFileMissing.
std::shared_ptr<const Source> join_sources(std::vector<std::shared_ptr<const Source>> files);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_SOURCE_H_
