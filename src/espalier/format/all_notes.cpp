#include "espalier/format/all_notes.h"

namespace espalier {

AllNotes all_notes(const Catalog& catalog) {
  AllNotes notes;
  for (const FileEntry& file : catalog.files()) {
    if (file.problem) notes.listed.push_back({Note::Kind::kLoss, {}, file.problem->describe()});
  }
  notes.count = notes.listed.size() + catalog.notes().count();
  const auto opener = catalog.notes().listed();
  notes.listed.insert(notes.listed.end(), opener.begin(), opener.end());
  return notes;
}

}  // namespace espalier
