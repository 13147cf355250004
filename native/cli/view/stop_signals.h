// Signals that ask a server to stop.
#ifndef ESPALIER_CLI_VIEW_STOP_SIGNALS_H_
#define ESPALIER_CLI_VIEW_STOP_SIGNALS_H_

#include <array>
#include <csignal>
#include <cstddef>

#include <signal.h>

#include "espalier/error.h"
#include "files/os/posix.h"

namespace espalier::cli {

/// From begin() until destruction, SIGHUP, SIGINT and SIGTERM do not end the program but make a
/// descriptor readable. A second signal ends the program at once. Ignored signals stay ignored.
/// Only one object may exist at a time.
class StopSignals {
 public:
  StopSignals() = default;
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// kIoError if no pipe can be created. Call once.
  [[nodiscard]] Result<void> begin();

  /// Becomes readable after a signal; valid as long as this object.
  int fd() const { return reading_.get(); }

 private:
  static constexpr std::array kSignals = {SIGHUP, SIGINT, SIGTERM};

  FileDescriptor reading_;
  FileDescriptor writing_;
  std::array<struct sigaction, kSignals.size()> former_{};
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_VIEW_STOP_SIGNALS_H_
