#include "notes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text.h"

#include "espalier/base/counted.h"

namespace espalier::cli {
namespace {

constexpr std::size_t kPrintedNotes = 5;

std::string_view kind_text(Note::Kind kind) {
  return kind == Note::Kind::kLoss ? "loss" : "warning";
}

struct AllNotes {
  std::uint64_t count = 0;
  std::vector<Note> listed;
};

// An unreadable file is a loss too; the driver noticed it, not the opener.
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

}  // namespace

void print_notes(Output& out, const Catalog& catalog) {
  const AllNotes notes = all_notes(catalog);
  if (notes.count == 0) return;
  const std::size_t printed = std::min(notes.listed.size(), kPrintedNotes);
  out.print("{}{}\n", counted(notes.count, "note"),
            printed < notes.count ? " (--json lists more):" : ":");
  for (const Note& note : std::span(notes.listed).first(printed)) {
    const Style style = note.kind == Note::Kind::kLoss ? Style::kDamage : Style::kPlain;
    out.print("  {}: {}{}\n", out.colors().paint(style, kind_text(note.kind)),
              note.path.empty() ? "" : mention_text(note.path) + ": ",
              escaped(shortened(note.message, kMaxMessageBytes)));
  }
}

void write_notes(JsonWriter& json, const Catalog& catalog) {
  const AllNotes notes = all_notes(catalog);
  if (notes.count == 0) return;
  json.member("note_count", notes.count);
  json.key("notes");
  json.begin_array();
  for (const Note& note : notes.listed) {
    json.begin_object();
    json.member("kind", kind_text(note.kind));
    json.member("path", std::string_view(note.path));
    json.member("message", std::string_view(note.message));
    json.end_object();
  }
  json.end_array();
}

}  // namespace espalier::cli
