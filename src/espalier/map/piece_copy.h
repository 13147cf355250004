// Copies elements of a source to their places in a target, window by window.
#ifndef ESPALIER_MAP_PIECE_COPY_H_
#define ESPALIER_MAP_PIECE_COPY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/base/function_ref.h"
#include "espalier/bytes.h"
#include "espalier/map/plan.h"

namespace espalier {

/// A piece of a plan in bytes: nested loops around a run of bytes that stand together in source and
/// target. A source is read in chunks and a target is made in panels, so a copy takes the part of
/// the piece that lies in a window of both. Const use is thread-safe.
class PieceCopy {
 public:
  /// `piece` counts elements; `elements` of them take `bytes` bytes, and stay together.
  PieceCopy(const MapPiece& piece, std::uint64_t elements, std::uint64_t bytes);

  /// Bytes from `begin` on, up to `end`.
  struct Window {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  /// The bytes from the first to the last one of the piece, in the target and in the source.
  Window target() const { return {target_begin_, target_end_}; }
  Window source() const { return {source_begin_, source_end_}; }

  /// The stretch of the source that has all that the window of the target needs; empty if that is
  /// nothing. It may be larger than what is needed.
  Window source_for(const Window& target) const;

  /// Whether the window of the target needs any byte of that of the source.
  bool needs(const Window& source, const Window& target) const;

  /// Copies what both windows have. `from` holds the bytes of `source`, and `to` those of `target`.
  void copy(const Window& source, const std::byte* from, const Window& target, std::byte* to) const;

  /// Calls `visit` for every run of target bytes in the window, clipped to it.
  void for_each_run(const Window& target, FunctionRef<void(Window)> visit) const;

  /// Calls `visit` for every run of bytes in the window of the source that the window of the target
  /// needs, in some order that is always the same. Ends, and returns false, once `visit` does.
  bool for_each_source_run(const Window& source, const Window& target,
                           FunctionRef<bool(Window)> visit) const;

 private:
  struct Loop {
    std::uint64_t count = 0;
    std::int64_t from = 0;
    std::int64_t to = 0;  // not negative
  };
  // Where the bytes below a level begin and end, from its own position on.
  struct Reach {
    std::int64_t from_begin = 0;
    std::int64_t from_end = 0;
    std::int64_t to_end = 0;
  };
  struct Copying;
  // The part of a run that is wanted, counted from its first byte.
  struct Bytes {
    std::int64_t begin;
    std::int64_t end;
  };
  struct Steps {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  Steps steps_within(std::size_t level, std::int64_t from, std::int64_t to, const Window& source,
                     const Window& target) const;
  void copy_within(const Copying& copying, std::size_t level, std::int64_t from,
                   std::int64_t to) const;
  void copy_run(const Copying& copying, std::int64_t from, std::int64_t to) const;
  void copy_transposed(const Copying& copying, std::size_t level, std::int64_t from,
                       std::int64_t to) const;
  Steps steps_of_row(const Loop& row, std::int64_t from, std::int64_t to,
                     const Copying& copying) const;
  static Steps within(const Steps& steps, std::int64_t step, std::int64_t begin, std::int64_t end,
                      std::int64_t limit_begin, std::int64_t limit_end);
  bool is_transposed(std::size_t level) const;
  bool visit_source(const Copying& copying, std::size_t level, std::int64_t from, std::int64_t to,
                    FunctionRef<bool(Window)> visit) const;
  Bytes run_within(const Copying& copying, std::int64_t from, std::int64_t to) const;
  bool needs_within(std::size_t level, std::int64_t from, std::int64_t to, const Window& source,
                    const Window& target) const;
  void visit_within(std::size_t level, std::int64_t to, const Window& target,
                    FunctionRef<void(Window)> visit) const;

  std::int64_t from_ = 0;
  std::int64_t to_ = 0;
  std::int64_t run_ = 0;
  std::vector<Loop> loops_;     // outermost first, by falling steps of the target
  std::vector<Reach> reaches_;  // below each loop; the last one is that of the run
  std::uint64_t source_begin_ = 0;
  std::uint64_t source_end_ = 0;
  std::uint64_t target_begin_ = 0;
  std::uint64_t target_end_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_MAP_PIECE_COPY_H_
