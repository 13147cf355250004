// A progress bar for people who wait.
#ifndef ESPALIER_CLI_PROGRESS_H_
#define ESPALIER_CLI_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "espalier/native/parallel.h"

namespace espalier::cli {

/// Shows on standard error how far work has come: only if that is a terminal, and only once the
/// work has taken a while. Erased when it goes. Thread-safe.
class ProgressBar {
 public:
  /// `verb` says what happens, for example "checking".
  explicit ProgressBar(std::string verb, std::uint64_t total = 0);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  /// More bytes are done.
  void add(std::uint64_t bytes);
  /// `done` of `total` bytes are done.
  void set(std::uint64_t done, std::uint64_t total);
  /// set() for a function that reports progress. The bar must outlive it.
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
  bool is_visible_ = false;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_PROGRESS_H_
