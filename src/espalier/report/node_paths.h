// Makes the key paths of nodes on demand.
#ifndef ESPALIER_REPORT_NODE_PATHS_H_
#define ESPALIER_REPORT_NODE_PATHS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/checkpoint.h"

namespace espalier {

/// Converts node numbers to printed key paths. Listings hold numbers, because the paths of a file
/// of some hundred KiB may take gigabytes. Recurses as deep as the tree, which Limits::depth
/// bounds.
class NodePaths {
 public:
  explicit NodePaths(const Checkpoint& checkpoint);

  /// The path of a node from the root of its tree (state or metadata).
  std::string path(std::uint32_t node) const;
  std::string path(const NodeRef& node) const { return path(node.number()); }
  /// Whether the path of `a` comes before that of `b` in byte order. Both must be nodes of the same
  /// tree.
  bool less(std::uint32_t a, std::uint32_t b) const;

 private:
  KeyView key(std::uint32_t node) const;
  DigitMark mark(std::uint32_t node) const;
  void append(std::string& path, std::uint32_t node) const;

  const Catalog* catalog_;
  std::vector<std::uint32_t> parents_;  // by node; a root is its own parent
};

}  // namespace espalier

#endif  // ESPALIER_REPORT_NODE_PATHS_H_
