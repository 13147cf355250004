#include "notes.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "text.h"

#include "espalier/base/counted.h"
#include "espalier/format/all_notes.h"

namespace espalier::cli {
namespace {

constexpr std::size_t kPrintedNotes = 5;

std::string_view kind_text(Note::Kind kind) {
  return kind == Note::Kind::kLoss ? "loss" : "warning";
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

void tell_losses(const std::string& file, const Catalog& catalog) {
  const AllNotes notes = all_notes(catalog);
  std::size_t told = 0;
  for (const Note& note : notes.listed) {
    if (note.kind != Note::Kind::kLoss) continue;
    if (++told > kPrintedNotes) {
      print_error("more is lost; `espalier ls` lists it");
      return;
    }
    print_error(escaped(file) +
                ": loss: " + (note.path.empty() ? "" : mention_text(note.path) + ": ") +
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
