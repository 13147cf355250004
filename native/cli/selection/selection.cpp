#include "cli/selection/selection.h"

#include <optional>
#include <utility>

#include "cli/selection/missing_path.h"
#include "espalier/read/match.h"
#include "espalier/read/pattern_stepper.h"
#include "espalier/read/resolve.h"
#include "espalier/read/resolve_patterns.h"

namespace espalier::cli {

Result<std::vector<std::uint32_t>> select_nodes(const CheckpointFile& file,
                                                std::span<const std::string> patterns, bool all) {
  auto parsed = parse_patterns(patterns);
  if (!parsed) return propagate(parsed);
  resolve_patterns(*parsed, {file.state()});
  PatternStepper stepper(*parsed);
  auto nodes = match_nodes(file.state(), stepper,
                           all ? std::nullopt : std::optional<TensorFilter>(TensorFilter{}));
  if (auto ok = stepper.check_all_matched(); !ok) {
    return tl::unexpected<Error>(explain_unmatched(ok.error(), patterns, {file.state()}));
  }
  return nodes;
}

Result<FoundNode> find_node(const NodeRef& root, const std::string& path) {
  auto keys = resolve_plainly(root, path);
  if (!keys) return tl::unexpected<Error>(explain_missing(std::move(keys.error()), root));
  return FoundNode{printed_path(root, *keys), *root.find(*keys)};
}

Error explain_unmatched(Error error, std::span<const std::string> patterns,
                        std::initializer_list<NodeRef> roots) {
  if (error.code != ErrorCode::kNotFound) return error;
  // A key path, such as that of --root.
  if (!error.path.empty()) return explain_missing(std::move(error), *roots.begin());
  for (const std::string& pattern : patterns) {
    if (pattern.find_first_of("*?{[\\") != std::string::npos) continue;
    std::optional<Error> first;
    bool found = false;
    for (const NodeRef& root : roots) {
      auto keys = resolve_plainly(root, pattern);
      found = found || keys.has_value();
      if (!keys && !first) first = explain_missing(std::move(keys.error()), root);
    }
    if (!found) return std::move(*first);
  }
  for (const std::string& pattern : patterns) {
    for (const NodeRef& root : roots) {
      const std::string hint = near_pattern_hint(root, pattern);
      if (hint.empty()) continue;
      error.message += hint;
      return error;
    }
  }
  error.message += "; `espalier tree` shows the key paths";
  return error;
}

}  // namespace espalier::cli
