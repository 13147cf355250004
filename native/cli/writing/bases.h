// The checkpoints that a new file refers to, as --base and `espalier index` name them.
#ifndef ESPALIER_CLI_WRITING_BASES_H_
#define ESPALIER_CLI_WRITING_BASES_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/opening/command.h"
#include "cli/terminal/output.h"
#include "espalier/write/references.h"
#include "files/delta/open_base.h"

namespace espalier::cli {

struct Written;

/// How a new file depends on others.
struct BaseOptions {
  std::vector<std::string> names;
  bool only_references = false;
  unsigned most_percent = 60;
};

/// Adds --base.
void add_base_option(CLI::App& command, BaseOptions& options);
/// Adds --only-references and --most.
void add_patch_options(CLI::App& command, BaseOptions& options);

/// The part of SaveOptions that is about bases.
struct Against {
  std::vector<SaveBase> bases = {};
  bool patches = false;
  double most_of_full = 1;
  /// What was found before, in place of bases.
  const References* references = nullptr;
};
/// What the options mean, with the bases that they name.
Against against(const BaseOptions& options, const std::vector<OpenBase>& bases);

/// Opens `path`, to which the file `target` shall refer. kInvalidArgument for a URL, and as of
/// espalier::open_base().
[[nodiscard]] Result<OpenBase> open_base(const std::string& path, const std::string& target,
                                         const CommonOptions& options);

/// Prints what was written, and which files that needs; in JSON as "needs". If it needs none,
/// prints what `alone` says.
Outcome report_with_needs(Output& out, const Written& written, const CommonOptions& options,
                          std::string_view alone = {});

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_WRITING_BASES_H_
