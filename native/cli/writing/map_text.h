// What `espalier map` says: its plan, what a tensor is made of, and the ledger.
#ifndef ESPALIER_CLI_WRITING_MAP_TEXT_H_
#define ESPALIER_CLI_WRITING_MAP_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/opening/key_maps.h"
#include "cli/terminal/output.h"
#include "cli/writing/write_result.h"
#include "espalier/error.h"
#include "espalier/mapped_checkpoint.h"
#include "espalier/sink.h"

namespace espalier::cli {

/// Prints the names of the maps of the library, and what they say of themselves.
void print_known_maps(Output& out, bool json);

/// Prints a line for each rule, and totals.
void print_plan(Output& out, const MapStage& stage, bool reverse, std::uint64_t memory);

/// Prints how many tensors were renamed, gathered and computed, and what was lost.
void print_map_summary(Output& out, const MappedCheckpoint& mapped);

/// Prints the name that was taken for OUT and is not read, if there is one.
void print_unread(Output& out, const std::optional<std::string>& unread);

/// Prints the plan as one JSON object, with the files that were `written` and that name, if any.
void print_map_json(Output& out, const MapStage& stage, bool reverse,
                    const std::vector<Written>& written, const std::optional<std::string>& unread);

/// Prints what a target is made of, and that name. kNotFound if the map makes nothing called
/// `name`.
[[nodiscard]] Result<void> print_explanation(Output& out, const MapStage& stage,
                                             const std::string& name,
                                             const std::optional<std::string>& unread, bool json);

/// Writes a line of JSON for each target and each leaf that is dropped, and one with totals; for
/// one map after the other. Commits the sink.
[[nodiscard]] Result<void> write_ledger(Sink& sink, const std::vector<MapStage>& stages);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_WRITING_MAP_TEXT_H_
