#include "cli/terminal/json_writer.h"

#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "cli/terminal/text.h"
#include "espalier/base/utf8.h"

namespace espalier::cli {
namespace {

constexpr std::int64_t kLargestExact = (std::int64_t{1} << 53) - 1;

void append_utf16(std::string& out, char32_t code_point) {
  const auto unit = [&](std::uint32_t value) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", value);
  };
  if (code_point < 0x10000) return unit(code_point);
  unit(0xD800 + ((code_point - 0x10000) >> 10));
  unit(0xDC00 + ((code_point - 0x10000) & 0x3FF));
}

}  // namespace

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    if (c.length == 0) {
      out += "\\ufffd";
      ++i;
      continue;
    }
    if (c.code_point == U'\n' || c.code_point == U'\t') {
      out += c.code_point == U'\n' ? "\\n" : "\\t";
    } else if (c.code_point == U'"' || c.code_point == U'\\') {
      out += '\\';
      out += text[i];
    } else if (!is_printable(c.code_point)) {
      append_utf16(out, c.code_point);
    } else {
      out += text.substr(i, c.length);
    }
    i += c.length;
  }
  out += '"';
  return out;
}

void JsonWriter::key(std::string_view text) {
  write(json_quoted(text));
  out_.put(':');
  needs_comma_ = false;
}

void JsonWriter::value(std::string_view text) { write(json_quoted(text)); }

void JsonWriter::value(std::int64_t integer) {
  if (integer > kLargestExact || integer < -kLargestExact) return value(std::to_string(integer));
  write(std::to_string(integer));
}

void JsonWriter::value(std::uint64_t integer) {
  if (integer > std::uint64_t{kLargestExact}) return value(std::to_string(integer));
  write(std::to_string(integer));
}

void JsonWriter::value(double real) {
  if (std::isnan(real)) return value("NaN");
  if (std::isinf(real)) return value(real > 0 ? "Infinity" : "-Infinity");
  write(format_real(real));
}

void JsonWriter::value(float real) {
  if (!std::isfinite(real)) return value(static_cast<double>(real));
  write(format_real(real));
}

void JsonWriter::value(const BigInt& integer) { value(integer.to_decimal()); }

void begin_files(JsonWriter& json) {
  json.begin_object();
  json.key("files");
  json.begin_array();
}

void end_files(JsonWriter& json, Output& out) {
  json.end_array();
  json.end_object();
  out.put('\n');
}

}  // namespace espalier::cli
