// What reads the contents of a zip archive: an interface with one implementation for each format
// that uses zip.
#ifndef ESPALIER_FOREIGN_ZIP_CONTENT_READER_H_
#define ESPALIER_FOREIGN_ZIP_CONTENT_READER_H_

#include <memory>

#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/foreign/zip/archive.h"
#include "espalier/foreign/zip/directory.h"
#include "espalier/format/foreign_parts.h"

namespace espalier {

/// Makes a checkpoint of the entries of an archive. Not thread-safe.
class ContentReader {
 public:
  ContentReader() = default;
  ContentReader(const ContentReader&) = delete;
  ContentReader& operator=(const ContentReader&) = delete;
  virtual ~ContentReader() = default;

  /// Looks at what has come and wants more of `archive`; true if nothing more is needed. Runs first
  /// when the directory stands, and again when all that was wanted is there. If it returns false
  /// and wanted nothing, it runs again at once.
  [[nodiscard]] virtual Result<bool> step(ZipArchive& archive) = 0;

  /// Gives format, tables and notes, once, after the last step. Its files are problems of parts of
  /// the archive, in which no tensor lies. The opener adds those of the archive, and `nest`.
  /// Tensors are placed by ZipArchive::place().
  [[nodiscard]] virtual Result<ForeignParts> build(ZipArchive& archive) = 0;
};

/// Chooses the reader for an archive by the names in it. An error for an archive that nothing here
/// can read, saying what it is.
using ChooseContentReader = Result<std::unique_ptr<ContentReader>> (*)(const ZipDirectory&);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ZIP_CONTENT_READER_H_
