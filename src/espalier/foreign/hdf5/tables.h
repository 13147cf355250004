// From an HDF5 file to the records of a catalog.
#ifndef ESPALIER_FOREIGN_HDF5_TABLES_H_
#define ESPALIER_FOREIGN_HDF5_TABLES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "espalier/foreign/hdf5/file.h"
#include "espalier/format/file_set.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/limits.h"

namespace espalier {

/// A text that stands beside an HDF5 file, for the metadata.
struct Hdf5Document {
  std::string_view name;
  std::string_view text;
};

/// How the tree is made.
struct Hdf5TreeOptions {
  /// As of OpenOptions.
  bool keeps_keys = false;
  /// The file that the HDF5 file is, or lies in, by number; whether it is made. A maker cannot read
  /// a made file, so arrays in chunks are then placeholders, with a note.
  std::uint16_t file = 0;
  bool is_made = false;
};

/// Makes the tree of `file`, which is read: groups are dicts, arrays are tensors, arrays of texts
/// are lists; and the metadata: `documents`, and then the attributes of each object, by its path.
/// Those files are added to `files` that are made of arrays in chunks. `parts` gets tables, notes,
/// and the first damage as the problem of a file. kLimitExceeded.
[[nodiscard]] Result<void> add_hdf5_tables(const Hdf5File& file,
                                           std::span<const Hdf5Document> documents,
                                           const Hdf5TreeOptions& options, const Limits& limits,
                                           FileSet& files, ForeignParts& parts);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_TABLES_H_
