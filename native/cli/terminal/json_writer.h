// Writes one JSON document to standard output, as a stream.
//
//   JsonWriter json(out);
//   json.begin_object();
//   json.member("file", path);
//   json.key("shape");
//   json.begin_array(); ... json.end_array();
//   json.end_object();
#ifndef ESPALIER_CLI_TERMINAL_JSON_WRITER_H_
#define ESPALIER_CLI_TERMINAL_JSON_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/terminal/output.h"
#include "espalier/bigint.h"

namespace espalier::cli {

/// Any bytes as a JSON string with quotes: see JsonWriter.
std::string json_quoted(std::string_view text);

/// Writes JSON in UTF-8. Close everything that you open, and write a key before each value of an
/// object. Texts and numbers may be any. docs/cli.md lists what programs may rely on: integers
/// beyond 2^53 - 1 are strings of digits, because many readers would round them; "NaN", "Infinity"
/// and "-Infinity" are strings, because JSON has no such numbers; characters that append_escaped()
/// escapes are \u sequences; bytes that are not UTF-8 become U+FFFD.
class JsonWriter {
 public:
  explicit JsonWriter(Output& out) : out_(out) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view text);

  void null() { write("null"); }
  void value(bool boolean) { write(boolean ? "true" : "false"); }
  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(std::int64_t integer);
  void value(std::uint64_t integer);
  void value(std::uint32_t integer) { value(std::uint64_t{integer}); }
  void value(double real);
  void value(float real);
  void value(const BigInt& integer);

  template <class T>
  void member(std::string_view name, const T& content) {
    key(name);
    value(content);
  }

 private:
  // Without line breaks, the only state is whether a comma must come before the next value.
  void separate() {
    if (needs_comma_) out_.put(',');
  }
  void open(char bracket) {
    separate();
    out_.put(bracket);
    needs_comma_ = false;
  }
  void close(char bracket) {
    out_.put(bracket);
    needs_comma_ = true;
  }
  void write(std::string_view token) {
    separate();
    out_.write(token);
    needs_comma_ = true;
  }

  Output& out_;
  bool needs_comma_ = false;
};

/// The document of a command that answers for each of several files: {"files": [...]}, an object
/// each.
void begin_files(JsonWriter& json);
void end_files(JsonWriter& json, Output& out);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_JSON_WRITER_H_
