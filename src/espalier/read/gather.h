// Puts pieces of files together: the common part of the opener, fetch and verify machines.
#ifndef ESPALIER_READ_GATHER_H_
#define ESPALIER_READ_GATHER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier {

/// Long extents are gathered in parts of this size. As one part, what is fed in smaller buffers
/// would be assembled beside its destination first, and so held twice.
inline constexpr std::uint64_t kGatheredPiece = std::uint64_t{1} << 20;

/// Wants a list of extents and takes bytes in pieces of any size and order, until each extent has
/// come together. An extent that arrives in one piece is passed on without a copy. Not thread-safe.
class Gather {
 public:
  /// Takes the complete bytes of extent number `i`, which are valid during the call only.
  using Complete = std::function<Result<void>(std::size_t i, ByteSpan bytes)>;

  Gather() = default;
  /// `wanted` is sorted by file and offset. Extents may overlap: each gets its bytes.
  explicit Gather(std::vector<Extent> wanted);

  /// The bytes still missing, neighbours joined, sorted. Valid until the next feed().
  std::span<const Extent> needs() const { return std::span(needs_).subspan(needs_begin_); }
  bool is_complete() const { return needs().empty(); }

  /// Feeds `bytes`, which lie at `extent`; `extent.length` must be their size. Unneeded bytes, and
  /// bytes fed before, are ignored. Stops at the first error of `complete` and returns it.
  [[nodiscard]] Result<void> feed(const Extent& extent, ByteSpan bytes, const Complete& complete);

 private:
  struct Partial {
    std::vector<std::byte> bytes;
    std::vector<Extent> missing;
  };
  std::size_t first_reached(const Extent& fed) const;
  void remove_from_needs(const Extent& fed);

  std::vector<Extent> wanted_;
  // How far each of wanted_, or any before it in its file, reaches; empty if none overlap.
  std::vector<Extent> reach_;
  std::vector<bool> done_;
  std::vector<std::unique_ptr<Partial>> partial_;  // one for each of wanted_, once any is partial
  // The missing extents, from needs_begin_ on: usually bytes arrive in order, and then nothing
  // moves.
  std::vector<Extent> needs_;
  std::size_t needs_begin_ = 0;
};

/// `feed` with an extent and bytes that do not agree is a driver's mistake; this says so.
[[nodiscard]] Result<void> check_fed(const Extent& extent, ByteSpan bytes);

}  // namespace espalier

#endif  // ESPALIER_READ_GATHER_H_
