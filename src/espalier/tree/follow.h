// Follows typed key paths down a tree.
#ifndef ESPALIER_TREE_FOLLOW_H_
#define ESPALIER_TREE_FOLLOW_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/tree/key_path.h"

namespace espalier {

/// How far a key path leads in a tree.
template <class Node>
struct Way {
  /// The last node on the way.
  Node end;
  /// Its exact keys from the root on.
  KeyPath keys = {};
  /// The key that `end` does not have; nothing if the path leads to a node.
  std::optional<Key> missing = std::nullopt;
};

/// Longer names are not split at their dots: the look-ups grow with the square of the dots, and a
/// link from a stranger may hold any path.
inline constexpr std::size_t kMaxDottedName = 4096;

/// Follows `path` from `root`. An integer key means the child under it, or else under the string of
/// its digits. A string key that is missing and has dots means the names between them: at each
/// level the longest beginning that is a key. `find(node, key)` looks up a child by its exact key,
/// and returns an optional<Node>.
template <class Node, class Find>
Way<Node> follow(Node root, const KeyPath& path, const Find& find) {
  Way<Node> way{root};
  const auto enter = [&](const Key& key) {
    const std::optional<Node> child = find(way.end, key.view());
    if (!child) return false;
    way.end = *child;
    way.keys.push_back(key);
    return true;
  };
  const auto enter_typed = [&](const Key& key) {
    if (enter(key)) return true;
    return key.view().is_int && enter(Key(std::to_string(key.view().integer)));
  };
  const auto enter_name = [&](std::string_view name) {
    const auto integer = read_int_key(name);
    return enter_typed(integer ? Key(*integer) : Key(name));
  };
  for (const Key& key : path) {
    if (enter_typed(key)) continue;
    std::string_view rest = key.view().text;
    std::size_t end = key.view().is_int || rest.size() > kMaxDottedName ? 0 : rest.size();
    for (;;) {
      // No key is entered at `end`: look for a shorter beginning.
      end = end == 0 ? std::string_view::npos : rest.rfind('.', end - 1);
      if (end == std::string_view::npos) {
        const bool is_whole = rest.size() == key.view().text.size();
        way.missing = is_whole ? key : Key(rest);
        return way;
      }
      if (!enter_name(rest.substr(0, end))) continue;
      rest.remove_prefix(end + 1);
      if (enter_name(rest)) break;
      end = rest.size();
    }
  }
  return way;
}

}  // namespace espalier

#endif  // ESPALIER_TREE_FOLLOW_H_
