// Chooses what reads the contents of a zip archive.
#ifndef ESPALIER_FOREIGN_ANY_ARCHIVE_H_
#define ESPALIER_FOREIGN_ANY_ARCHIVE_H_

#include <memory>

#include "espalier/error.h"
#include "espalier/foreign/zip/content_reader.h"
#include "espalier/foreign/zip/directory.h"

namespace espalier {

/// The reader for an archive with these names. kNotACheckpoint, saying what the archive is, if
/// there is none.
[[nodiscard]] Result<std::unique_ptr<ContentReader>> choose_content_reader(
    const ZipDirectory& directory);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ANY_ARCHIVE_H_
