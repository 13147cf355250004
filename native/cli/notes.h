// Prints the notes on a checkpoint: losses, warnings and missing files.
#ifndef ESPALIER_CLI_NOTES_H_
#define ESPALIER_CLI_NOTES_H_

#include "json_writer.h"
#include "output.h"

#include "espalier/format/catalog.h"

namespace espalier::cli {

/// Prints a line that counts the notes, and the first few of them; nothing if there are none.
void print_notes(Output& out, const Catalog& catalog);

/// Writes the members "note_count" and "notes" with all that the catalog lists; nothing if there
/// are none, so that the output for other checkpoints stays as it is.
void write_notes(JsonWriter& json, const Catalog& catalog);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_NOTES_H_
