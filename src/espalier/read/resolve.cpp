#include "espalier/read/resolve.h"

#include <optional>
#include <string>
#include <utility>

#include "espalier/read/near_path.h"
#include "espalier/tree/follow.h"

namespace espalier {
namespace {

// Goes from `node` to a child.
bool enter(NodeRef& node, const KeyView& key) {
  const auto child = node.find(key);
  if (child) node = *child;
  return child.has_value();
}

// The way of a path from a root as far as it leads.
struct Way {
  Way(const NodeRef& root, const KeyPath& path) : end(root) {
    missing = follow(path, [&](const KeyView& key) {
      if (!enter(end, key)) return false;
      keys.push_back(Key(key));
      return true;
    });
  }

  NodeRef end;
  KeyPath keys;  // of `end`
  std::optional<KeyView> missing;
};

Error not_found(const NodeRef& root, const KeyPath& path, const Way& way) {
  std::string found = printed_path(root, way.keys);
  std::string what = "no such key; " + (found.empty() ? "the root" : "'" + found + "'") + " is a " +
                     std::string(kind_name(way.end.kind()));
  if (is_container(way.end.kind())) {
    what += " of " + std::to_string(way.end.size()) + " without that key";
    const auto twin = way.missing->is_int ? std::nullopt : read_int_key(way.missing->text);
    if (twin && way.end.find(KeyView::of(*twin))) {
      append_path(found, KeyView::of(*twin));
      what += "; did you mean '" + found + "', the int key?";
    }
  } else {
    what += ", which has no children";
  }
  return {ErrorCode::kNotFound, Error::kNoOffset, path.to_string(), std::move(what)};
}

}  // namespace

std::optional<NodeRef> NodeRef::find(const KeyPath& path) const {
  NodeRef node = *this;
  const auto missing = follow(path, [&](const KeyView& key) { return enter(node, key); });
  return missing ? std::nullopt : std::optional(node);
}

Result<NodeRef> NodeRef::at(const KeyPath& path) const {
  const Way way(*this, path);
  if (!way.missing) return way.end;
  return tl::unexpected<Error>(with_near_path(not_found(*this, path, way), *this, path));
}

Result<NodeRef> NodeRef::at(std::string_view text) const {
  auto path = KeyPath::parse(text);
  if (!path) return propagate(path);
  return at(*path);
}

Result<KeyPath> NodeRef::resolve(std::string_view text) const {
  auto keys = resolve_plainly(*this, text);
  // Text that is no key path leads nowhere near.
  if (keys || keys.error().code != ErrorCode::kNotFound) return keys;
  return tl::unexpected<Error>(
      with_near_path(std::move(keys.error()), *this, *KeyPath::parse(text)));
}

Result<KeyPath> resolve_plainly(const NodeRef& root, std::string_view text) {
  auto path = KeyPath::parse(text);
  if (!path) return propagate(path);
  Way way(root, *path);
  if (way.missing) return tl::unexpected<Error>(not_found(root, *path, way));
  return std::move(way.keys);
}

}  // namespace espalier
