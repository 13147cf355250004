// Prints the notes on a checkpoint: losses, warnings and missing files.
#ifndef ESPALIER_CLI_OPENING_NOTES_H_
#define ESPALIER_CLI_OPENING_NOTES_H_

#include <cstddef>
#include <string>

#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"
#include "espalier/checkpoint.h"
#include "espalier/detail/catalog.h"

namespace espalier::cli {

/// Prints the number of notes and the first few; prints nothing without notes.
void print_notes(Output& out, const Catalog& catalog);

/// Prints only the notes on code.
void print_code(Output& out, const Catalog& catalog);

/// Says on the standard error what loading `file`, a name as shown_name() gives it, with its own
/// program would run. Once for each name.
void tell_code(const std::string& file, const Catalog& catalog);
/// How many names of code tell_code() found in the file of this name; 0 if it was not asked.
std::size_t told_code(const std::string& file);

/// Says on the standard error which checkpoint of the folder `file` was opened, if it was chosen as
/// the newest of several. Once for each name.
void tell_step(const std::string& file);

/// Says on the standard error what `catalog`, which was opened as `file`, lacks. For commands that
/// write all of it to a new file.
void tell_losses(const std::string& file, const Catalog& catalog);

/// Whether tensors of `checkpoint` have no elements because they are in a form that is not read.
bool lacks_elements(const Checkpoint& checkpoint);

/// Writes the members "note_count" and "notes" with all notes of the catalog. Without notes it
/// writes nothing, so the output for other checkpoints is unchanged.
void write_notes(JsonWriter& json, const Catalog& catalog);
/// Writes the member "code" with the notes on code, if there are some.
void write_code(JsonWriter& json, const Catalog& catalog);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_OPENING_NOTES_H_
