// The pieces of an HDF5 file that have come so far, and those that are wanted.
#ifndef ESPALIER_FOREIGN_HDF5_PIECES_H_
#define ESPALIER_FOREIGN_HDF5_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "espalier/base/function_ref.h"
#include "espalier/bytes.h"
#include "espalier/error.h"

namespace espalier {

/// Metadata lie anywhere in the file, and each structure says where the next one is. So readers
/// look structures up here, and what is not there yet is wanted, for all of them at once, in one
/// round. What was found stays where it is. Not thread-safe.
class Hdf5Pieces {
 public:
  /// Of a file with `length` bytes. All pieces together take at most `most` bytes.
  Hdf5Pieces(std::uint64_t length, std::uint64_t most) : length_(length), most_(most) {}

  std::uint64_t length() const { return length_; }

  /// `count` bytes from `offset` on, which must lie in the file; null if they are not there. Then
  /// they are wanted, and with them those that probably follow: `ahead` in all.
  const std::byte* find(std::uint64_t offset, std::uint64_t count, std::uint64_t ahead);

  /// Puts a copy of bytes of the file here that are at hand.
  void add(std::uint64_t offset, ByteSpan bytes);

  /// Hands over what is wanted: memory for each piece, which must be filled before the next call of
  /// find(). Near ones are one piece. kLimitExceeded for more bytes than there may be.
  [[nodiscard]] Result<void> take_wants(
      FunctionRef<void(std::uint64_t offset, MutableByteSpan to)> want);
  bool has_wants() const { return !wants_.empty(); }

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  struct Piece {
    const std::byte* bytes = nullptr;
    std::uint64_t length = 0;
  };
  std::byte* insert(std::uint64_t offset, std::size_t length);

  std::uint64_t length_;
  std::uint64_t most_;
  std::uint64_t taken_ = 0;
  std::map<std::uint64_t, Piece> pieces_;  // by offset; none lies within another
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<Range> wants_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_PIECES_H_
