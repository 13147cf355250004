// How much the elements of two tensors differ.
#ifndef ESPALIER_CLI_DIFF_DATA_DIFF_H_
#define ESPALIER_CLI_DIFF_DATA_DIFF_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/diff/tolerance.h"
#include "cli/opening/command.h"
#include "espalier/checkpoint_file.h"
#include "espalier/report/tensor_delta.h"

namespace espalier::cli {

/// The result of comparing two tensors. Two NaNs are equal, and so are 0.0 and -0.0.
struct DataDiff {
  /// Whether any byte differs; with a tolerance, whether any element is beyond it. Opaque dtypes
  /// have no elements to compare, so their bytes always count.
  bool differs = false;
  /// Elements that differ, by more than the tolerance; always 0 for opaque dtypes.
  std::uint64_t differing = 0;
  /// The largest distance between two finite elements that differ; exact for integers.
  Number max_delta = 0.0;
  /// Differing elements that have no distance, because one or both are not finite.
  std::uint64_t not_comparable = 0;
  /// How far apart the two are. Empty with a tolerance, and without Scope::kAllChunks.
  TensorDelta delta;

  void merge(const DataDiff& other);
};

/// Two tensors of the same dtype and shape, neither of them a placeholder.
using TensorPair = std::pair<TensorRef, TensorRef>;

/// The two sides of a comparison.
struct NamedFile {
  std::string name;
  CheckpointFile file;
};

/// The chunks of a tensor that count: norms need all of them.
enum class Scope : std::uint8_t { kChangedChunks, kAllChunks };

/// Compares tensors of `a` with tensors of `b`, in bounded memory. Chunks with equal hashes count
/// as equal; they are not read, or for kAllChunks read from `a` alone. The result does not depend
/// on the number of threads.
tl::expected<std::vector<DataDiff>, Failure> compare_data(const NamedFile& a, const NamedFile& b,
                                                          std::span<const TensorPair> pairs,
                                                          const Tolerance& tolerance, Scope scope,
                                                          unsigned threads);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_DIFF_DATA_DIFF_H_
