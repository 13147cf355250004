// Diagnoses as annotations, which GitHub Actions shows beside the lines of a job's log.
#ifndef ESPALIER_CLI_DOCTOR_GITHUB_H_
#define ESPALIER_CLI_DOCTOR_GITHUB_H_

#include <string>
#include <string_view>

#include "cli/doctor/diagnosis.h"
#include "cli/doctor/report.h"
#include "cli/opening/command.h"
#include "cli/terminal/output.h"

namespace espalier::cli {

/// "::error file=F,title=T::TEXT" and a line feed, with the escapes of GitHub's toolkit: a file
/// could otherwise give the runner commands.
std::string annotation(std::string_view level, std::string_view file, std::string_view title,
                       std::string_view text);
/// A line of the log that is no annotation, and no command of any other kind.
std::string log_line(std::string_view text);

void print_annotations(Output& out, const Listing& listing, const Diagnosis& diagnosis);
void print_annotation(Output& out, const Failure& failure);
/// One finding in `file`, with a text of its own.
void print_annotation(Output& out, std::string_view file, const Finding& finding,
                      std::string_view text);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_DOCTOR_GITHUB_H_
