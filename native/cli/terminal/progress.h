// A progress bar on standard error.
#ifndef ESPALIER_CLI_TERMINAL_PROGRESS_H_
#define ESPALIER_CLI_TERMINAL_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "espalier/limits.h"
#include "files/os/parallel.h"

namespace espalier::cli {

/// Shows progress on standard error if that is a terminal and the work takes a while. The
/// destructor erases it. Thread-safe.
class ProgressBar {
 public:
  /// `verb` names the work, for example "checking".
  explicit ProgressBar(std::string verb, std::uint64_t total = 0);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  /// Clears the line of the bar that is shown, if one is. Async-signal-safe.
  static void clear_line();

  /// Adds to the bytes that are done.
  void add(std::uint64_t bytes);
  /// Sets the progress to `done` of `total` bytes.
  void set(std::uint64_t done, std::uint64_t total);
  /// A callback that calls set(). The bar must outlive it.
  Progress callback() {
    return [this](std::uint64_t done, std::uint64_t total) { set(done, total); };
  }

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  std::string verb_;
  bool is_terminal_;
  std::mutex mutex_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_ = start_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_PROGRESS_H_
