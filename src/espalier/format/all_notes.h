// All that is known to be lost or doubtful in an open checkpoint.
#ifndef ESPALIER_FORMAT_ALL_NOTES_H_
#define ESPALIER_FORMAT_ALL_NOTES_H_

#include <cstdint>
#include <vector>

#include "espalier/detail/catalog.h"
#include "espalier/notes.h"

namespace espalier {

struct AllNotes {
  /// Listed or not.
  std::uint64_t count = 0;
  std::vector<Note> listed;
};

/// The notes of kCode; the files of `catalog` that cannot be read, which the driver noticed; and
/// then the other notes of the opener.
AllNotes all_notes(const Catalog& catalog);

}  // namespace espalier

#endif  // ESPALIER_FORMAT_ALL_NOTES_H_
