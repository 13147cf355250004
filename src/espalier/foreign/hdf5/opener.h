// Opens an HDF5 file, as h5py and Keras write, as a checkpoint.
//
// Groups are dicts, and arrays tensors; attributes are metadata. docs/formats.md says what becomes
// a note and what is refused.
#ifndef ESPALIER_FOREIGN_HDF5_OPENER_H_
#define ESPALIER_FOREIGN_HDF5_OPENER_H_

#include <cstdint>

#include "espalier/bytes.h"
#include "espalier/foreign/hdf5/file.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/step_opener.h"

namespace espalier {

/// Whether `front` begins as an HDF5 file does, or has its signature behind a user block.
bool looks_like_hdf5(ByteSpan front, std::uint64_t file_size);

/// The machine that opens an HDF5 file. It reads the structures in rounds, those of one level of
/// groups at a time.
class Hdf5Opener final : public StepOpener {
 public:
  explicit Hdf5Opener(const OpenOptions& options);

 private:
  [[nodiscard]] Result<void> step() override;
  [[nodiscard]] Result<Checkpoint> build() override;

  bool has_front_ = false;
  Hdf5File file_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_OPENER_H_
