#include "cli/opening/damage.h"

#include <algorithm>
#include <cstddef>

#include "cli/opening/command.h"
#include "cli/opening/urls.h"
#include "cli/terminal/text.h"
#include "cli/terminal/values.h"
#include "espalier/base/counted.h"
#include "espalier/base/escaped.h"

namespace espalier::cli {
namespace {

constexpr std::size_t kShownErrors = 20;

// How much of a file whose other files are missing is known to be right, and how much is not known.
std::string checked_part(const VerifyReport& report) {
  const std::string right = format_size(report.bytes) + " are right";
  // Formats of others do not tell how long their entries in a missing file are.
  if (report.unchecked == 0) return report.bytes == 0 ? "no tensor was checked" : right;
  const std::string unchecked = format_size(report.unchecked) + " of tensors were not checked";
  return report.bytes == 0 ? unchecked : right + ", " + unchecked;
}

// A file of the name that is another one, or cannot be read, is as good as missing.
std::string missing_part(const VerifyReport& report) {
  const auto end = report.errors.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(
                                               report.missing_files, report.errors.size()));
  const bool all_absent = std::all_of(report.errors.begin(), end, [](const Error& error) {
    return error.code == ErrorCode::kFileMissing;
  });
  std::string text;
  if (report.missing_files > 0) {
    text =
        counted(report.missing_files, "file") + (all_absent ? " missing" : " missing or unusable");
  }
  if (report.missing_tensors > 0) {
    text += (text.empty() ? "" : ", ") + counted(report.missing_tensors, "tensor") +
            " whose elements are not read";
  }
  return text;
}

}  // namespace

void print_damage(Output& out, const std::string& file, const VerifyReport& report) {
  const std::string name = escaped(shown_name(file));
  if (report.verdict() == VerifyVerdict::kIncomplete) {
    out.print("{}: {} ({}); {}\n", name, out.colors().paint(Style::kDamage, "INCOMPLETE"),
              missing_part(report), checked_part(report));
  } else {
    out.print("{}: {} ({})\n", name, out.colors().paint(Style::kDamage, "DAMAGED"),
              counted(report.error_count, "error"));
  }
  const std::size_t shown = std::min(report.errors.size(), kShownErrors);
  for (std::size_t i = 0; i < shown; ++i) {
    out.print("  {}\n", describe(report.errors[i]));
  }
  if (report.error_count > shown) out.print("  and {} more\n", report.error_count - shown);
}

void write_damage(JsonWriter& json, const VerifyReport& report) {
  json.member("verdict", verdict_name(report.verdict()));
  json.key("missing");
  json.begin_array();
  for (std::size_t i = 0; i < report.missing_files; ++i) json.value(report.errors[i].file);
  json.end_array();
  json.member("missing_tensors", report.missing_tensors);
  json.member("error_count", report.error_count);
  json.key("errors");
  json.begin_array();
  for (const Error& error : report.errors) {
    json.begin_object();
    write_error_members(json, error);
    json.end_object();
  }
  json.end_array();
}

}  // namespace espalier::cli
