// Examines the numbers of a file, and of a state before it is saved.
#ifndef ESPALIER_PYTHON_EXAMINING_H_
#define ESPALIER_PYTHON_EXAMINING_H_

#include <memory>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "espalier/health/finding.h"
#include "espalier/save_options.h"

namespace espalier::python {

/// Has a save look for faults in the numbers of its state before it writes them. Copies share what
/// was found. Ask for it once the save is done.
class StateCheck {
 public:
  /// `mode` is "warn", "raise", which ends a save that finds faults, or empty for no check.
  explicit StateCheck(const std::string& mode = {});

  void add_to(SaveOptions& options) const;
  /// The faults, as examine_state() gives findings.
  nanobind::list faults() const;
  /// The exception of a save that faults have ended; no object for any other.
  nanobind::object refusal() const;

 private:
  struct Found {
    std::vector<Finding> faults;
    bool is_refused = false;
  };

  std::shared_ptr<Found> found_;  // null without a check
  bool raises_ = false;
};

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_EXAMINING_H_
