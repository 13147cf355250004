// Text for people: numbers, sizes, tables, and names from untrusted files.
#ifndef ESPALIER_CLI_TERMINAL_TEXT_H_
#define ESPALIER_CLI_TERMINAL_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/terminal/colors.h"
#include "espalier/base/escaped.h"
#include "espalier/error.h"

namespace espalier::cli {

/// Returns `text`, or if it has more than `max_bytes`, its beginning and end with "[...]" between.
/// Never splits a UTF-8 character.
std::string shortened(std::string_view text, std::size_t max_bytes);

/// Longest name or path that a line mentions in passing, in bytes.
inline constexpr std::size_t kMaxMentionBytes = 200;
/// How much of a message is shown: it may quote a name of any length.
inline constexpr std::size_t kMaxMessageBytes = 1000;

/// A printable key path; "(root)" for the root.
std::string path_text(std::string_view path);
/// The same, shortened, for a path that a line mentions beside another one: many lines may mention
/// it.
std::string mention_text(std::string_view path);

/// "17 B", "1.5 MiB".
std::string format_size(std::uint64_t bytes);
/// The bytes of a size as format_size() prints it, or with K, M, G, T, P or E for KiB, MiB and so
/// on, or with kB, MB and so on for powers of 1000; of a number alone. A fraction of a byte is left
/// out. kInvalidArgument for other text, and from 2^64 on.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

/// The shortest decimal that reads back as the same number, with ".0" or an exponent so that it
/// reads as a float; "nan", "inf", "-inf".
std::string format_real(double value);
/// The same for a float: fewer digits are enough.
std::string format_real(float value);

/// Aligned columns of text before a last column of any width. Stores no rows, because there may be
/// millions: measure all rows first, then make them again and print them.
class Table {
 public:
  enum class Align : std::uint8_t { kLeft, kRight };
  struct Column {
    Align align = Align::kLeft;
    Style style = Style::kPlain;
  };
  using Cells = std::vector<std::string>;

  Table(std::vector<Column> columns, Colors colors)
      : columns_(std::move(columns)), widths_(columns_.size()), colors_(colors) {}

  /// Makes the columns at least as wide as those cells, one for each column.
  void measure(const Cells& cells);
  /// Appends cells and the text of the last column as a line. The text must be printable, apart
  /// from its colours.
  void append_row(std::string& out, const Cells& cells, std::string_view last) const;
  /// The same for a line of titles, which have no colours.
  void append_titles(std::string& out, const Cells& titles, std::string_view last) const;

 private:
  void append_line(std::string& out, const Cells& cells, std::string_view last,
                   Colors colors) const;

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;
  Colors colors_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_TEXT_H_
