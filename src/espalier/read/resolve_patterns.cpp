#include "espalier/read/resolve_patterns.h"

#include <string>
#include <string_view>
#include <utility>

#include "espalier/read/resolve.h"

namespace espalier {
namespace {

// The pattern that matches exactly this text.
Result<Pattern> quote(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (std::string_view("*?[]{},\\").find(c) != std::string_view::npos) quoted += '\\';
    quoted += c;
  }
  return Pattern::parse(quoted);
}

}  // namespace

void resolve_patterns(std::span<Pattern> patterns, std::initializer_list<NodeRef> roots) {
  for (Pattern& pattern : patterns) {
    const auto literal = pattern.literal_path();
    if (!literal) continue;
    for (const NodeRef& root : roots) {
      const auto keys = resolve_plainly(root, *literal);
      if (!keys) continue;
      // A path that is too long for a pattern matches as it was typed.
      auto quoted = quote(printed_path(root, *keys));
      if (quoted) pattern = std::move(*quoted);
      break;
    }
  }
}

}  // namespace espalier
