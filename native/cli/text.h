// Text for people: numbers, sizes, tables, and names from files that nobody trusts.
#ifndef ESPALIER_CLI_TEXT_H_
#define ESPALIER_CLI_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::cli {

/// Whether a character may be printed as it is. Not so control characters (a terminal obeys them),
/// characters without width (they hide differences) and those that change the direction of what
/// follows (they make a name read as another one).
bool is_printable(char32_t code_point);

/// Appends `text` with `\n`, `\t`, `\\`, `\x1b` for control characters and for bytes that are not
/// UTF-8, and
/// `\u{200b}` for the other characters that are not printable. Different texts stay different.
void append_escaped(std::string& out, std::string_view text);
std::string escaped(std::string_view text);

/// "17 B", "1.5 MiB".
std::string format_size(std::uint64_t bytes);

/// "1 tensor", "2 tensors".
std::string format_count(std::uint64_t count, std::string_view noun);

/// The shortest decimal that reads back as the same number, with ".0" or an exponent so that it
/// reads as a float; "nan", "inf", "-inf".
std::string format_real(double value);
/// The same for a number that is a float: fewer digits are enough.
std::string format_real(float value);

/// Columns of text. The last one is as wide as it happens to be.
class Table {
 public:
  enum class Align : std::uint8_t { kLeft, kRight };

  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {
    widths_.resize(columns_.size());
  }

  /// Adds the next cell, rows from left to right. The text must be printable.
  void add(std::string_view cell);
  std::size_t rows() const { return ends_.size() / columns_.size(); }
  /// Appends one row as a line.
  void append_row(std::string& out, std::size_t row) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::size_t> widths_;
  std::string text_;  // all cells, one after the other: a table may have a million rows
  std::vector<std::size_t> ends_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TEXT_H_
