// What doctor says of one checkpoint: findings that count, that are ignored, that are new.
#ifndef ESPALIER_CLI_DOCTOR_DIAGNOSIS_H_
#define ESPALIER_CLI_DOCTOR_DIAGNOSIS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/doctor/ignore_list.h"
#include "espalier/checkpoint.h"
#include "espalier/detail/catalog.h"
#include "espalier/health/finding.h"
#include "examine/examine_file.h"

namespace espalier::cli {

/// How a finding compares with those of another checkpoint.
enum class Standing : std::uint8_t {
  kAlone,  // there is no other one
  kNew,    // the other one does not have it, or has it milder
  kSame,
  kGone,  // only the other one has it
  kOpen,  // only the other one has it, and its tensor was not examined here
};

struct ToldFinding {
  Finding finding;
  Standing standing = Standing::kAlone;
  std::optional<IgnoresOfFile::Match> ignored_by = std::nullopt;
  /// How bad it was in the other checkpoint, if it was milder there.
  std::optional<Severity> milder = std::nullopt;

  bool is_ignored() const { return ignored_by.has_value(); }
  /// Whether it is wrong with the checkpoint itself.
  bool is_listed() const { return !is_ignored() && !is_of_before(); }
  /// Whether only the other checkpoint has it.
  bool is_of_before() const { return standing == Standing::kGone || standing == Standing::kOpen; }
  /// Whether the exit code may depend on it.
  bool counts() const { return is_listed() && standing != Standing::kSame; }
};

struct Diagnosis {
  /// The checkpoint's name for messages.
  std::string file;
  const Catalog* catalog = nullptr;
  /// Names of code that the file's own program would run.
  std::size_t code = 0;
  /// Its findings are in `findings`.
  Examination examination;
  std::vector<ToldFinding> findings;
  std::vector<IgnoreList*> ignore_lists;
  /// The name of the other checkpoint; empty without one.
  std::string since;

  std::uint64_t listed(Severity severity) const;
  std::uint64_t counting(Severity severity) const;
  std::uint64_t ignored() const;
  std::uint64_t with(Standing standing) const;
  /// Findings that entries of this list hide here.
  std::uint64_t hidden_by(const IgnoreList& list) const;
};

/// The key paths of each chosen tensor or placeholder, as findings have them: several, if it is
/// tied.
using TensorNames = std::vector<std::vector<std::string>>;
TensorNames tensor_names(const Checkpoint& checkpoint, std::span<const std::uint32_t> nodes);

/// Appends a finding for each tensor of another checkpoint that `state` has under none of its
/// names. They are warnings if nine of ten tensors are there. With fewer it is another model, or
/// another part of one, and they are notes. A tensor that has such a finding already gets no second
/// one, and neither does one of a missing layer.
void find_missing(std::vector<ToldFinding>& findings, const TensorNames& tensors,
                  const NodeRef& state);

/// The checkpoint to compare with.
struct Before {
  std::vector<Finding> findings;
  TensorNames tensors;
};

/// Says which of `findings` are new since `before`, and appends those that are gone. Ignored ones
/// are compared, too. Findings are the same if they are of one rule at one key path; a checkpoint
/// has at most one such finding. A finding of a tensor that `state` lacks, or that was not read, is
/// open.
void compare_findings(std::vector<ToldFinding>& findings, Before before, const NodeRef& state,
                      const IgnoresOfFile& ignores);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_DOCTOR_DIAGNOSIS_H_
