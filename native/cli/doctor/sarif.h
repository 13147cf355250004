// Diagnoses as SARIF 2.1.0, the form in which code scanners report.
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
#ifndef ESPALIER_CLI_DOCTOR_SARIF_H_
#define ESPALIER_CLI_DOCTOR_SARIF_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/diagnosis.h"
#include "cli/opening/command.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"

namespace espalier::cli {

/// A sentence on what a rule finds.
std::string_view rule_summary(HealthRule rule);

/// A file's name as a URI reference: of a relative path a relative one, of an absolute path a
/// "file:" URI. URLs stay as they are. Bytes that a URI must not have are percent-encoded.
std::string uri_of(std::string_view file);

/// One document with one run, for all files of a command. Writes as it is told; finish() ends it.
class SarifReport {
 public:
  explicit SarifReport(Output& out) : out_(out), json_(out) {}

  void add(const Diagnosis& diagnosis);
  /// A result of its own, such as one of a run, in `file`.
  void add_result(const std::string& file, const ToldFinding& told, const std::string& text);
  void add_failure(const Failure& failure);
  /// `code` is the exit code of the program.
  void finish(ExitCode code);

 private:
  struct Notification {
    std::string level;
    std::string file;
    std::string text;
  };

  void begin();
  void write_location(const std::string& file);

  Output& out_;
  JsonWriter json_;
  bool has_begun_ = false;
  bool has_failed_ = false;
  std::vector<Notification> notifications_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_DOCTOR_SARIF_H_
