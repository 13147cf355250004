#include "cli/usage/help_text.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

namespace espalier::cli {
namespace {

constexpr std::size_t kIndent = 2;
// Where descriptions begin, if the lines are wide enough for two columns.
constexpr std::size_t kSecondColumn = 28;
constexpr std::size_t kNarrow = 60;
constexpr std::size_t kLeastColumns = 20;

// Appends words to `out`, whose last line has `column` characters; further lines begin at `indent`.
void append_wrapped(std::string& out, std::string_view text, std::size_t column, std::size_t indent,
                    std::size_t columns) {
  std::istringstream words{std::string(text)};
  bool is_first = true;
  for (std::string word; words >> word;) {
    if (!is_first && column + 1 + word.size() > columns) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    is_first = false;
  }
  out += '\n';
}

// A term and its description in two columns, or one below the other.
void append_entry(std::string& out, const std::string& term, std::string_view description,
                  std::size_t columns) {
  if (columns < kNarrow) {
    out += std::string(kIndent, ' ');
    append_wrapped(out, term, kIndent, 2 * kIndent, columns);
    out += std::string(3 * kIndent, ' ');
    return append_wrapped(out, description, 3 * kIndent, 3 * kIndent, columns);
  }
  std::string line = std::string(kIndent, ' ') + term;
  if (line.size() + 2 > kSecondColumn) {
    out += line + '\n';
    line.clear();
  }
  line.resize(kSecondColumn, ' ');
  out += line;
  append_wrapped(out, description, kSecondColumn, kSecondColumn, columns);
}

std::string term_of(const OptionUsage& option) {
  std::string term;
  for (const std::string& name : option.names) term += (term.empty() ? "" : ", ") + name;
  // Long names stand below each other.
  if (term.starts_with("--")) term.insert(0, 4, ' ');
  return option.value.name.empty() ? term : term + " " + option.value.name;
}

}  // namespace

std::string help_text(const CommandUsage& usage, std::size_t columns) {
  columns = std::max(columns, kLeastColumns);
  std::string out;
  append_wrapped(out, usage.summary + ".", 0, 0, columns);
  out += '\n';
  append_wrapped(out, "Usage: " + usage.synopsis(), 0, 7, columns);
  if (!usage.commands.empty()) out += "\nCommands:\n";
  for (const CommandUsage& command : usage.commands) {
    append_entry(out, command.short_name(), command.summary, columns);
  }
  if (!usage.arguments.empty()) out += "\nArguments:\n";
  for (const ArgumentUsage& argument : usage.arguments) {
    append_entry(out, argument.shown(), argument.description, columns);
  }
  for (const OptionGroup& group : usage.groups) {
    out += "\n" + group.title + ":\n";
    for (const OptionUsage& option : group.options) {
      append_entry(out, term_of(option), option.description, columns);
    }
  }
  if (!usage.examples.empty()) out += "\nExamples:\n";
  for (const std::string& example : usage.examples) {
    out += std::string(kIndent, ' ') + example + '\n';
  }
  if (!usage.notes.empty()) {
    out += '\n';
    append_wrapped(out, usage.notes, 0, 0, columns);
  }
  return out;
}

}  // namespace espalier::cli
