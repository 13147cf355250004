// Makes text from files safe to print.
#ifndef ESPALIER_BASE_ESCAPED_H_
#define ESPALIER_BASE_ESCAPED_H_

#include <string>
#include <string_view>

namespace espalier {

/// Whether a character may be printed unescaped. Control characters may not, because a terminal
/// obeys them; nor may characters without width or ink, which hide differences, or characters that
/// change the text direction, which make one name look like another.
bool is_printable(char32_t code_point);

/// Appends `text` in one line: a line feed becomes a backslash and an n, a tab one and a t, other
/// control characters and bytes that are not UTF-8 become `\x1b`, other unprintable characters
/// `\u{200b}`. A backslash stays as it is, so escaping twice is the same as escaping once. The
/// command line, errors, notes and Python all escape in this way.
void append_escaped(std::string& out, std::string_view text);
std::string escaped(std::string_view text);

}  // namespace espalier

#endif  // ESPALIER_BASE_ESCAPED_H_
