// Tensors of a file that are read when a save asks for them.
#ifndef ESPALIER_FILES_OPEN_LAZY_TENSORS_H_
#define ESPALIER_FILES_OPEN_LAZY_TENSORS_H_

#include <memory>
#include <string>

#include "espalier/checkpoint_file.h"
#include "espalier/error.h"
#include "espalier/value.h"

namespace espalier {

/// What CheckpointFile::data_lazily() gives, for many tensors of one file: they share what each
/// would otherwise have a copy of. A TensorLoader. Thread-safe.
class LazyTensors {
 public:
  /// Errors of reads name the file `name`, by default the path that it was opened from.
  explicit LazyTensors(CheckpointFile file, std::string name = {});

  [[nodiscard]] Result<TensorData> operator()(const TensorRef& tensor) const;

 private:
  struct Opened {
    CheckpointFile file;
    std::string name;
  };
  std::shared_ptr<const Opened> opened_;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_LAZY_TENSORS_H_
