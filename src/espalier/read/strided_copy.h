// Copies the selection of a read from stored bytes, which come in pieces, to a packed result.
#ifndef ESPALIER_READ_STRIDED_COPY_H_
#define ESPALIER_READ_STRIDED_COPY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "espalier/bytes.h"

namespace espalier {

/// One axis of a copy: `count` steps, each of `from` units in the source and of `to` units in the
/// result.
struct CopyLoop {
  std::uint64_t count = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

/// A stretch of a result.
struct ResultPart {
  /// Its first byte in the result.
  std::uint64_t begin = 0;
  ByteSpan bytes;
};

/// Nested loops around a run of units that stand together in source and result alike. A unit is a
/// byte, or a bit where a slice cuts within bytes. The result is packed: each of its units is
/// written once. Steps of the source may be 0, and smaller than what they step over. Plain data
/// that knows no checkpoint; const use is thread-safe.
class StridedCopy {
 public:
  StridedCopy() = default;
  /// The run at unit `base` of the source, repeated by `loops`, in any order. No unit of the source
  /// lies at or beyond 2^63, and `unit_bits` is 8 or 1; a copy of bits must be ordered.
  StridedCopy(std::uint32_t unit_bits, std::uint64_t base, std::uint64_t run,
              std::vector<CopyLoop> loops);

  /// The description of the copy, with loops joined where possible.
  std::uint64_t base() const { return base_; }
  std::uint64_t run() const { return run_; }
  std::span<const CopyLoop> loops() const { return loops_; }

  /// Bytes of the result. The bits of the last one that belong to no element are 0.
  std::uint64_t bytes() const;
  /// Whether units follow each other in the result as they do in the source, none twice: so what a
  /// piece of the source gives lies together in the result.
  bool is_ordered() const { return is_ordered_; }
  /// Whether different bytes of the source go to different bytes of the result.
  bool is_bytewise() const { return unit_bits_ == 8; }

  /// Whether the result needs any of the `length` bytes from byte `begin` of the source on.
  bool needs(std::uint64_t begin, std::uint64_t length) const;
  /// Where these bytes stand in the result, if all of them stand there in one piece.
  std::optional<std::uint64_t> landing(std::uint64_t begin, std::uint64_t length) const;

  /// A stretch of the result, in bytes.
  struct Stretch {
    std::uint64_t begin = 0;
    std::uint64_t length = 0;
  };
  /// The stretch that has all of what these bytes give; all of the result if not is_ordered().
  Stretch stretch(std::uint64_t begin, std::uint64_t length) const;

  /// Where the stretch() begins among these bytes, if it stands there in one piece too.
  std::optional<std::uint64_t> offset_in_piece(std::uint64_t begin, std::uint64_t length) const;

  /// Copies the part of `piece` that the result needs; `piece` has the bytes from byte `begin` of
  /// the source on. `out` holds the result from its byte `out_begin` on, and at least the stretch()
  /// of the piece.
  void copy(std::uint64_t begin, ByteSpan piece, MutableByteSpan out,
            std::uint64_t out_begin = 0) const;

  /// The part of the result from `piece` alone: a view of `piece`, or of `scratch`, valid until
  /// either changes. Bits of its first and last byte that come from other pieces are 0.
  ResultPart part(std::uint64_t begin, ByteSpan piece, std::vector<std::byte>& scratch) const;

  /// Clears the bits of the result's last byte that belong to no element. Needed before copies of
  /// bits to memory that may hold anything.
  void clear_end(MutableByteSpan out) const;

 private:
  struct Window;
  std::uint64_t run_begin(std::uint64_t run) const;
  std::uint64_t first_run_ending_after(std::uint64_t unit) const;
  std::uint64_t result_before(std::uint64_t unit) const;
  Window window(std::uint64_t begin, std::uint64_t length) const;
  struct Steps {
    std::uint64_t begin;
    std::uint64_t end;
  };
  Steps steps_within(const Window& window, std::size_t level, std::uint64_t from) const;
  bool any_within(const Window& window, std::size_t level, std::uint64_t from) const;
  void copy_within(const Window& window, std::size_t level, std::uint64_t from,
                   std::uint64_t to) const;
  void copy_run(const Window& window, std::uint64_t from, std::uint64_t to) const;

  std::uint32_t unit_bits_ = 8;
  bool is_ordered_ = true;
  std::uint64_t base_ = 0;
  std::uint64_t run_ = 0;
  std::uint64_t runs_ = 0;
  std::vector<CopyLoop> loops_;         // outermost first, by falling steps in the source
  std::vector<std::uint64_t> extents_;  // units from the first to the last below each loop
};

}  // namespace espalier

#endif  // ESPALIER_READ_STRIDED_COPY_H_
