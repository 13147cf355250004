// Where a checkpoint's bytes come from: files on disk, memory, or a source of your own.
//
//   class Blob : public Source {   // an object in a store, read in parts
//    public:
//     std::uint64_t size() const override { return size_; }
//     Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
//       const auto out = scratch.first(extent.length);
//       if (!get(extent.offset, out)) return fail(ErrorCode::kIoError, "cannot get the object");
//       return ByteSpan(out);
//     }
//   };
//   auto file = CheckpointFile::open(std::make_shared<Blob>(...));
#ifndef ESPALIER_SOURCE_H_
#define ESPALIER_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/file_path.h"

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

/// An open regular file, the several files of a checkpoint, or anything else that holds bytes.
/// Const use is thread-safe, and must be so in a source of your own: reads come from several
/// threads at once. A source of your own needs size() and read(); a checkpoint that is opened from
/// it asks for extents of file 0 alone. Its exceptions propagate out of the call that reads.
class Source : public ByteSource {
 public:
  /// Size of file 0 in bytes when it was opened. Always the same.
  virtual std::uint64_t size() const = 0;

  /// By default it calls read() and copies what is not in `out` yet.
  [[nodiscard]] Result<void> copy(const Extent& extent, MutableByteSpan out) const override;

  /// The whole of file number `file`, if it is mapped or in memory; valid and unchanged as long as
  /// the source lives. Tensors are then used in place: read() of that file returns views of it, and
  /// gets no scratch.
  virtual std::optional<ByteSpan> mapping(std::uint32_t file = 0) const {
    (void)file;
    return std::nullopt;
  }

  /// Sets the access pattern; kScattered by default. A hint; never fails.
  virtual void expect(ReadPattern pattern) const { (void)pattern; }

  /// Tells that one call is about to read this extent, in its order. A hint; never fails.
  virtual void announce(const Extent& all) const { (void)all; }

  /// Starts to read exactly `extent` into the page cache, unless it is there. Does not wait. A
  /// hint; never fails.
  virtual void prefetch(const Extent& extent) const { (void)extent; }

  /// Tells that all of `extent` is about to be read. A mapping populates its pages in one call,
  /// which costs a fraction of the page faults. Waits for the disk. A hint; never fails.
  virtual void populate(const Extent& extent) const { (void)extent; }

  /// Whether every read is a request to another machine. Then open() reads less, and predicts what
  /// it would otherwise look up, where two ways to predict it agree.
  virtual bool is_remote() const { return false; }
};

/// Opens `path`, which must be a regular file: kFileNotFound, kNotARegularFile (a FIFO would block
/// for ever, a device has no size), kIoError or kOutOfMemory.
[[nodiscard]] Result<std::shared_ptr<const Source>> open_source(const FilePath& path,
                                                                Access access = Access::kMapped);

/// A file in memory: `keeper` keeps `bytes` alive; without one, the caller does. They must not
/// change. For tensors that are used in place, align `bytes` as Espalier files align tensors: to 64
/// bytes, or at least to the size of an element.
std::shared_ptr<const Source> memory_source(ByteSpan bytes,
                                            std::shared_ptr<const void> keeper = nullptr);

/// The same for bytes that the source owns. A vector suits tensors of every dtype.
std::shared_ptr<const Source> memory_source(std::vector<std::byte> bytes);

/// Several files as one source: extents of file k are read from `files[k]`. Null means a file that
/// cannot be read: its extents are kFileMissing.
std::shared_ptr<const Source> join_sources(std::vector<std::shared_ptr<const Source>> files);

}  // namespace espalier

#endif  // ESPALIER_SOURCE_H_
