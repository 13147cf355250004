#include "espalier/base/escaped.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "espalier/base/utf8.h"

namespace espalier {
namespace {

struct CodePoints {
  char32_t first;
  char32_t last;
};

// Controls, Unicode's Default_Ignorable_Code_Point, bidirectional controls, line separators, the
// Braille pattern without dots, interlinear annotations, private use and noncharacters at the ends
// of blocks. web_demo/src/ui/visible.ts has the same, and a test there compares the two.
constexpr std::array kHidden = {
    CodePoints{0x0000, 0x001F},   CodePoints{0x007F, 0x009F},   CodePoints{0x00AD, 0x00AD},
    CodePoints{0x034F, 0x034F},   CodePoints{0x061C, 0x061C},   CodePoints{0x115F, 0x1160},
    CodePoints{0x17B4, 0x17B5},   CodePoints{0x180B, 0x180F},   CodePoints{0x200B, 0x200F},
    CodePoints{0x2028, 0x202E},   CodePoints{0x2060, 0x206F},   CodePoints{0x2800, 0x2800},
    CodePoints{0x3164, 0x3164},   CodePoints{0xD800, 0xF8FF},   CodePoints{0xFDD0, 0xFDEF},
    CodePoints{0xFE00, 0xFE0F},   CodePoints{0xFEFF, 0xFEFF},   CodePoints{0xFFA0, 0xFFA0},
    CodePoints{0xFFF0, 0xFFFB},   CodePoints{0xFFFE, 0xFFFF},   CodePoints{0x1BCA0, 0x1BCA3},
    CodePoints{0x1D173, 0x1D17A}, CodePoints{0xE0000, 0x10FFFF}};

bool is_plain(char c) { return c >= 0x20 && c < 0x7F; }

void append_hex(std::string& out, std::uint32_t number, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out += "0123456789abcdef"[(number >> static_cast<unsigned>(shift)) & 15u];
  }
}

int hex_digits(std::uint32_t number) {
  int digits = 1;
  while ((number >>= 4u) != 0) ++digits;
  return digits;
}

}  // namespace

bool is_printable(char32_t code_point) {
  const auto* range = std::lower_bound(kHidden.begin(), kHidden.end(), code_point,
                                       [](const CodePoints& r, char32_t c) { return r.last < c; });
  return range == kHidden.end() || code_point < range->first;
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
      append_hex(out += "\\x", static_cast<unsigned char>(text[i]), 2);
    } else if (is_printable(c.code_point)) {
      out += text.substr(i, length);
    } else if (c.code_point == U'\n') {
      out += "\\n";
    } else if (c.code_point == U'\t') {
      out += "\\t";
    } else if (c.code_point < 0x80) {
      append_hex(out += "\\x", c.code_point, 2);
    } else {
      append_hex(out += "\\u{", c.code_point, hex_digits(c.code_point));
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
