// Says what verification found wrong with a file, for the commands that verify.
#ifndef ESPALIER_CLI_OPENING_DAMAGE_H_
#define ESPALIER_CLI_OPENING_DAMAGE_H_

#include <string>

#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"
#include "espalier/checkpoint.h"

namespace espalier::cli {

/// Prints the name of a file that is damaged or incomplete, and the first errors.
void print_damage(Output& out, const std::string& file, const VerifyReport& report);
/// Writes the members `verdict`, `missing` (the names of files), `missing_tensors`, `error_count`
/// and `errors`.
void write_damage(JsonWriter& json, const VerifyReport& report);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_OPENING_DAMAGE_H_
