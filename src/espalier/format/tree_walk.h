// Brings any tree into the order that a TableBuilder wants.
#ifndef ESPALIER_FORMAT_TREE_WALK_H_
#define ESPALIER_FORMAT_TREE_WALK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/format/table_builder.h"
#include "espalier/key_path.h"
#include "espalier/limits.h"

namespace espalier {

/// Adds a state and its metadata to a builder. `Source` describes the trees:
///
///   using Node = ...;        // cheap to copy
///   using Children = ...;    // movable; size(), node(i), has_keys(), key(i)
///   bool add(TableBuilder&, Node, bool in_metadata);   // the label and the node itself; ok()
///   bool is_container(Node);
///   Children children(Node);  // of a container; keys must stay where they are until finish()
///
/// It keeps the children of the containers above the current node, so a tree too deep for a reader
/// becomes an error and not an overflow of the stack.
template <class Source>
class TreeWalk {
 public:
  using Node = typename Source::Node;
  using Children = typename Source::Children;

  TreeWalk(Source& source, TableBuilder& builder, const Limits& limits)
      : source_(source), builder_(builder), limits_(limits) {}

  /// Adds both trees; false if the builder has failed, and current_path() is that of the node.
  bool run(Node state, Node metadata) {
    for (const Node root : {state, metadata}) {
      if (!source_.add(builder_, root, in_metadata_)) return false;
      in_metadata_ = true;
    }
    for (const auto& [number, root] :
         {std::pair(kStateRoot, state), std::pair(kMetadataRoot, metadata)}) {
      in_metadata_ = number == kMetadataRoot;
      if (!add_children(number, root)) return false;
      while (!levels_.empty()) {
        Level& level = levels_.back();
        if (level.next == level.children.size()) {
          levels_.pop_back();
          continue;
        }
        const std::uint32_t child = level.next++;
        if (!add_children(level.first + child, level.children.node(child))) return false;
      }
    }
    return true;
  }

  /// The printed path of the node that is being added, or of its container while its key is, or of
  /// the container whose children are asked for.
  std::string current_path() const { return path_of(levels_.size()); }
  /// Containers around that node.
  std::size_t depth() const { return levels_.size(); }
  /// The path of the one that had `depth` containers around it.
  std::string path_of(std::size_t depth) const {
    std::string path = in_metadata_ ? "(metadata)" : "";
    for (std::size_t i = 0; i < depth; ++i) {
      const Level& level = levels_[i];
      if (level.next == 0) continue;
      const std::uint32_t position = level.next - 1;
      if (level.children.has_keys()) {
        append_path(path, level.children.key(position),
                    mark_of(level, level.children.key(position)));
      } else {
        append_path(path, KeyView::of(std::int64_t{position}));
      }
    }
    return path;
  }

 private:
  // A container's children during the descent.
  struct Level {
    Children children;
    std::uint32_t first;  // number of the first child
    std::uint32_t next;   // position of the child to descend into next; the current one is before
    // How keys are printed, once one needs it: a file of a million notes must not sort its keys for
    // each.
    mutable std::optional<DigitMarks> marks = std::nullopt;
  };

  static DigitMark mark_of(const Level& level, const KeyView& key) {
    if (key.is_int || !read_int_key(key.text)) return DigitMark::kAlways;
    if (!level.marks) {
      std::vector<std::int64_t> integers;
      for (std::size_t i = 0; i < level.children.size(); ++i) {
        if (const KeyView other = level.children.key(i); other.is_int) {
          integers.push_back(other.integer);
        }
      }
      level.marks.emplace(std::move(integers));
    }
    return level.marks->of(key);
  }

  bool add_children(std::uint32_t number, Node parent) {
    if (!source_.is_container(parent)) return true;
    Children children = source_.children(parent);
    const std::uint32_t first = builder_.node_count();
    if (!builder_.open(number, children.size())) return false;
    if (children.size() == 0) return true;
    if (levels_.size() >= limits_.depth) {
      builder_.refuse("the tree is deeper than the " + counted(limits_.depth, "level") +
                      " that readers accept (Limits::depth)");
      return false;
    }
    levels_.push_back({std::move(children), first, 0, std::nullopt});
    Level& level = levels_.back();
    const bool has_keys = level.children.has_keys();
    for (std::uint32_t i = 0; i < level.children.size(); ++i) {
      level.next = 0;  // for current_path()
      if (has_keys && !builder_.key(level.children.key(i))) return false;
      level.next = i + 1;
      if (!source_.add(builder_, level.children.node(i), in_metadata_)) return false;
    }
    level.next = 0;
    return true;
  }

  Source& source_;
  TableBuilder& builder_;
  const Limits& limits_;
  std::vector<Level> levels_;
  bool in_metadata_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_TREE_WALK_H_
