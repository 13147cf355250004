#include "selection.h"

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
  if (auto ok = set->check_all_matched(); !ok) return propagate(ok);
  return nodes;
}

}  // namespace espalier::cli
