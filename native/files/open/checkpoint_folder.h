// Checkpoints that are folders.
#ifndef ESPALIER_FILES_OPEN_CHECKPOINT_FOLDER_H_
#define ESPALIER_FILES_OPEN_CHECKPOINT_FOLDER_H_

#include <filesystem>
#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier {

/// The file of a job that saved with EspalierWriter: it refers to those of the processes.
inline constexpr std::string_view kDistributedRoot = "index.espalier";

/// The file to open for `path`: `path` itself; index.espalier or .metadata in a folder of
/// torch.distributed.checkpoint; the index of a SavedModel, or the one that the text `checkpoint`
/// of TensorFlow names; the file that the others of an Orbax checkpoint are found from, of a folder
/// with its steps that of the newest. kNotARegularFile for a folder with two of torch's, for what a
/// save of Orbax has not finished, and for another folder, saying what it is and what to open if
/// that can be told by the names in it.
[[nodiscard]] Result<std::filesystem::path> file_to_open(const std::filesystem::path& path);

/// The name of the checkpoint that file_to_open(folder) chose among several because it is the
/// newest: "200" or "ckpt-3". Empty if a folder is one checkpoint.
std::string chosen_step(const std::filesystem::path& folder, const std::filesystem::path& opened);

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_CHECKPOINT_FOLDER_H_
