// Finds what a key path that leads nowhere was probably meant to be.
#ifndef ESPALIER_READ_NEAR_PATH_H_
#define ESPALIER_READ_NEAR_PATH_H_

#include <optional>
#include <string>

#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/key_path.h"

namespace espalier {

/// The printed path, from `root`, of the node that `path` was probably meant to name. It corrects
/// misspelt keys, dots instead of slashes and slashes instead of dots, finds names that contain
/// slashes, and a path without its first keys. The work is bounded, however many children a
/// container has.
std::optional<std::string> near_path(const NodeRef& root, const KeyPath& path);

/// The printed path of the node of the metadata that `path` leads to. Nothing if `root` is not the
/// root of the state, or if the state has a node at `path`, too.
std::optional<std::string> path_in_metadata(const NodeRef& root, const KeyPath& path);

/// The printed path from `root` to a node below it.
std::string path_below(const NodeRef& root, const NodeRef& node);

/// Adds what was probably meant to the message of a kNotFound about `path` from `root`, if
/// near_path() knows it and the message does not say it yet.
Error with_near_path(Error error, const NodeRef& root, const KeyPath& path);

}  // namespace espalier

#endif  // ESPALIER_READ_NEAR_PATH_H_
