#include "espalier/format/all_notes.h"

#include <algorithm>

#include "espalier/format/file_set.h"

namespace espalier {

AllNotes all_notes(const Catalog& catalog) {
  AllNotes notes;
  const auto opener = catalog.notes().listed();
  const auto code = catalog.notes().code();
  notes.listed.assign(code.begin(), code.end());
  for (const FileEntry& file : catalog.files()) {
    if (!file.problem) continue;
    // What is wrong with one tensor is a note on it, too.
    const bool is_noted = std::any_of(opener.begin(), opener.end(), [&](const Note& note) {
      return !note.path.empty() && note.path == file.problem->path &&
             note.message == file.problem->message;
    });
    if (!is_noted) notes.listed.push_back({Note::Kind::kLoss, {}, file.problem->describe()});
  }
  notes.count = notes.listed.size() - code.size() + catalog.notes().count();
  const auto others = opener.subspan(code.size());
  notes.listed.insert(notes.listed.end(), others.begin(), others.end());
  return notes;
}

}  // namespace espalier
