// Explains why a key path leads nowhere, and what the user may have meant.
#ifndef ESPALIER_CLI_NEAR_PATH_H_
#define ESPALIER_CLI_NEAR_PATH_H_

#include <optional>
#include <string>

#include "espalier/base/error.h"
#include "espalier/read/checkpoint.h"
#include "espalier/tree/key_path.h"

namespace espalier::cli {

/// The printed path of the node below `root` that `path` was probably meant to name. It corrects
/// misspelt keys, dots instead of slashes and slashes instead of dots, finds names that contain
/// slashes, and a path without its first keys. `root` is the root of the state or of the metadata.
/// The work is bounded, however many children a container has.
std::optional<std::string> near_path(const NodeRef& root, const KeyPath& path);

/// Adds to the message of `error`, which says that no node is at its path, what the user may have
/// meant; says it if the path is a pattern. Returns any other error unchanged.
Error explain_missing(Error error, const NodeRef& root);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_NEAR_PATH_H_
