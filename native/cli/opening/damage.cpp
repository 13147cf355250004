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

}  // namespace

void print_damage(Output& out, const std::string& file, const VerifyReport& report) {
  out.print("{}: {} ({})\n", escaped(shown_name(file)),
            out.colors().paint(Style::kDamage, "DAMAGED"), counted(report.error_count, "error"));
  const std::size_t shown = std::min(report.errors.size(), kShownErrors);
  for (std::size_t i = 0; i < shown; ++i) {
    out.print("  {}\n", describe(report.errors[i]));
  }
  if (report.error_count > shown) out.print("  and {} more\n", report.error_count - shown);
}

void write_damage(JsonWriter& json, const VerifyReport& report) {
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
