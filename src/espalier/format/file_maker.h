// Files that a checkpoint has only in another form: compressed, or to be converted.
#ifndef ESPALIER_FORMAT_FILE_MAKER_H_
#define ESPALIER_FORMAT_FILE_MAKER_H_

#include <memory>
#include <span>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/base/extent.h"

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

  /// Whether finish() compares what was made with a checksum.
  virtual bool has_checksum() const { return false; }
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_FILE_MAKER_H_
