// The table of the corpus: the expected verdict on each hostile file. make_corpus.py writes it.
#ifndef ESPALIER_TESTS_CORRUPT_TABLE_H_
#define ESPALIER_TESTS_CORRUPT_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "corrupt/judge.h"

#include "espalier/limits.h"

namespace espalier::testing {

struct TableRow {
  std::string file;
  std::string found_by;
  /// The name of the code; "-" if the file opens all the same.
  std::string code;
  // Where a reader has a choice, nothing is expected.
  std::optional<std::uint64_t> offset = {};
  std::optional<std::string> path = {};
  Limits limits = {};
  /// Whether the limits are others than the defaults. With one more of each, as in `eased`, the
  /// file is good.
  bool limited = false;
  Limits eased = {};
  /// A part of the message, or of that of a note if the file opens.
  std::optional<std::string> says = {};
};

/// The rows of table.txt: a line for each file, of seven columns with a tab between them (file,
/// step, code, offset, key path, limits as `name=number` with commas, a part of the message; `-`
/// for nothing). Empty if it is malformed.
std::vector<TableRow> parse_table(std::string_view text);

/// How a verdict differs from what the row expects; empty if it does not.
std::string difference(const TableRow& row, const Verdict& verdict);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_CORRUPT_TABLE_H_
