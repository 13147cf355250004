// Text for people: numbers, sizes, tables, and names from untrusted files.
#ifndef ESPALIER_CLI_TEXT_H_
#define ESPALIER_CLI_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::cli {

/// Whether a character may be printed as it is. Not so control characters (a terminal obeys them),
/// characters without width or ink (they hide differences) and those that change the direction of
/// what follows (they make a name read as another one).
bool is_printable(char32_t code_point);

/// Appends `text` with `\n`, `\t`, `\\`, `\x1b` for control characters and for bytes that are not
/// UTF-8, and
/// `\u{200b}` for the other characters that are not printable. Different texts stay different.
void append_escaped(std::string& out, std::string_view text);
std::string escaped(std::string_view text);

/// `text` as it is, or, if it has more than `max_bytes`, its beginning and its end with "[...]"
/// between them. No character of UTF-8 is cut.
std::string shortened(std::string_view text, std::size_t max_bytes);

/// How much of a name or a path is shown where it is not what the line is about.
inline constexpr std::size_t kMaxMentionBytes = 200;

/// A key path, printable; "(root)" for that of the root.
std::string path_text(std::string_view path);
/// The same for a path that is mentioned beside another one: shortened, for many lines may mention
/// it.
std::string mention_text(std::string_view path);

/// "17 B", "1.5 MiB".
std::string format_size(std::uint64_t bytes);

/// The shortest decimal that reads back as the same number, with ".0" or an exponent so that it
/// reads as a float; "nan", "inf", "-inf".
std::string format_real(double value);
/// The same for a number that is a float: fewer digits are enough.
std::string format_real(float value);

/// Aligned columns of text, before a last one that is as wide as it happens to be. Holds no rows,
/// because there may be millions: all are measured first, and then made again and printed.
class Table {
 public:
  enum class Align : std::uint8_t { kLeft, kRight };
  using Cells = std::vector<std::string>;

  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {
    widths_.resize(columns_.size());
  }

  /// Makes the columns at least as wide as those cells, one for each column.
  void measure(const Cells& cells);
  /// Appends cells and what is in the last column as a line. The text must be printable.
  void append_row(std::string& out, const Cells& cells, std::string_view last) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::size_t> widths_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TEXT_H_
