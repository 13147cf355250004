// Selects nodes by a command's patterns.
#ifndef ESPALIER_CLI_SELECTION_SELECTION_H_
#define ESPALIER_CLI_SELECTION_SELECTION_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/error.h"

namespace espalier::cli {

/// Numbers of the nodes of the state tree that `patterns` select, in the order of the tree: tensors
/// and placeholders, or with `all` also scalars and containers. NodePaths has their paths.
/// kInvalidPattern, or kNotFound for a pattern that no node matches.
[[nodiscard]] Result<std::vector<std::uint32_t>> select_nodes(const CheckpointFile& file,
                                                              std::span<const std::string> patterns,
                                                              bool all);

/// The node that a typed key path means, and its printed path. The error of a path that leads
/// nowhere says what explain_missing() adds.
[[nodiscard]] Result<FoundNode> find_node(const NodeRef& root, const std::string& path);

/// Improves `error` if it says that a pattern matches nothing and the pattern is a plain key path
/// that none of `roots` has: the new error is that of the key path, with what explain_missing()
/// adds. An error about a key path itself gets the same.
Error explain_unmatched(Error error, std::span<const std::string> patterns,
                        std::initializer_list<NodeRef> roots);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_SELECTION_SELECTION_H_
