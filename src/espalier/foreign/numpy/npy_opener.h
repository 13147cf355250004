// Opens a .npy file, NumPy's format for one array, as a checkpoint whose root is a tensor.
#ifndef ESPALIER_FOREIGN_NUMPY_NPY_OPENER_H_
#define ESPALIER_FOREIGN_NUMPY_NPY_OPENER_H_

#include "espalier/foreign/numpy/read_npy_header.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/step_opener.h"

namespace espalier {

/// The machine that opens a .npy file with one request. Errors as of npy_header_bytes() and
/// read_npy_header(); kTruncated or kTrailingBytes if the elements do not end where the file does;
/// kForeignInvalid for an array that cannot be shown, such as one of Python objects.
class NpyOpener final : public StepOpener {
 public:
  explicit NpyOpener(const OpenOptions& options) : StepOpener(options) {}

 private:
  [[nodiscard]] Result<void> step() override;
  [[nodiscard]] Result<Checkpoint> build() override;

  NpyArray array_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_NUMPY_NPY_OPENER_H_
