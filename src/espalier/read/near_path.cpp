#include "espalier/read/near_path.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/escaped.h"
#include "espalier/base/near_miss.h"
#include "espalier/format/find_path.h"
#include "espalier/pattern.h"
#include "espalier/read/match.h"
#include "espalier/read/pattern_stepper.h"

namespace espalier {
namespace {

// A file may have a million keys in one dict, and keys of 16 KiB. These take some 50 ms together.
constexpr std::uint64_t kMaxWork = 16'000'000;  // compared pairs of letters
constexpr std::uint32_t kMaxChildren = 500'000;
constexpr std::size_t kMaxKeyBytes = 200;
// Keys of a path are joined in all ways.
constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::size_t kMaxNodes = 4'000'000;
constexpr int kMaxLookups = 10'000;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string text_of(const KeyView& key) {
  return key.is_int ? std::to_string(key.integer) : std::string(key.text);
}

// The child that a segment of a path leads to.
std::optional<NodeRef> child_of(const NodeRef& node, std::string_view text) {
  const auto integer = read_int_key(text);
  return node.find(KeyPath{integer ? Key(*integer) : Key(text)});
}

std::string join(std::span<const std::string> keys, char between) {
  std::string joined = keys.front();
  for (const std::string& key : keys.subspan(1)) joined += between + key;
  return joined;
}

// The node that `keys` lead to if slashes between them are part of names, as in those of Flax, JAX
// and TensorFlow. `lookups` are those left: a file may have keys that fit a path in 2^n ways.
std::optional<NodeRef> with_slashes(const NodeRef& node, std::span<const std::string> keys,
                                    int& lookups) {
  if (keys.empty()) return node;
  for (std::size_t count = keys.size(); count > 0 && lookups-- > 0; --count) {
    const auto next = child_of(node, join(keys.first(count), '/'));
    if (!next) continue;
    if (const auto found = with_slashes(*next, keys.subspan(count), lookups)) return found;
  }
  return std::nullopt;
}

class Search {
 public:
  // The node that `keys` were probably meant to lead to from `node`; the deepest that was found, if
  // the rest is like nothing. Nothing if not even the first key is like one that exists.
  std::optional<NodeRef> find(const NodeRef& node, std::span<const std::string> keys) {
    NodeRef at = node;
    bool is_found = false;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto rest = keys.subspan(i);
      if (const auto joined = child_of(at, join(rest, '.'))) return joined;
      auto next = child_of(at, keys[i]);
      if (!next && rest.size() > 1) {
        if (const auto joined = most_like(at, join(rest, '/'))) return joined;
      }
      if (!next) next = most_like(at, keys[i]);
      if (!next) break;
      at = *next;
      is_found = true;
    }
    return is_found ? std::optional(at) : std::nullopt;
  }

 private:
  std::optional<NodeRef> most_like(const NodeRef& node, const std::string& key) {
    // A number is no misspelling of another one.
    if (!is_container(node.kind()) || !has_keys(node.kind()) || is_number(key)) return std::nullopt;
    if (key.size() > kMaxKeyBytes) return std::nullopt;
    // Several names are no misspelling of one.
    const bool has_slash = key.find('/') != std::string::npos;
    NearMiss nearest(key);
    std::optional<NodeRef> best;
    const std::uint32_t children = std::min(node.size(), kMaxChildren);
    for (std::uint32_t i = 0; i < children && work_ + nearest.work() < kMaxWork; ++i) {
      const KeyView candidate = node.key(i);
      if (candidate.is_int || candidate.text.size() > kMaxKeyBytes) continue;
      if (has_slash && candidate.text.find('/') == std::string_view::npos) continue;
      if (nearest.offer(candidate.text)) best = node.child(i);
    }
    work_ += nearest.work();
    return best;
  }

  std::uint64_t work_ = 0;
};

std::vector<std::string> split_at_dots(std::span<const std::string> keys) {
  std::vector<std::string> parts;
  for (const std::string& key : keys) {
    for (std::size_t begin = 0; begin < key.size();) {
      const std::size_t end = std::min(key.find('.', begin), key.size());
      parts.push_back(key.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return parts;
}

// The first node whose path ends with `path`.
std::optional<NodeRef> ending_with(const NodeRef& root, const KeyPath& path) {
  const std::string text = path.to_string();
  if (root.catalog().tables().nodes.size() > kMaxNodes ||
      text.find_first_of("*?[]{}\\") != std::string::npos) {
    return std::nullopt;
  }
  const auto pattern = Pattern::parse("**/" + text);
  if (!pattern) return std::nullopt;
  PatternStepper stepper(std::span(&*pattern, 1));
  const auto nodes = match_nodes(root, stepper);
  if (nodes.empty()) return std::nullopt;
  return NodeRef(&root.catalog(), nodes.front());
}

std::vector<std::string> texts_of(const KeyPath& path) {
  std::vector<std::string> keys;
  for (const Key& key : path) keys.push_back(text_of(key.view()));
  return keys;
}

}  // namespace

std::string path_below(const NodeRef& root, const NodeRef& node) {
  const Tables& tables = node.catalog().tables();
  const std::string above = find_path(tables, root.number());
  std::string path = find_path(tables, node.number());
  path.erase(0, above.size());
  if (path.starts_with('/')) path.erase(0, 1);
  return path;
}

std::optional<std::string> path_in_metadata(const NodeRef& root, const KeyPath& path) {
  int lookups = kMaxLookups;
  const auto keys = texts_of(path);
  if (root.number() != kStateRoot || with_slashes(root, keys, lookups)) return std::nullopt;
  lookups = kMaxLookups;
  const NodeRef metadata(&root.catalog(), kMetadataRoot);
  const auto node = with_slashes(metadata, keys, lookups);
  return node ? std::optional(path_below(metadata, *node)) : std::nullopt;
}

std::optional<std::string> near_path(const NodeRef& root, const KeyPath& path) {
  const std::vector<std::string> keys = texts_of(path);
  std::size_t bytes = 0;
  for (const std::string& key : keys) {
    if (key.size() > kMaxKeyBytes) return std::nullopt;
    bytes += key.size() + 1;
  }
  if (keys.empty() || bytes > kMaxPathBytes) return std::nullopt;
  int lookups = kMaxLookups;
  std::optional<NodeRef> node = with_slashes(root, keys, lookups);
  if (!node && !root.find(path.parent())) node = ending_with(root, path);
  if (!node) node = Search().find(root, keys);
  if (!node) node = Search().find(root, split_at_dots(keys));
  if (!node) node = ending_with(root, path);
  // What exists already, such as the container where the path ends, is no news.
  KeyPath part = path;
  while (node && !part.empty()) {
    if (root.find(part) == node) return std::nullopt;
    part.pop_back();
  }
  return node ? std::optional(path_below(root, *node)) : std::nullopt;
}

Error with_near_path(Error error, const NodeRef& root, const KeyPath& path) {
  if (error.message.find("did you mean") != std::string::npos) return error;
  const auto meant = near_path(root, path);
  // A message has room for a name, and not for thousands of keys.
  constexpr std::size_t kMaxHintBytes = 200;
  if (!meant || meant->size() > kMaxHintBytes) return error;
  error.message += escaped(did_you_mean(meant));
  return error;
}

}  // namespace espalier
