// The checkpoints that a run of training left in a folder.
#ifndef ESPALIER_CLI_DOCTOR_RUN_STEPS_H_
#define ESPALIER_CLI_DOCTOR_RUN_STEPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/error.h"

namespace espalier::cli {

struct RunStep {
  std::uint64_t number = 0;
  /// In the folder: "step_00000100.espalier", "checkpoint-500".
  std::string name;
  /// What to open.
  std::string file;
};

struct RunSteps {
  /// The earliest first.
  std::vector<RunStep> steps;
  /// Names of folders with a number in which no checkpoint was found, such as unfinished saves.
  std::vector<std::string> skipped;
  /// Names of files of some format that do not end in a number, such as best.pt.
  std::vector<std::string> unnumbered;
};

/// The steps in a folder: files of any format and folders whose names are the same but for a number
/// at their end, such as step_100.espalier, ckpt-3.index, 200 and checkpoint-500. In a folder that
/// does not open by itself, a model of transformers is looked for. `run` may also be a folder and
/// the beginning of the names: "run/checkpoint-". kFileNotFound if there is no such folder;
/// kInvalidArgument for a URL, and for a folder with no steps or with several kinds of names. Looks
/// at 100,000 names at most: kLimitExceeded.
[[nodiscard]] Result<RunSteps> find_steps(const std::string& run);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_DOCTOR_RUN_STEPS_H_
