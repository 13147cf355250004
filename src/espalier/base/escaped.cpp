#include "espalier/base/escaped.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "espalier/base/utf8.h"

namespace espalier {
namespace {

struct CodePoints {
  char16_t first;
  char16_t last;
};

// Controls, Unicode's Default_Ignorable_Code_Point, bidirectional controls, line separators, the
// Braille pattern without dots, interlinear annotations, private use and noncharacters at the ends
// of blocks: those below U+10000, ascending. web_demo/src/ui/visible.ts has the same, and a test
// there compares the two. Small, because every WebAssembly module has it.
constexpr CodePoints kHidden[] = {
    {0x0000, 0x001F}, {0x007F, 0x009F}, {0x00AD, 0x00AD}, {0x034F, 0x034F}, {0x061C, 0x061C},
    {0x115F, 0x1160}, {0x17B4, 0x17B5}, {0x180B, 0x180F}, {0x200B, 0x200F}, {0x2028, 0x202E},
    {0x2060, 0x206F}, {0x2800, 0x2800}, {0x3164, 0x3164}, {0xD800, 0xF8FF}, {0xFDD0, 0xFDEF},
    {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}};

bool is_plain(char c) { return c >= 0x20 && c < 0x7F; }

// Two digits, or after a brace as many as the number has.
void append_hex(std::string& out, std::uint32_t number) {
  if (number > 0xFF) append_hex(out, number >> 8u);
  if (number > 0xF || !out.ends_with('{')) out += "0123456789abcdef"[(number >> 4u) & 15u];
  out += "0123456789abcdef"[number & 15u];
}

}  // namespace

bool is_printable(char32_t c) {
  if (c > 0xFFFF) {
    return c < 0xE0000 && !(c >= 0x1BCA0 && c <= 0x1BCA3) && !(c >= 0x1D173 && c <= 0x1D17A);
  }
  for (const CodePoints& range : kHidden) {
    if (c <= range.last) return c < range.first;
  }
  return true;
}

void append_escaped(std::string& out, std::string_view text) {
  if (std::all_of(text.begin(), text.end(), is_plain)) {
    out += text;
    return;
  }
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    const std::size_t length = std::max<std::size_t>(c.length, 1);
    if (c.length == 0) {
      append_hex(out += "\\x", static_cast<unsigned char>(text[i]));
    } else if (is_printable(c.code_point)) {
      out += text.substr(i, length);
    } else if (c.code_point == U'\n') {
      out += "\\n";
    } else if (c.code_point == U'\t') {
      out += "\\t";
    } else if (c.code_point < 0x80) {
      append_hex(out += "\\x", c.code_point);
    } else {
      append_hex(out += "\\u{", c.code_point);
      out += '}';
    }
    i += length;
  }
}

std::string escaped(std::string_view text) {
  std::string out;
  append_escaped(out, text);
  return out;
}

}  // namespace espalier
