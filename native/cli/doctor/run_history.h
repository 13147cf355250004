// The findings of a run of training: at which step each appeared, and where NaN spread.
#ifndef ESPALIER_CLI_DOCTOR_RUN_HISTORY_H_
#define ESPALIER_CLI_DOCTOR_RUN_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/doctor/diagnosis.h"
#include "cli/doctor/report.h"
#include "cli/doctor/run_steps.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"

namespace espalier::cli {

/// One finding, over the steps.
struct RunFinding {
  /// As it was at the first step; the severity is the worst of all.
  Finding finding;
  /// The text of the last step that has it.
  std::string last_text;
  /// Numbers of steps.
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  /// What was opened at the first one.
  std::string file;
  /// At how many steps it was.
  std::size_t steps = 0;
  bool is_still_there = false;
};

/// Takes the diagnoses of the steps in their order, and keeps their findings alone. Ignored ones
/// are counted, and tell where NaN came from.
class RunHistory {
 public:
  void add(const RunStep& step, const Diagnosis& diagnosis);
  /// In between the steps that were added, or after them, was one that could not be examined.
  void add_failed(const RunStep& step) { failed_.push_back(step.number); }

  /// The worst first; of these, the earliest first.
  std::vector<const RunFinding*> findings() const;
  /// "since step 200", "at steps 200 to 300, gone at 400", and what it became.
  std::string when(const RunFinding& finding) const;
  /// "NaN came first at step 200, in a/b; at step 300, it had spread to 3 more: ..."; empty without
  /// NaN. Printable.
  std::string nan_text() const;
  /// "3 steps; 1 finding is still there at step 300, 2 are gone"
  std::string summary() const;

  void print(Output& out, const Listing& listing) const;
  /// Writes the members `findings` and `nan`.
  void write_members(JsonWriter& json) const;

 private:
  using Fact = std::pair<HealthRule, std::string>;

  // The paths that had NaN at a step, and at none before.
  struct NanStep {
    std::size_t step = 0;  // its place in steps_
    std::vector<std::string> paths;
  };

  // " (step 300 could not be examined)", if one between a step and the one before it could not.
  std::string unknown_before(std::uint64_t step) const;

  std::map<Fact, RunFinding> facts_;
  std::set<Fact> ignored_;
  std::vector<std::uint64_t> steps_;
  std::vector<std::uint64_t> failed_;
  std::vector<NanStep> nan_;
  std::set<std::string> nan_paths_;         // of all nan_
  std::optional<std::size_t> nan_again_;    // the first place after without_nan_ with NaN
  std::optional<std::size_t> without_nan_;  // the first place in steps_ after the first of nan_
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_DOCTOR_RUN_HISTORY_H_
