// Changes how a checkpoint depends on others, and not what it holds.
#ifndef ESPALIER_FILES_DELTA_REWRITE_REFERENCES_H_
#define ESPALIER_FILES_DELTA_REWRITE_REFERENCES_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "espalier/error.h"
#include "espalier/save_options.h"
#include "espalier/value.h"
#include "espalier/write/references.h"

namespace espalier {

/// The state of `file`, for the functions below: also if files that it refers to are missing, of
/// which a save then asks for nothing. `file` must outlive it.
[[nodiscard]] Result<Value> state_to_rewrite(const CheckpointFile& file);

/// What `file` refers to, for a save of `state`, with at most one patch for each chunk: those that
/// lie one upon the other become one, which the new file has. Differences add up, so no base is
/// read, and whether the result has the right hash is known to whoever reads it with the base.
/// Errors of reading patches.
[[nodiscard]] Result<References> fold_references(const SaveBase& file, const Value& state);

/// What becomes of a chunk that refers to others, if none of these is in the files to rebase onto.
enum class Unfound : std::uint8_t { kKeep, kRefuse };

/// What `file` refers to, for a save of `state`, with every chunk and base that one of `onto` has,
/// by its hash, wherever it is there and however it is stored. What none of them has stays where it
/// is. A base without hashes is read. kFileMissing, with the key path, for a tensor with a chunk
/// that is in none of these files; kBaseMismatch for one that `onto` has nothing of, if `unfound`
/// says so.
[[nodiscard]] Result<References> rebase_references(const SaveBase& file,
                                                   std::span<const SaveBase> onto,
                                                   const Value& state,
                                                   Unfound unfound = Unfound::kKeep);

/// Like save(), against `references` that were found before and not against options.bases.
[[nodiscard]] Result<void> write_with_references(const std::filesystem::path& path,
                                                 const Value& state, const References& references,
                                                 const SaveOptions& options);
/// The same to memory.
[[nodiscard]] Result<std::vector<std::byte>> write_with_references(const Value& state,
                                                                   const References& references,
                                                                   const SaveOptions& options);

}  // namespace espalier

#endif  // ESPALIER_FILES_DELTA_REWRITE_REFERENCES_H_
