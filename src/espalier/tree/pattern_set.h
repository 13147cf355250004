// Several patterns at once, as people give them: what they select of a tree.
#ifndef ESPALIER_TREE_PATTERN_SET_H_
#define ESPALIER_TREE_PATTERN_SET_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/tree/pattern.h"

namespace espalier {

/// What some patterns select: each node that one of them matches, and everything below it. No
/// patterns select everything. Remembers which patterns have matched something, so it is not
/// thread-safe.
class PatternSet {
 public:
  /// How things stand at one node of a walk.
  struct Place {
    /// Whether the node, or a container around it, matches.
    bool selected = false;
    /// Whether the node is selected or something below it may be. Otherwise the walk can leave it
    /// out.
    bool alive = false;
    /// One for each pattern.
    std::vector<Pattern::State> states;
  };

  /// Everything.
  PatternSet() = default;

  /// kInvalidPattern says which one is no pattern.
  static Result<PatternSet> parse(std::span<const std::string> texts);

  /// Whether there are no patterns, so that everything is selected.
  bool selects_all() const { return patterns_.empty(); }

  Place start();
  /// Goes from a node to its child of the printed key `segment`. `child` may hold any place, and
  /// keeps its memory; it must not be `parent`.
  void step(const Place& parent, std::string_view segment, Place& child);

  /// Once all of a tree has been walked: kNotFound for the first pattern that matched no node.
  Result<void> check_all_matched() const;

 private:
  void judge(bool inherited, Place& place);

  std::vector<Pattern> patterns_;
  std::vector<std::string> texts_;
  std::vector<bool> matched_;
};

}  // namespace espalier

#endif  // ESPALIER_TREE_PATTERN_SET_H_
