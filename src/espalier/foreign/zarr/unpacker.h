// Decodes one stored chunk of zarr as its bytes come.
#ifndef ESPALIER_FOREIGN_ZARR_UNPACKER_H_
#define ESPALIER_FOREIGN_ZARR_UNPACKER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/zarr/array.h"

namespace espalier {

/// Makes the `size` bytes of a chunk of its `stored` ones, in parts of any size. kForeignInvalid
/// for bytes that are damaged, or make more or less. Not thread-safe.
class ZarrUnpacker {
 public:
  struct Progress {
    std::size_t taken = 0;
    std::size_t made = 0;
  };

  ZarrUnpacker(const ZarrGrid& grid, std::uint64_t stored, std::uint64_t size);
  ZarrUnpacker(const ZarrUnpacker&) = delete;
  ZarrUnpacker& operator=(const ZarrUnpacker&) = delete;
  ~ZarrUnpacker();

  /// Takes the next bytes and makes what they suffice for, until either is used up.
  [[nodiscard]] Result<Progress> run(ByteSpan bytes, MutableByteSpan out);
  /// Stored bytes that have not been taken.
  std::uint64_t left() const { return left_; }
  /// Whether all has been made and taken.
  bool is_complete() const { return left_ == 0 && made_ == size_; }
  /// That it is, and that every checksum is right.
  [[nodiscard]] Result<void> finish() const;

 private:
  struct Streams;
  static constexpr std::size_t kCrcBytes = 4;

  [[nodiscard]] Result<Progress> unpack(ByteSpan bytes, MutableByteSpan out);

  const bool has_inner_crc_;
  const bool has_outer_crc_;
  const ZarrPacking packing_;
  std::uint64_t left_;
  const std::uint64_t size_;
  std::uint64_t made_ = 0;
  bool is_packing_over_;
  std::unique_ptr<Streams> streams_;
  std::uint32_t inner_crc_ = 0;  // of what was made
  std::uint32_t outer_crc_ = 0;  // of what was taken
  std::array<std::byte, kCrcBytes> inner_said_{};
  std::array<std::byte, kCrcBytes> outer_said_{};
  std::size_t inner_count_ = 0;  // bytes of the checksums that have come
  std::size_t outer_count_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ZARR_UNPACKER_H_
