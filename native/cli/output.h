// Standard output, written in large pieces, with every failure noticed.
#ifndef ESPALIER_CLI_OUTPUT_H_
#define ESPALIER_CLI_OUTPUT_H_

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "espalier/base/error.h"

namespace espalier::cli {

/// Where results go. What is printed must be printable: see append_escaped(). Call finish() at the
/// end. Not thread-safe.
class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}
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

  /// Whether the reader has closed the pipe: more output is of no use, and this is no failure.
  bool is_abandoned() const;

  /// Writes what is left; kIoError if anything could not be written.
  Result<void> finish();

 private:
  static constexpr std::size_t kFlushBytes = 256 * 1024;
  void flush_if_full() {
    if (buffer_.size() >= kFlushBytes) flush();
  }
  void flush();

  int fd_;
  int error_ = 0;  // errno of the first write that failed; nothing is written after it
  std::string buffer_;
};

/// Opens what is closed of standard input, output and error, so that no file that the program opens
/// gets one of their numbers and is written to by mistake. Writing to one that was closed stays an
/// error.
void reserve_standard_streams();

/// Prints "espalier: <text>" as one line on standard error.
void print_error(std::string_view text);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_OUTPUT_H_
