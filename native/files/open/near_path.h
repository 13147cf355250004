// Finds what a key path that leads nowhere was probably meant to be.
#ifndef ESPALIER_FILES_OPEN_NEAR_PATH_H_
#define ESPALIER_FILES_OPEN_NEAR_PATH_H_

#include <optional>
#include <string>

#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/key_path.h"

namespace espalier {

/// The printed path of the node below `root` that `path` was probably meant to name. It corrects
/// misspelt keys, dots instead of slashes and slashes instead of dots, finds names that contain
/// slashes, and a path without its first keys. `root` is the root of the state or of the metadata.
/// The work is bounded, however many children a container has.
std::optional<std::string> near_path(const NodeRef& root, const KeyPath& path);

/// The printed path of the node of the metadata that `path` leads to. Nothing if `root` is not the
/// root of the state, or if the state has a node at `path`, too.
std::optional<std::string> path_in_metadata(const NodeRef& root, const KeyPath& path);

/// The printed path of a node from the root of its tree, the state or the metadata.
std::string path_from_root(const NodeRef& node);

/// Adds what was probably meant to the message of a kNotFound about a path below `root`, if
/// near_path() knows it. Returns any other error unchanged.
Error with_near_path(Error error, const NodeRef& root);

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_NEAR_PATH_H_
