#include "espalier/notes.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <system_error>

#include "cli/opening/notes.h"
#include "cli/terminal/text.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"
#include "espalier/format/all_notes.h"
#include "espalier/read/missing_tensors.h"
#include "files/open/checkpoint_folder.h"

namespace espalier::cli {
namespace {

constexpr std::size_t kPrintedNotes = 5;

std::string text_of(const Note& note) {
  return (note.path.empty() ? "" : mention_text(note.path) + ": ") +
         escaped(shortened(note.message, kMaxMessageBytes));
}

void print_note(Output& out, const Note& note) {
  const Style style = note.kind == Note::Kind::kWarning ? Style::kPlain : Style::kDamage;
  out.print("  {}: {}\n", out.colors().paint(style, note_kind_name(note.kind)), text_of(note));
}

// What tell_code() told: names of code by file.
std::map<std::string, std::size_t>& told_files() {
  static std::map<std::string, std::size_t> told;
  return told;
}

// The first notes of one kind on the standard error.
void tell(const std::string& file, const Catalog& catalog, Note::Kind kind, std::string_view more) {
  std::size_t told = 0;
  for (const Note& note : all_notes(catalog).listed) {
    if (note.kind != kind) continue;
    if (++told > kPrintedNotes) return print_error(more);
    print_error(fmt::format("{}: {}: {}", escaped(file), note_kind_name(kind), text_of(note)));
  }
}

void write_list(JsonWriter& json, std::span<const Note> notes) {
  json.begin_array();
  for (const Note& note : notes) {
    json.begin_object();
    json.member("kind", note_kind_name(note.kind));
    json.member("path", std::string_view(note.path));
    json.member("message", std::string_view(note.message));
    json.end_object();
  }
  json.end_array();
}

}  // namespace

void print_notes(Output& out, const Catalog& catalog) {
  const AllNotes notes = all_notes(catalog);
  if (notes.count == 0) return;
  const std::size_t printed = std::min(notes.listed.size(), kPrintedNotes);
  out.print("{}{}\n", counted(notes.count, "note"),
            printed < notes.count ? " (--json lists more):" : ":");
  for (const Note& note : std::span(notes.listed).first(printed)) print_note(out, note);
}

void print_code(Output& out, const Catalog& catalog) {
  const auto code = catalog.notes().code();
  if (code.empty()) return;
  for (const Note& note : code.first(std::min(code.size(), kPrintedNotes))) print_note(out, note);
  if (code.size() > kPrintedNotes) {
    out.print("  {} more; --json lists them\n", code.size() - kPrintedNotes);
  }
}

void tell_code(const std::string& file, const Catalog& catalog) {
  // Some commands open a file twice.
  const std::size_t count = catalog.notes().code().size();
  if (count == 0 || !told_files().emplace(file, count).second) return;
  tell(file, catalog, Note::Kind::kCode, "it names more code; `espalier ls --json` lists it");
}

std::size_t told_code(const std::string& file) {
  const auto told = told_files().find(file);
  return told == told_files().end() ? 0 : told->second;
}

void tell_step(const std::string& file) {
  static std::set<std::string> told;
  std::error_code error;
  if (!std::filesystem::is_directory(file, error) || !told.insert(file).second) return;
  const auto opened = file_to_open(file);
  const std::string step = opened ? chosen_step(file, *opened) : "";
  if (step.empty()) return;
  print_error(fmt::format("{}: this is its newest checkpoint, {}", escaped(file), escaped(step)));
}

void tell_losses(const std::string& file, const Catalog& catalog) {
  tell(file, catalog, Note::Kind::kLoss, "more is lost; `espalier ls` lists it");
}

bool lacks_elements(const Checkpoint& checkpoint) { return !missing_tensors(checkpoint).empty(); }

void write_notes(JsonWriter& json, const Catalog& catalog) {
  const AllNotes notes = all_notes(catalog);
  if (notes.count == 0) return;
  json.member("note_count", notes.count);
  json.key("notes");
  write_list(json, notes.listed);
}

void write_code(JsonWriter& json, const Catalog& catalog) {
  if (catalog.notes().code().empty()) return;
  json.key("code");
  write_list(json, catalog.notes().code());
}

}  // namespace espalier::cli
