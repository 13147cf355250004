// Ranks changed tensors by how far they moved: diff --stat.
#ifndef ESPALIER_CLI_DIFF_DELTA_RANKING_H_
#define ESPALIER_CLI_DIFF_DELTA_RANKING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"
#include "espalier/checkpoint.h"
#include "espalier/health/state_parts.h"
#include "espalier/report/node_paths.h"
#include "espalier/report/tensor_delta.h"

namespace espalier::cli {

/// The orders of a ranking, as --sort names them. The first is the default.
inline constexpr const char* kRankings[] = {"relative", "norm", "changed", "max", "cosine", "path"};

struct RankingOptions {
  std::string order = kRankings[0];
  /// Rows of each table, 0 for all of them. Empty: all in JSON, few in text.
  std::optional<std::uint64_t> top;
};

/// A tensor whose bytes differ.
struct ChangedTensor {
  /// Its nodes, by their numbers in A.
  std::vector<std::uint32_t> nodes;
  TensorRef tensor;
  StatePart part = StatePart::kRest;
  /// Empty for an opaque dtype.
  TensorDelta delta;
};

/// Prints for each part of the state, weights first, the tensors and then their layers, largest
/// change first: see layer_of(). Tensors with elements that are not comparable come first, opaque
/// ones last. A layer's figures leave out tensors of one element, unless it has no others. Prints
/// kTopInText rows of each for the first part, and kTopOfOtherParts for the others, unless the
/// options say otherwise.
void print_ranking(Output& out, std::vector<ChangedTensor> tensors, const NodePaths& paths,
                   const RankingOptions& options);

inline constexpr std::uint64_t kTopInText = 20;
inline constexpr std::uint64_t kTopOfOtherParts = 5;

/// Writes the member `stat`; all rows unless the options say otherwise.
void write_ranking(JsonWriter& json, std::vector<ChangedTensor> tensors, const NodePaths& paths,
                   const RankingOptions& options);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_DIFF_DELTA_RANKING_H_
