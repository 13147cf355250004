// Where a save writes to: a file on disk (file_sink.h), memory, or a sink of your own.
//
//   class Upload : public Sink {   // to a store that takes parts of an object in any order
//    public:
//     Result<void> write(std::uint64_t offset, ByteSpan bytes) override;
//     Result<void> commit() override;
//   };
//   Upload upload{...};
//   auto saved = save(upload, state);
#ifndef ESPALIER_SINK_H_
#define ESPALIER_SINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier {

/// Takes the bytes of one file. A save may call share(), then reserve() once, then copy() and
/// write(), then commit() once, and only if all went well: without commit() the file must not count
/// as saved. Errors end the save and are its result; exceptions propagate out of it.
///
/// Writes come at any offset, because a file begins with hashes of what follows: its first bytes,
/// which make it valid, are written last. So a target that can only be appended to, such as a pipe,
/// a socket or standard output, cannot be a sink. Save to memory and send that.
class Sink {
 public:
  virtual ~Sink() = default;

  /// Makes the bytes at `offset` those of `extent` of a file, without copying them: the two files
  /// share their storage. write() does not get this range then. False if that cannot be done, also
  /// in part: write() gets all of the range.
  [[nodiscard]] virtual Result<bool> share(std::uint64_t offset, const ByteSource& source,
                                           const Extent& extent) {
    (void)offset, (void)source, (void)extent;
    return false;
  }

  /// The file will have `length` bytes; 0 if the length is not known yet, because the file is
  /// compressed. Make room here: a save that cannot fit should fail before minutes of work.
  [[nodiscard]] virtual Result<void> reserve(std::uint64_t length) {
    (void)length;
    return {};
  }

  /// Makes the bytes at `offset` those of `extent` of a file, which do not pass through this
  /// process. write() does not get this range then. False if that cannot be done, also in part:
  /// write() gets all of the range. Called like write().
  [[nodiscard]] virtual Result<bool> copy(std::uint64_t offset, const ByteSource& source,
                                          const Extent& extent) {
    (void)offset, (void)source, (void)extent;
    return false;
  }

  /// Puts `bytes`, which are valid during the call only, at `offset`. Ranges never overlap, and
  /// ascend only roughly. Called from several threads at once. Bytes before the last one that are
  /// never written must be zero, as in a new file: they are padding.
  [[nodiscard]] virtual Result<void> write(std::uint64_t offset, ByteSpan bytes) = 0;

  /// All is written. The last byte written is the file's last.
  [[nodiscard]] virtual Result<void> commit() = 0;

 protected:
  Sink() = default;
  Sink(const Sink&) = default;
  Sink& operator=(const Sink&) = default;
};

/// Collects a file in memory. Not for use by two saves.
class MemorySink : public Sink {
 public:
  MemorySink();
  ~MemorySink() override;

  /// kOutOfMemory.
  [[nodiscard]] Result<void> reserve(std::uint64_t length) override;
  [[nodiscard]] Result<void> write(std::uint64_t offset, ByteSpan bytes) override;
  [[nodiscard]] Result<void> commit() override;

  /// The file, once the save is done; empty before.
  std::vector<std::byte> take();

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace espalier

#endif  // ESPALIER_SINK_H_
