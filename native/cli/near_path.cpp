#include "near_path.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "near_miss.h"
#include "text.h"

#include "espalier/format/find_path.h"
#include "espalier/read/match.h"
#include "espalier/tree/pattern.h"

namespace espalier::cli {
namespace {

constexpr std::string_view kPatternCharacters = "*?[{";
// A file may have a million keys in one dict, and keys of 16 KiB. These take some 50 ms together.
constexpr std::uint64_t kMaxWork = 16'000'000;  // compared pairs of letters
constexpr std::uint32_t kMaxChildren = 500'000;
constexpr std::size_t kMaxKeyBytes = 200;
constexpr std::size_t kMaxNodes = 4'000'000;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string text_of(const KeyView& key) {
  return key.is_int ? std::to_string(key.integer) : std::string(key.text);
}

// The child whose key prints as `text` or would without marks: an int key or a string key.
std::optional<NodeRef> child_of(const NodeRef& node, std::string_view text) {
  if (!is_container(node.kind())) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) {
    if (auto child = node.find(KeyView::of(number))) return child;
  }
  return node.find(KeyView::of(text));
}

class Search {
 public:
  // The node that `keys` were probably meant to lead to from `node`; the deepest that was found, if
  // the rest is like nothing. Nothing if not even the first key is like one that exists.
  std::optional<NodeRef> find(const NodeRef& node, std::span<const std::string> keys) {
    NodeRef at = node;
    bool is_found = false;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (const auto joined = child_of(at, join(keys.subspan(i)))) return joined;
      auto next = child_of(at, keys[i]);
      if (!next) next = by_dots(at, keys[i]);
      if (!next) next = most_like(at, keys[i]);
      if (!next) break;
      at = *next;
      is_found = true;
    }
    return is_found ? std::optional(at) : std::nullopt;
  }

 private:
  static std::string join(std::span<const std::string> keys) {
    std::string joined;
    for (const std::string& key : keys) joined += (joined.empty() ? "" : ".") + key;
    return joined;
  }

  // Where the parts of a dotted name lead.
  static std::optional<NodeRef> by_dots(const NodeRef& node, std::string_view name) {
    if (name.find('.') == std::string_view::npos) return std::nullopt;
    std::optional<NodeRef> at = node;
    while (at) {
      const std::size_t dot = name.find('.');
      at = child_of(*at, name.substr(0, dot));
      if (dot == std::string_view::npos) break;
      name.remove_prefix(dot + 1);
    }
    return at;
  }

  std::optional<NodeRef> most_like(const NodeRef& node, const std::string& key) {
    // A number is no misspelling of another one.
    if (!is_container(node.kind()) || !has_keys(node.kind()) || is_number(key)) return std::nullopt;
    NearMiss nearest(key);
    std::optional<NodeRef> best;
    const std::uint32_t children = std::min(node.size(), kMaxChildren);
    for (std::uint32_t i = 0; i < children && work_ + nearest.work() < kMaxWork; ++i) {
      const KeyView candidate = node.key(i);
      if (candidate.is_int || candidate.text.size() > kMaxKeyBytes) continue;
      if (nearest.offer(candidate.text)) best = node.child(i);
    }
    work_ += nearest.work();
    return best;
  }

  std::uint64_t work_ = 0;
};

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

// The path of a node of the state or of the metadata, from the root of its tree.
std::string printed(const NodeRef& node) {
  static constexpr std::string_view kMetadata = "(metadata)/";
  std::string path = find_path(node.catalog().tables(), node.number());
  if (path.starts_with(kMetadata)) path.erase(0, kMetadata.size());
  return path;
}

}  // namespace

std::optional<std::string> near_path(const NodeRef& root, const KeyPath& path) {
  std::vector<std::string> keys;
  for (const Key& key : path) {
    keys.push_back(text_of(key.view()));
    if (keys.back().size() > kMaxKeyBytes) return std::nullopt;
  }
  if (keys.empty()) return std::nullopt;
  std::optional<NodeRef> node;
  if (!root.find(path.parent())) node = ending_with(root, path);
  if (!node) node = Search().find(root, keys);
  if (!node) node = ending_with(root, path);
  // What exists already, such as the container where the path ends, is no news.
  KeyPath part = path;
  while (node && !part.empty()) {
    if (root.find(part) == node) return std::nullopt;
    part.pop_back();
  }
  return node ? std::optional(printed(*node)) : std::nullopt;
}

Error explain_missing(Error error, const NodeRef& root) {
  if (error.code != ErrorCode::kNotFound || error.path.empty()) return error;
  if (error.path.find_first_of(kPatternCharacters) != std::string::npos) {
    error.message =
        "no such key; this looks like a pattern, and one key path is needed: ls, stats, diff and "
        "extract take patterns";
    return error;
  }
  const auto path = KeyPath::parse(error.path);
  // The library may have found what was meant.
  if (!path || root.find(*path) || error.message.find("did you mean") != std::string::npos) {
    return error;
  }
  if (const auto meant = near_path(root, *path)) {
    error.message += did_you_mean(shortened(*meant, kMaxMentionBytes));
    return error;
  }
  NodeRef node = root;
  for (const Key& key : *path) {
    const auto child = node.find(key.view());
    if (!child) break;
    node = *child;
  }
  if (is_container(node.kind()) && !has_keys(node.kind()) && node.size() > 0) {
    error.message += "; its elements are 0 to " + std::to_string(node.size() - 1);
  }
  return error;
}

}  // namespace espalier::cli
