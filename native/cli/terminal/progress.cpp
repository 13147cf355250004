#include "cli/terminal/progress.h"

#include <algorithm>
#include <atomic>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/terminal/terminal.h"
#include "cli/terminal/text.h"

namespace espalier::cli {
namespace {

constexpr std::chrono::milliseconds kPatience{500};
constexpr std::chrono::milliseconds kInterval{100};
// To the start of the line, and clear it.
constexpr std::string_view kErase = "\r\x1b[K";

// Whether the line of a bar is shown. Commands show one bar at a time.
std::atomic<bool> g_is_visible = false;
static_assert(std::atomic<bool>::is_always_lock_free);

std::string format_seconds(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::min(seconds, 359999.0));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

// A lost write of the progress bar does no harm.
void write_to_terminal(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace

ProgressBar::ProgressBar(std::string verb, std::uint64_t total)
    : verb_(std::move(verb)), is_terminal_(is_capable_terminal(STDERR_FILENO)), total_(total) {}

ProgressBar::~ProgressBar() { clear_line(); }

void ProgressBar::clear_line() {
  if (g_is_visible.exchange(false)) write_to_terminal(kErase);
}

void ProgressBar::add(std::uint64_t bytes) {
  if (!is_terminal_) return;
  const std::lock_guard lock(mutex_);
  done_ += bytes;
  draw();
}

void ProgressBar::set(std::uint64_t done, std::uint64_t total) {
  if (!is_terminal_) return;
  const std::lock_guard lock(mutex_);
  done_ = done;
  total_ = total;
  draw();
}

void ProgressBar::draw() {
  const auto now = Clock::now();
  if (now - start_ < kPatience || now - drawn_ < kInterval || total_ == 0) return;
  drawn_ = now;
  g_is_visible = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done_) / seconds;
  const double left = rate > 0 ? static_cast<double>(total_ - std::min(done_, total_)) / rate : 0;
  const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  std::string line = fmt::format(
      "{} {:3.0f}%  {} of {}  {}/s  {} left", verb_, share * 100, format_size(done_),
      format_size(total_), format_size(static_cast<std::uint64_t>(rate)), format_seconds(left));
  // A line that wraps could not be erased.
  line.resize(std::min(line.size(), terminal_columns(STDERR_FILENO) - 1));
  write_to_terminal(std::string(kErase) + line);
}

}  // namespace espalier::cli
