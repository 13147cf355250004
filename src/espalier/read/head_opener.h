// The common part of openers whose files begin with everything that opening needs.
#ifndef ESPALIER_READ_HEAD_OPENER_H_
#define ESPALIER_READ_HEAD_OPENER_H_

#include <cstdint>
#include <optional>
#include <span>

#include "espalier/base/arena.h"
#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/read/gather.h"
#include "espalier/read/opening_machine.h"

namespace espalier {

/// Opens a file that begins with a few fixed bytes and, after them, a body whose length they tell,
/// such as safetensors' length and JSON. Asks for the first kFirstReadBytes, and then for the rest
/// of the body if it is longer. The body is copied once, into an arena.
class HeadOpener : public OpeningMachine {
 public:
  std::span<const Extent> needs() const final;
  [[nodiscard]] Result<void> feed(const Extent& extent, ByteSpan bytes) final;
  [[nodiscard]] Result<Checkpoint> finish() final;

 protected:
  /// Where the body lies, and how much memory it needs.
  struct Body {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    /// Bytes of the arena; at least `length`. The bytes after the body are not initialised.
    std::uint64_t arena_bytes = 0;
  };

  explicit HeadOpener(const OpenOptions& options);

  const OpenOptions& options() const { return options_; }
  /// For errors that are known before any byte has come, such as an empty file.
  void fail_at_once(Error error) { error_ = std::move(error); }

 private:
  /// Reads the front of the file: all of it, or kFirstReadBytes. The body's offset must lie within
  /// `front`, and the body within the file.
  [[nodiscard]] virtual Result<Body> read_front(ByteSpan front) = 0;
  /// Makes the checkpoint of the complete body.
  [[nodiscard]] virtual Result<Checkpoint> open_body(Arena body) = 0;

  [[nodiscard]] Result<void> take_front(ByteSpan front);

  OpenOptions options_;
  Body body_;
  std::optional<Arena> arena_;
  std::uint64_t in_front_ = 0;  // bytes of the body that came with the front
  bool is_rest_wanted_ = false;
  Gather gather_;
  std::optional<Error> error_;
};

}  // namespace espalier

#endif  // ESPALIER_READ_HEAD_OPENER_H_
