// Text in large writes, to standard output or a new file; reports every failure.
#ifndef ESPALIER_CLI_TERMINAL_OUTPUT_H_
#define ESPALIER_CLI_TERMINAL_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cli/terminal/colors.h"
#include "espalier/error.h"
#include "espalier/sink.h"

namespace espalier::cli {

/// Standard output for results, or the text of a new file. Text must be printable: see
/// append_escaped(). Call finish() at the end. Not thread-safe.
class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}
  /// Writes to `sink`, which must live as long, from its first byte on. The caller commits it.
  explicit Output(Sink& sink) : sink_(&sink) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view text) {
    buffer_ += text;
    flush_if_full();
  }
  void put(char c) {
    buffer_ += c;
    flush_if_full();
  }
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
    flush_if_full();
  }

  /// How results are coloured; not at all until set_colors().
  const Colors& colors() const { return colors_; }
  void set_colors(Colors colors) { colors_ = colors; }

  /// Whether the reader has closed the pipe. More output is useless then; this is not a failure.
  bool is_abandoned() const;

  /// Takes back what was printed, and returns true, if none of it was written yet.
  bool take_back();

  /// Writes the buffered rest; kIoError if any write failed, or the error of the sink.
  [[nodiscard]] Result<void> finish();

 private:
  static constexpr std::size_t kFlushBytes = 256 * 1024;
  void flush_if_full() {
    if (buffer_.size() >= kFlushBytes) flush();
  }
  void flush();

  int fd_ = -1;
  bool has_written_ = false;
  int error_ = 0;  // errno of the first write that failed; nothing is written after it
  Sink* sink_ = nullptr;
  std::uint64_t written_ = 0;        // to the sink
  std::optional<Error> sink_error_;  // the first; nothing is written after it
  std::string buffer_;
  Colors colors_;
};

/// Reopens standard input, output and error if they are closed. Otherwise a file could get one of
/// their descriptor numbers, and output would overwrite it. Writing to a stream that was closed is
/// still an error.
void reserve_standard_streams();

/// Prints "espalier: <text>" as one line on standard error.
void print_error(std::string_view text);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_OUTPUT_H_
