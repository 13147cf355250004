// JSON on standard output: one document, written as it comes.
//
//   JsonWriter json(out);
//   json.begin_object();
//   json.member("file", path);
//   json.key("shape");
//   json.begin_array(); ... json.end_array();
//   json.end_object();
#ifndef ESPALIER_CLI_JSON_WRITER_H_
#define ESPALIER_CLI_JSON_WRITER_H_

#include <concepts>
#include <cstdint>
#include <string_view>

#include "output.h"
#include <rapidjson/writer.h>

#include "espalier/tree/bigint.h"

namespace espalier::cli {

/// Writes valid JSON in UTF-8 whatever it is given. docs/cli.md says what programs may rely on:
/// integers beyond 2^53 - 1 are strings of digits, because many readers would round them; "NaN",
/// "Infinity" and
/// "-Infinity" are strings, because JSON has no such numbers; characters that append_escaped()
/// escapes are \u sequences; bytes that are not UTF-8 become U+FFFD.
class JsonWriter {
 public:
  explicit JsonWriter(Output& out) : stream_{out}, writer_(stream_) {}

  void begin_object() { writer_.StartObject(); }
  void end_object() { writer_.EndObject(); }
  void begin_array() { writer_.StartArray(); }
  void end_array() { writer_.EndArray(); }
  void key(std::string_view text) { value(text); }

  void null() { writer_.Null(); }
  void value(bool boolean) { writer_.Bool(boolean); }
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
  // What RapidJSON takes for a stream.
  struct Stream {
    using Ch = char;
    Output& out;
    void Put(char c) { out.put(c); }
    void Flush() {}
  };

  void number(std::string_view text);

  Stream stream_;
  rapidjson::Writer<Stream> writer_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_JSON_WRITER_H_
