// Which nodes share a tensor.
#ifndef ESPALIER_CLI_TIES_H_
#define ESPALIER_CLI_TIES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "espalier/read/checkpoint.h"

namespace espalier::cli {

/// The tied tensors of a checkpoint: those that more than one node names.
class Ties {
 public:
  explicit Ties(const Checkpoint& checkpoint);

  /// The key paths of all nodes with this tensor, in the order of the tree; empty if there is only
  /// one.
  const std::vector<std::string>& paths(const TensorRef& tensor) const;
  /// The first of these paths in byte order, which tells groups of tied nodes apart whatever the
  /// order of the tree; null if there is only one.
  const std::string* representative(const TensorRef& tensor) const;
  /// The path of the first node with the same tensor; null if the node itself is the first, or is
  /// not tied.
  const std::string* original(const NodeRef& node) const;

 private:
  struct Group {
    std::uint32_t first_node = 0;
    std::vector<std::string> paths;
    std::size_t representative = 0;
  };
  std::unordered_map<std::uint32_t, Group> groups_;  // by tensor number
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TIES_H_
