#include "corrupt/table.h"

#include <algorithm>
#include <charconv>
#include <type_traits>

namespace espalier::testing {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool set_limit(Limits& limits, std::string_view name, std::uint64_t value) {
  const auto set = [&](auto& limit) {
    limit = static_cast<std::remove_reference_t<decltype(limit)>>(value);
    return limit == value;
  };
  if (name == "index_bytes") return set(limits.index_bytes);
  if (name == "nodes") return set(limits.nodes);
  if (name == "depth") return set(limits.depth);
  if (name == "path_bytes") return set(limits.path_bytes);
  if (name == "text_bytes") return set(limits.text_bytes);
  if (name == "rank") return set(limits.rank);
  if (name == "files") return set(limits.files);
  if (name == "bigint_bytes") return set(limits.bigint_bytes);
  if (name == "foreign_header_bytes") return set(limits.foreign_header_bytes);
  if (name == "pickle_bytes") return set(limits.pickle_bytes);
  if (name == "zip_directory_bytes") return set(limits.zip_directory_bytes);
  if (name == "made_bytes") return set(limits.made_bytes);
  if (name == "decoded_bytes") return set(limits.decoded_bytes);
  if (name == "gguf_header_bytes") return set(limits.gguf_header_bytes);
  return false;
}

std::optional<TableRow> parse_row(std::string_view line) {
  const auto columns = split(line, '\t');
  if (columns.size() != 7) return std::nullopt;
  TableRow row{.file = std::string(columns[0]),
               .found_by = std::string(columns[1]),
               .code = std::string(columns[2])};
  if (columns[3] != "-") {
    row.offset = parse_number(columns[3]);
    if (!row.offset) return std::nullopt;
  }
  if (columns[4] != "-") row.path = columns[4];
  if (columns[6] != "-") row.says = columns[6];
  row.limited = columns[5] != "-";
  if (!row.limited) return row;
  for (const std::string_view limit : split(columns[5], ',')) {
    const std::size_t equals = std::min(limit.find('='), limit.size() - 1);
    const auto value = parse_number(limit.substr(equals + 1));
    const std::string_view name = limit.substr(0, equals);
    if (!value || !set_limit(row.limits, name, *value)) return std::nullopt;
    set_limit(row.eased, name, *value + 1);
  }
  return row;
}

// For a file that opens in spite of what is wrong with it: a note must say so, if the row does.
std::string difference_of_notes(const TableRow& row, const Verdict& verdict) {
  if (verdict.found_by != "opens") return "it was refused: " + verdict.error.describe();
  if (!row.says) return verdict.notes.empty() ? "" : "a note says: " + verdict.notes[0].message;
  std::string said;
  for (const Note& note : verdict.notes) {
    const bool is_here = !row.path || note.path == *row.path;
    if (is_here && note.message.find(*row.says) != std::string::npos) return {};
    said += note.path + ": " + note.message + "; ";
  }
  return "no note says: " + *row.says + ", but: " + said;
}

}  // namespace

std::vector<TableRow> parse_table(std::string_view text) {
  std::vector<TableRow> rows;
  for (const std::string_view line : split(text, '\n')) {
    auto row = parse_row(line);
    if (!row) return {};
    rows.push_back(std::move(*row));
  }
  return rows;
}

std::string difference(const TableRow& row, const Verdict& verdict) {
  if (row.found_by == "opens") return difference_of_notes(row, verdict);
  if (verdict.found_by == "opens") return "it was accepted";
  const Error& error = verdict.error;
  const std::string said = std::string(verdict.found_by) + " said: " + error.describe();
  if (to_string(error.code) != row.code) return said + ", and not " + row.code;
  if (verdict.found_by != row.found_by) return said + ", and not " + row.found_by;
  if (row.offset && error.offset != *row.offset) {
    return said + ", and not at byte " + std::to_string(*row.offset);
  }
  if (row.path && error.path != *row.path) return said + ", and not in " + *row.path;
  if (row.says && error.message.find(*row.says) == std::string::npos) {
    return said + ", and not: " + *row.says;
  }
  if (error.message.empty() || error.describe().find('\n') != std::string::npos) {
    return "the message is not one line: " + said;
  }
  return {};
}

}  // namespace espalier::testing
