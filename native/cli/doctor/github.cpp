#include "cli/doctor/github.h"

#include <cstddef>
#include <map>

#include <fmt/format.h>

#include "cli/opening/urls.h"
#include "cli/terminal/text.h"
#include "espalier/base/escaped.h"
#include "espalier/notes.h"

namespace espalier::cli {
namespace {

// escapeData() and escapeProperty() of actions/toolkit, packages/core/src/command.ts.
std::string command_text(std::string_view text, bool is_property) {
  std::string out;
  for (const char c : text) {
    const bool is_special =
        c == '%' || c == '\r' || c == '\n' || (is_property && (c == ':' || c == ','));
    out += is_special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out;
}

std::string_view annotation_level(Severity severity) {
  switch (severity) {
    case Severity::kFault:
      return "error";
    case Severity::kWarning:
      return "warning";
    default:
      return "notice";
  }
}

}  // namespace

std::string annotation(std::string_view level, std::string_view file, std::string_view title,
                       std::string_view text) {
  std::string line = fmt::format("::{} ", level);
  if (!file.empty()) line += "file=" + command_text(escaped(file), true) + ",";
  return line + "title=" + command_text(title, true) + "::" + command_text(escaped(text), false) +
         "\n";
}

std::string log_line(std::string_view text) {
  // A line that begins with "::" is a command, and so is "##[" anywhere in a line.
  std::string line = "doctor: " + escaped(text) + "\n";
  for (std::size_t at = 0; (at = line.find("##[", at)) != std::string::npos;) {
    line.insert(at + 2, "\\");
  }
  return line;
}

void print_annotation(Output& out, std::string_view file, const Finding& finding,
                      std::string_view text) {
  out.write(
      annotation(annotation_level(finding.severity), file, health_rule_name(finding.rule), text));
}

void print_annotation(Output& out, const Failure& failure) {
  out.write(annotation("error", shown_name(failure.file), "not examined", describe(failure)));
}

void print_annotations(Output& out, const Listing& listing, const Diagnosis& diagnosis) {
  for (const Note& note : diagnosis.catalog->notes().code()) {
    out.write(annotation("notice", diagnosis.file, "code",
                         (note.path.empty() ? "" : path_text(note.path) + ": ") + note.message));
  }
  std::map<HealthRule, std::size_t> counts;
  for (const ToldFinding& told : diagnosis.findings) {
    const Finding& finding = told.finding;
    if (!told.counts() || (listing.quiet && finding.severity == Severity::kNote)) continue;
    if (++counts[finding.rule] > kShownOfRule && !listing.all) continue;
    print_annotation(out, diagnosis.file, finding,
                     path_text(finding.path) + ": " + finding_text(finding));
  }
  for (const auto& [rule, count] : counts) {
    if (count <= kShownOfRule || listing.all) continue;
    out.write(log_line(
        fmt::format("{} more of {}: use --all", count - kShownOfRule, health_rule_name(rule))));
  }
  for (const IgnoreList* const list : diagnosis.ignore_lists) {
    if (list->is_beside) out.write(log_line(beside_text(diagnosis, *list)));
  }
  out.write(log_line(diagnosis.file + ": " + summary_text(diagnosis)));
}

}  // namespace espalier::cli
