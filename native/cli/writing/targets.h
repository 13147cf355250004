// Which file each input of convert is written to.
#ifndef ESPALIER_CLI_WRITING_TARGETS_H_
#define ESPALIER_CLI_WRITING_TARGETS_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/opening/command.h"
#include "cli/writing/write_result.h"
#include "files/save/save_format.h"

namespace espalier::cli {

/// An input, where it goes, and in which format.
struct Conversion {
  Route route;
  SaveFormat format;
};

/// The conversions for these names. `given` is the value of -o; without it, the last name is the
/// output, as for cp. If the output is a folder, each input goes there under its own name with
/// the ending of the format, which --to selects; otherwise there must be one input. Nothing is read
/// or written. Failures: kInvalidArgument for a missing output, for several inputs and no folder,
/// for two inputs with one target, and all failures of check_target() and target_format().
tl::expected<std::vector<Conversion>, Failure> plan_conversions(
    std::vector<std::string> names, const std::optional<std::string>& given,
    const TargetOptions& options);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_WRITING_TARGETS_H_
