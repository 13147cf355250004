// From a graph of objects, or names alone, to a tree.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_OBJECT_TREE_H_
#define ESPALIER_FOREIGN_TENSORFLOW_OBJECT_TREE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/foreign/tensorflow/bundle.h"
#include "espalier/foreign/tensorflow/object_graph.h"
#include "espalier/limits.h"
#include "espalier/notes.h"

namespace espalier {

/// A tree whose leaves are the entries of a bundle. An entry may be at several places.
struct ObjectTree {
  struct Child {
    enum class Type : std::uint8_t {
      kBranch,
      kEntry,
      /// The branch `number`, which stands elsewhere.
      kElsewhere,
    };
    std::string_view name;
    Type type = Type::kEntry;
    std::uint32_t number = 0;
  };
  struct Branch {
    std::uint32_t parent = 0;  // of the root, itself
    std::string_view name;
    std::uint32_t depth = 0;
    std::vector<Child> children = {};
  };
  struct Name {
    std::uint32_t branch = 0;  // where it belongs, or the parent of the variable
    std::string_view child;    // the variable; empty for the branch itself
    std::string_view text;
  };
  /// The first one is the root.
  std::vector<Branch> branches;
  /// What variables were called, and by which objects save themselves.
  std::vector<Name> full_names;
  std::vector<Name> savers;
  /// Names that are none of the file's.
  std::deque<std::string> made_names;

  /// The printed key path of a branch, or of `child` in it.
  std::string path_of(std::uint32_t branch, std::optional<std::string_view> child = {}) const;
};

/// Walks the graph from its root, breadth first: each object stands where it is reached first.
/// kForeignInvalid if an object has two children of one name; kLimitExceeded if it is deeper than
/// `limits.depth`. What the graph has no place for is in `unclaimed`.
[[nodiscard]] Result<ObjectTree> make_object_tree(const Bundle& bundle, const ObjectGraph& graph,
                                                  const Limits& limits, Notes& notes);

/// Without a graph: one dict of all names.
ObjectTree make_flat_tree(const Bundle& bundle);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_OBJECT_TREE_H_
