// Makes the elements of an array that do not stand in the file in one piece.
#ifndef ESPALIER_FOREIGN_HDF5_CHUNK_MAKER_H_
#define ESPALIER_FOREIGN_HDF5_CHUNK_MAKER_H_

#include <cstdint>
#include <memory>

#include "espalier/foreign/hdf5/dataset.h"
#include "espalier/foreign/hdf5/reading.h"
#include "espalier/format/file_maker.h"

namespace espalier {

/// Puts the chunks of an array together, undoes their filters, and fills what was never written.
/// The index of the chunks is read now, and not when the file is opened. As a stream, it holds the
/// rows of the array that one row of chunks covers. Errors are those of read_chunk_index(), and
/// kForeignInvalid for a chunk that does not have the bytes that its shape asks for, or does not
/// match its checksum: that of Fletcher-32, or that of zlib.
class Hdf5ChunkMaker final : public FileMaker {
 public:
  /// `dataset` lies in bytes of file `file`, which has `file_bytes`. The index takes at most `most`
  /// bytes.
  Hdf5ChunkMaker(std::shared_ptr<const Hdf5Dataset> dataset, const Hdf5Layout& layout,
                 std::uint32_t file, std::uint64_t file_bytes, std::uint64_t most)
      : dataset_(std::move(dataset)),
        layout_(layout),
        file_(file),
        file_bytes_(file_bytes),
        most_(most) {}

  std::unique_ptr<MakingMachine> start(MutableByteSpan out) const override;
  std::unique_ptr<MakingStream> stream(std::uint64_t length) const override;
  bool has_checksum() const override;

 private:
  std::shared_ptr<const Hdf5Dataset> dataset_;
  Hdf5Layout layout_;
  std::uint32_t file_;
  std::uint64_t file_bytes_;
  std::uint64_t most_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_CHUNK_MAKER_H_
