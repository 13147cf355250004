// The checkpoints of a folder that `view` serves, also those that are written while it serves.
#ifndef ESPALIER_CLI_VIEW_SERVED_FOLDER_H_
#define ESPALIER_CLI_VIEW_SERVED_FOLDER_H_

#include <filesystem>

#include "serve/site.h"

namespace espalier::cli {

/// Whether `folder` is a folder with files that have names of checkpoints, in it or in the folders
/// in it. A folder that is one checkpoint, such as those of torch.distributed.checkpoint and of
/// models in several files, is none.
bool is_folder_of_checkpoints(const std::filesystem::path& folder);

/// Adds "files.json" to `site`: the list of the folder's files by path, size and time of the last
/// write. Each request for it looks into the folder again and adds the files to `site`, which must
/// outlive it; each request for a file opens it. Symbolic links are left out, because they may lead
/// anywhere, and so are names that begin with a dot, but for .metadata. At most 10,000 files, two
/// folders deep.
void add_live_folder(serve::Site& site, const std::filesystem::path& folder);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_VIEW_SERVED_FOLDER_H_
