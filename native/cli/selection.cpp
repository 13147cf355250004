#include "selection.h"

#include <optional>
#include <utility>

#include "espalier/read/select.h"

namespace espalier::cli {

Result<std::vector<std::uint32_t>> select_nodes(const CheckpointFile& file,
                                                std::span<const std::string> patterns, bool all) {
  auto set = PatternSet::parse(patterns);
  if (!set) return propagate(set);
  std::vector<std::uint32_t> nodes;
  for (SelectedWalker walk(file.state(), *set); walk.next();) {
    if (all || walk.node().tensor()) nodes.push_back(walk.node().number());
  }
  if (auto ok = set->check_all_matched(); !ok) {
    return tl::unexpected<Error>(explain_unmatched(ok.error(), patterns, {file.state()}));
  }
  return nodes;
}

Error explain_unmatched(Error error, std::span<const std::string> patterns,
                        std::initializer_list<NodeRef> roots) {
  if (error.code != ErrorCode::kNotFound || !error.path.empty()) return error;
  for (const std::string& pattern : patterns) {
    if (pattern.find_first_of("*?{[\\") != std::string::npos) continue;
    std::optional<Error> first;
    bool found = false;
    for (const NodeRef& root : roots) {
      auto node = root.at(pattern);
      found = found || node.has_value();
      if (!node && !first) first = std::move(node.error());
    }
    if (!found) return std::move(*first);
  }
  return error;
}

}  // namespace espalier::cli
