// Files that a checkpoint has only in another form: compressed, or to be converted.
#ifndef ESPALIER_FORMAT_FILE_MAKER_H_
#define ESPALIER_FORMAT_FILE_MAKER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier {

/// Makes the bytes of one file from those of others. Like every machine it does no I/O and is not
/// thread-safe.
class MakingMachine {
 public:
  MakingMachine() = default;
  MakingMachine(const MakingMachine&) = delete;
  MakingMachine& operator=(const MakingMachine&) = delete;
  virtual ~MakingMachine() = default;

  /// The bytes still needed, of files that are not made themselves. Valid until the next feed().
  virtual std::span<const Extent> needs() const = 0;
  /// Takes the bytes at `extent`, the beginning or all of the first of needs().
  [[nodiscard]] virtual Result<void> feed(const Extent& extent, ByteSpan bytes) = 0;
  /// Success once all bytes have been made; kIncomplete before.
  [[nodiscard]] virtual Result<void> finish() = 0;
};

/// The same for a file that is made from its beginning to its end, in parts of any size: who reads
/// it in that order needs no memory for all of it.
class MakingStream {
 public:
  MakingStream() = default;
  MakingStream(const MakingStream&) = delete;
  MakingStream& operator=(const MakingStream&) = delete;
  virtual ~MakingStream() = default;

  /// As of a MakingMachine.
  virtual std::span<const Extent> needs() const = 0;
  /// Makes the next bytes of the file into `out`, as many as it has room for and `bytes` suffice
  /// for; returns how many. `bytes` are the beginning or all of the first of needs(), or none if
  /// there are none; needs() then begin with the first byte that was not used. Uses all if `out`
  /// has room left, or if the file is complete.
  [[nodiscard]] virtual Result<std::size_t> feed(const Extent& extent, ByteSpan bytes,
                                                 MutableByteSpan out) = 0;
  /// Success once all bytes have been made and nothing is needed; kIncomplete before. Compares the
  /// checksum, if there is one.
  [[nodiscard]] virtual Result<void> finish() = 0;
};

/// Knows how to make one file. Immutable; const use is thread-safe. An opener puts it into the
/// FileEntry whose length it knows, and the driver runs it when the first byte is asked for.
class FileMaker {
 public:
  FileMaker() = default;
  FileMaker(const FileMaker&) = delete;
  FileMaker& operator=(const FileMaker&) = delete;
  virtual ~FileMaker() = default;

  /// Starts to make the file into `out`, which has FileEntry::length bytes and outlives the
  /// machine. What the machine makes never depends on anything but the bytes it is fed.
  virtual std::unique_ptr<MakingMachine> start(MutableByteSpan out) const = 0;

  /// Starts to make the file, of `length` bytes, from its beginning to its end. Null if this maker
  /// must have all of it in memory.
  virtual std::unique_ptr<MakingStream> stream(std::uint64_t length) const {
    (void)length;
    return nullptr;
  }

  /// Whether finish() compares what was made with a checksum. Such a maker can stream.
  virtual bool has_checksum() const { return false; }

  /// Whether making the file may find that what it is made of is damaged, by a checksum or as what
  /// does not decompress. Verifying makes such files. Such a maker can stream.
  virtual bool finds_damage() const { return has_checksum(); }
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_FILE_MAKER_H_
