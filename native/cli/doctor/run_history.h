// The findings of a run of training: at which step each appeared, and where NaN spread.
#ifndef ESPALIER_CLI_DOCTOR_RUN_HISTORY_H_
#define ESPALIER_CLI_DOCTOR_RUN_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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
  /// Numbers of steps.
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  /// What was opened at the first one.
  std::string file;
  /// At how many steps it was.
  std::size_t steps = 0;
  bool is_still_there = false;
};

/// Takes the diagnoses of the steps in their order, and keeps their findings alone. Ignored ones do
/// not count.
class RunHistory {
 public:
  void add(const RunStep& step, const Diagnosis& diagnosis);
  /// In between the steps that were added, or after them, was one that could not be examined.
  void add_failed() { ++failed_; }

  /// The worst first; of these, the earliest first.
  std::vector<const RunFinding*> findings() const;
  /// "since step 200", "at steps 200 to 300, gone at 400".
  std::string when(const RunFinding& finding) const;
  /// "NaN came first at step 200, in 1 tensor: a/b; at step 300 it was in 3 more: ..."; empty
  /// without NaN. Printable.
  std::string nan_text() const;
  /// "3 steps; 1 finding is still there at step 300, 2 are gone"
  std::string summary() const;

  void print(Output& out, const Listing& listing) const;
  /// Writes the members `findings` and `nan`.
  void write_members(JsonWriter& json) const;

 private:
  using Fact = std::pair<HealthRule, std::string>;

  std::map<Fact, RunFinding> facts_;
  std::vector<std::uint64_t> steps_;
  std::size_t failed_ = 0;
  // Where NaN was at first, and one step later.
  std::vector<std::string> nan_paths_, spread_paths_;
  std::optional<std::size_t> nan_step_;  // its place in steps_
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_DOCTOR_RUN_HISTORY_H_
