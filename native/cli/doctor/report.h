// Diagnoses as text for people, and as JSON for programs.
#ifndef ESPALIER_CLI_DOCTOR_REPORT_H_
#define ESPALIER_CLI_DOCTOR_REPORT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "cli/doctor/diagnosis.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"

namespace espalier::cli {

/// Findings of one rule that are listed without --all.
inline constexpr std::size_t kShownOfRule = 20;

/// Which findings to list.
struct Listing {
  /// All of each rule, and the ignored ones.
  bool all = false;
  /// No notes.
  bool quiet = false;
};

/// The sentence of a finding without the path of its tensor; printable.
std::string finding_text(const Finding& finding);
/// "1 fault, 2 ignored; 300 tensors examined, 206.9 MiB"
std::string summary_text(const Diagnosis& diagnosis);
/// "FILE: 3 findings ignored": what a list that lay beside the model hides; printable.
std::string beside_text(const Diagnosis& diagnosis, const IgnoreList& list);
/// "nan:model/head (line 3 of FILE): reason"; printable.
std::string ignored_text(const IgnoresOfFile::Match& match);

/// "new", "same", "gone".
std::string_view standing_name(Standing standing);

void print_diagnosis(Output& out, const Listing& listing, const Diagnosis& diagnosis);
/// Writes an object.
void write_diagnosis(JsonWriter& json, const Diagnosis& diagnosis);
/// Writes the members of a finding.
void write_finding_members(JsonWriter& json, const Finding& finding);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_DOCTOR_REPORT_H_
