// The interface of every opener: a machine that turns the bytes of a file into a checkpoint.
//
//   Opener opener({.file_size = size});
//   while (!opener.needs().empty()) {
//     const Extent extent = opener.needs().front();
//     if (auto ok = opener.feed(extent, read(extent)); !ok) return propagate(ok);
//   }
//   Result<Checkpoint> checkpoint = opener.finish();
//
// A machine whose checkpoint has bytes in several files also names those that it wants() and takes
// an answer() about each.
//
// All machines of the library have this shape: they say what they need, take it in pieces of any
// size and order, and finish. They do no I/O, hold no thread and are not thread-safe themselves.
#ifndef ESPALIER_READ_OPENING_MACHINE_H_
#define ESPALIER_READ_OPENING_MACHINE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "espalier/base/arena.h"
#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/read/wanted_files.h"

namespace espalier {

/// Bytes that an opener asks for first: a typical file's header and index.
inline constexpr std::uint64_t kFirstReadBytes = 64 * 1024;

struct OpenOptions {
  /// Bytes of the file. Required: a file that is longer or shorter than it says is refused.
  std::uint64_t file_size = 0;
  Limits limits = {};
  /// Memory for the index.
  ArenaAllocator allocator = {};
  /// Shows dotted names ("layers.0.weight") as nested dicts: see nest_names(). Tensors and their
  /// bytes stay as they are, and verifying checks the file as it is stored.
  bool nest = false;
  /// The file's own name, without folders. Formats whose further files are named after it need it:
  /// "m-00001-of-00002.gguf". Without it, these are not found, and a note says so. Must outlive the
  /// machine, but AnyOpener copies it.
  std::string_view name = {};
  /// Keys stay as the file has them, where an opener has better ones: those of the layers of Keras.
  /// For one that joins files, and says the better ones then.
  bool keeps_keys = false;
  /// Every read is a request to another machine. Openers then read less, and predict what they
  /// would otherwise look up, where two ways to predict it agree.
  bool is_remote = false;
};

/// Opens files of one format. Not thread-safe.
class OpeningMachine {
 public:
  OpeningMachine() = default;
  OpeningMachine(const OpeningMachine&) = delete;
  OpeningMachine& operator=(const OpeningMachine&) = delete;
  virtual ~OpeningMachine() = default;

  /// The further files that the machine asks for and has no answer about. finish() can be called
  /// when both wants() and needs() are empty. Valid until the next answer() or feed().
  std::span<const WantedFile> wants() const {
    const WantedFiles* files = wanted_files();
    return files == nullptr ? std::span<const WantedFile>() : files->waiting();
  }
  /// Where they are counted; null if there are none. The type is why no machine can want more files
  /// than Limits::files.
  virtual const WantedFiles* wanted_files() const { return nullptr; }
  /// Tells the size of file `number` in bytes, or why it cannot be read: kFileMissing if there is
  /// none. That is no error of the machine: what lies in other files can be opened.
  [[nodiscard]] virtual Result<void> answer(std::uint32_t number,
                                            const Result<std::uint64_t>& size);

  /// The bytes still needed. Valid until the next answer() or feed().
  virtual std::span<const Extent> needs() const = 0;
  /// Takes bytes of a file. Fails as soon as they show that the file is bad, and stays failed.
  [[nodiscard]] virtual Result<void> feed(const Extent& extent, ByteSpan bytes) = 0;
  /// Validates what was fed and gives the checkpoint. kIncomplete if bytes are still needed. Call
  /// once.
  [[nodiscard]] virtual Result<Checkpoint> finish() = 0;
};

}  // namespace espalier

#endif  // ESPALIER_READ_OPENING_MACHINE_H_
