// Reads a model of Keras 3: a zip archive with its weights, an HDF5 file, and its configuration.
#ifndef ESPALIER_FOREIGN_HDF5_KERAS_READER_H_
#define ESPALIER_FOREIGN_HDF5_KERAS_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "espalier/foreign/hdf5/file.h"
#include "espalier/foreign/zip/content_reader.h"
#include "espalier/format/foreign_parts.h"

namespace espalier {

/// Whether an archive is a .keras file.
bool is_keras(const ZipDirectory& directory);

/// The state is that of model.weights.h5, whose arrays stand in place if it is stored
/// without compression, as by Keras, and are inflated when they are read if not. config.json and
/// metadata.json are texts in the metadata. A note counts other files.
class KerasReader final : public ContentReader {
 public:
  [[nodiscard]] Result<bool> step(ZipArchive& archive) override;
  [[nodiscard]] Result<ForeignParts> build(ZipArchive& archive) override;

 private:
  struct Document {
    std::uint32_t entry = 0;
    std::size_t ticket = 0;
  };

  [[nodiscard]] Result<void> begin(ZipArchive& archive);

  std::uint32_t weights_ = 0;
  std::size_t weights_ticket_ = 0;  // of its front; if it is deflated, of all of it
  std::vector<Document> documents_;
  bool is_begun_ = false;
  std::unique_ptr<Hdf5File> file_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_KERAS_READER_H_
