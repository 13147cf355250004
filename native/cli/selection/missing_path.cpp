#include "cli/selection/missing_path.h"

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "cli/terminal/text.h"
#include "espalier/base/near_miss.h"
#include "espalier/pattern.h"
#include "espalier/read/match.h"
#include "espalier/read/near_path.h"
#include "espalier/read/pattern_stepper.h"

namespace espalier::cli {
namespace {

constexpr std::string_view kPatternCharacters = "*?[{";
constexpr std::size_t kMaxNodes = 4'000'000;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// `text` with ".0" in place of "[0]", as Python writes an index; nothing if it has none.
std::optional<std::string> with_dots_for_indexes(std::string_view text) {
  std::string result;
  bool has_index = false;
  while (!text.empty()) {
    const std::size_t end = text.front() == '[' ? text.find(']') : std::string_view::npos;
    if (end != std::string_view::npos && is_number(text.substr(1, end - 1))) {
      result += (result.empty() ? "" : ".") + std::string(text.substr(1, end - 1));
      text.remove_prefix(end + 1);
      has_index = true;
    } else {
      result += text.front();
      text.remove_prefix(1);
    }
  }
  return has_index ? std::optional(result) : std::nullopt;
}

bool matches(const NodeRef& root, const std::string& text) {
  if (root.catalog().tables().nodes.size() > kMaxNodes) return false;
  const auto pattern = Pattern::parse(text);
  if (!pattern) return false;
  PatternStepper stepper(std::span(&*pattern, 1));
  return !match_nodes(root, stepper).empty();
}

std::string replaced(const std::string& text, std::string_view slash) {
  std::string result;
  for (const char c : text) c == '/' ? result += slash : result += c;
  return result;
}

}  // namespace

std::optional<std::string> path_with_index(const NodeRef& root, const std::string& text) {
  const auto dotted = with_dots_for_indexes(text);
  const auto path = dotted ? KeyPath::parse(*dotted) : fail(ErrorCode::kNotFound, "");
  const auto node = path ? root.find(*path) : std::nullopt;
  return node ? std::optional(path_below(root, *node)) : std::nullopt;
}

std::string near_pattern_hint(const NodeRef& root, const std::string& pattern) {
  if (matches(root, pattern)) return {};
  const auto hint = [](const std::string& text) {
    return did_you_mean(shortened(text, kMaxMentionBytes));
  };
  if (const auto path = path_with_index(root, pattern)) return hint(*path);
  if (pattern.find('/') == std::string::npos) return {};
  const std::string dotted = replaced(pattern, ".");
  if (matches(root, dotted)) return hint(dotted) + " --nest reads the dots of names as slashes";
  const std::string escaped_slashes = replaced(pattern, "~1");
  return matches(root, escaped_slashes) ? hint(escaped_slashes) : "";
}

Error explain_missing(Error error, const NodeRef& root) {
  if (error.code != ErrorCode::kNotFound || error.path.empty()) return error;
  if (error.path.find_first_of(kPatternCharacters) != std::string::npos) {
    error.message =
        "no such key; this looks like a pattern, and one key path is needed: ls, stats, diff and "
        "extract take patterns";
    error.message += did_you_mean(path_with_index(root, error.path));
    return error;
  }
  const auto path = KeyPath::parse(error.path);
  // The library may have found what was meant.
  if (!path || root.find(*path) || error.message.find("did you mean") != std::string::npos) {
    return error;
  }
  if (const auto there = path_in_metadata(root, *path)) {
    error.message += "; the metadata has it: `espalier show --metadata` shows '" +
                     shortened(*there, kMaxMentionBytes) + "'";
    return error;
  }
  // Trees are drawn from this name on, which is no key.
  constexpr std::string_view kRoot = "state/";
  if (error.path.starts_with(kRoot)) {
    const std::string below = error.path.substr(kRoot.size());
    const auto rest = KeyPath::parse(below);
    if (rest && root.find(*rest)) {
      error.message +=
          "; paths begin below state" + did_you_mean(shortened(below, kMaxMentionBytes));
      return error;
    }
  }
  if (const auto meant = near_path(root, *path)) {
    error.message += did_you_mean(shortened(*meant, kMaxMentionBytes));
    return error;
  }
  NodeRef node = root;
  for (std::size_t i = 1; i <= path->size(); ++i) {
    const auto next = root.find(path->first(i));
    if (!next) break;
    node = *next;
  }
  if (is_container(node.kind()) && !has_keys(node.kind()) && node.size() > 0) {
    error.message += "; its elements are 0 to " + std::to_string(node.size() - 1);
  }
  return error;
}

}  // namespace espalier::cli
