// The filters of ls: which of the selected nodes it lists.
#ifndef ESPALIER_CLI_SELECTION_NODE_FILTER_H_
#define ESPALIER_CLI_SELECTION_NODE_FILTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "espalier/checkpoint.h"
#include "espalier/error.h"

namespace espalier::cli {

/// The words of the options.
struct FilterOptions {
  std::vector<std::string> dtypes;
  std::vector<std::string> kinds;
  std::string larger;
  std::string smaller;
};

/// Adds --dtype, --kind, --larger and --smaller.
void add_filter_options(CLI::App& command, FilterOptions& options);

/// Decides which nodes pass all filters. Without filters, all do.
class NodeFilter {
 public:
  /// The options must have passed the checks of add_filter_options().
  explicit NodeFilter(const FilterOptions& options);

  /// Whether no filter is set.
  bool is_empty() const { return dtypes_ == 0 && kinds_ == 0 && !larger_ && !smaller_; }
  /// Whether scalars or containers may pass.
  bool wants_other_kinds() const;
  /// A node without a dtype passes no filter of dtypes; one without data passes none of sizes.
  bool passes(const NodeRef& node) const;

 private:
  std::uint64_t dtypes_ = 0;  // a bit for each DType; 0 for all
  std::uint64_t kinds_ = 0;   // a bit for each Kind; 0 for all
  std::optional<std::uint64_t> larger_;
  std::optional<std::uint64_t> smaller_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_SELECTION_NODE_FILTER_H_
