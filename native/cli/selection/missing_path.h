// Explains why a key path leads nowhere, and what the user may have meant.
#ifndef ESPALIER_CLI_SELECTION_MISSING_PATH_H_
#define ESPALIER_CLI_SELECTION_MISSING_PATH_H_

#include <optional>
#include <string>

#include "espalier/checkpoint.h"
#include "espalier/error.h"

namespace espalier::cli {

/// The printed path of the node that `text` means if its "[0]" are read as ".0"; nothing if it has
/// none.
std::optional<std::string> path_with_index(const NodeRef& root, const std::string& text);

/// What to say of a pattern that matches nothing below `root`: the pattern of names with dots or
/// slashes in them that it was probably meant to be; empty if there is none.
std::string near_pattern_hint(const NodeRef& root, const std::string& pattern);

/// Adds to the message of `error`, which says that no node is at its path, what the user may have
/// meant; says it if the path is a pattern, or that of a node of the metadata. Returns any other
/// error unchanged.
Error explain_missing(Error error, const NodeRef& root);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_SELECTION_MISSING_PATH_H_
