// Opens an Espalier file, whatever its bytes come from.
//
//   Opener opener({.file_size = size});
//   while (!opener.needs().empty()) {
//     const Extent extent = opener.needs().front();
//     if (auto ok = opener.feed(extent, read(extent)); !ok) return ok.error();
//   }
//   Result<Checkpoint> checkpoint = opener.finish();
//
// All machines of the library have this shape: they say what they need, take it in pieces of any
// size and order, and finish. They do no I/O, hold no thread and are not thread-safe themselves.
#ifndef ESPALIER_READ_OPENER_H_
#define ESPALIER_READ_OPENER_H_

#include <cstdint>
#include <optional>
#include <span>

#include "espalier/base/arena.h"
#include "espalier/base/error.h"
#include "espalier/base/extent.h"
#include "espalier/base/limits.h"
#include "espalier/format/header.h"
#include "espalier/read/checkpoint.h"
#include "espalier/read/gather.h"

namespace espalier {

/// Bytes that the opener asks for at first: a typical file's header and index.
inline constexpr std::uint64_t kFirstReadBytes = 64 * 1024;

struct OpenOptions {
  /// Bytes of the file. Needed: a file that is longer or shorter than it says is refused.
  std::uint64_t file_size = 0;
  Limits limits = {};
  /// Memory for the index.
  ArenaAllocator allocator = {};
};

/// The machine that opens an Espalier file: one extent, and a second one if the index is large.
class Opener {
 public:
  explicit Opener(OpenOptions options);

  /// The bytes still needed; empty when finish() can be called. Valid until the next feed().
  std::span<const Extent> needs() const;
  /// Takes bytes of the file. Fails as soon as they show that the file is bad, and stays failed.
  Result<void> feed(const Extent& extent, ByteSpan bytes);
  /// Validates the index and gives the checkpoint. kIncomplete if bytes are still needed. Call
  /// once.
  Result<Checkpoint> finish();

 private:
  Result<void> take_front(ByteSpan bytes);

  OpenOptions options_;
  std::optional<Header> header_;
  std::optional<Arena> index_;
  std::uint64_t in_front_ = 0;  // bytes of the index that came with the header
  bool is_rest_wanted_ = false;
  Gather gather_;
  std::optional<Error> error_;
};

}  // namespace espalier

#endif  // ESPALIER_READ_OPENER_H_
