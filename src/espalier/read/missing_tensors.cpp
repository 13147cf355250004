#include "espalier/read/missing_tensors.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "espalier/format/file_set.h"
#include "espalier/key_path.h"
#include "espalier/notes.h"

namespace espalier {

std::vector<Error> missing_tensors(const Checkpoint& checkpoint) {
  const Catalog& catalog = checkpoint.catalog();
  std::vector<std::string_view> damages;
  for (const FileEntry& file : catalog.files()) {
    if (file.problem) damages.push_back(file.problem->message);
  }
  std::vector<Error> missing;
  for (const Note& note : catalog.notes().listed()) {
    const bool is_loss = note.kind != Note::Kind::kWarning;  // code would make an array of objects
    if (!is_loss || note.path.empty()) continue;
    const bool is_damaged = std::any_of(
        damages.begin(), damages.end(),
        [&](std::string_view damage) { return std::string_view(note.message).ends_with(damage); });
    if (is_damaged) continue;
    const auto path = KeyPath::parse(note.path);
    const auto node = path ? checkpoint.state().find(*path) : std::nullopt;
    if (!node || node->kind() != Kind::kPlaceholder) continue;
    missing.push_back({ErrorCode::kElementsMissing, Error::kNoOffset, note.path, note.message});
  }
  return missing;
}

void add_missing_tensors(const Checkpoint& checkpoint, VerifyReport& report) {
  std::vector<Error> missing = missing_tensors(checkpoint);
  report.missing_tensors = missing.size();
  report.error_count += missing.size();
  const std::size_t files =
      std::min<std::size_t>(report.errors.size(), static_cast<std::size_t>(report.missing_files));
  report.errors.insert(report.errors.begin() + static_cast<std::ptrdiff_t>(files),
                       std::make_move_iterator(missing.begin()),
                       std::make_move_iterator(missing.end()));
}

}  // namespace espalier
