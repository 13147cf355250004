// Findings that are known and accepted: the option --ignore, and files of such entries.
//
//   nan:model/head/**          # the head is made anew in fine-tuning
//   *:tables
//
// An entry is a rule's name or '*', a colon, and a pattern of key paths. A pattern that matches a
// container stands for everything in it. In a file, a comment begins with a '#' at the beginning of
// a line or after a space.
#ifndef ESPALIER_CLI_DOCTOR_IGNORE_LIST_H_
#define ESPALIER_CLI_DOCTOR_IGNORE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/opening/command.h"
#include "espalier/checkpoint.h"
#include "espalier/health/finding.h"
#include "espalier/pattern.h"

namespace espalier::cli {

struct IgnoreEntry {
  /// As it was written, without the reason.
  std::string text;
  std::string reason;
  /// Nothing for '*', which means every rule but kUnreadable: damage is ignored only by name.
  std::optional<HealthRule> rule;
  Pattern pattern;
  /// In the file, from 1; 0 for an option.
  std::size_t line = 0;
  /// Findings that it has matched so far, in all files.
  std::uint64_t matches = 0;
};

/// The entries of one file, or of the options --ignore.
struct IgnoreList {
  /// "--ignore", or the name of the file.
  std::string name;
  /// Whether it lay beside the model, perhaps from a stranger.
  bool is_beside = false;
  std::deque<IgnoreEntry> entries;

  /// "nan:model/head (line 3 of run.espalier.doctor-ignore)"
  std::string describe(const IgnoreEntry& entry) const;
};

/// What `text`, "RULE:PATTERN", says. kInvalidArgument for a rule that does not exist, with the
/// rule that was probably meant; kInvalidPattern.
[[nodiscard]] Result<IgnoreEntry> parse_ignore_entry(std::string_view text);

/// The entries of a file's text. At most kMaxIgnoreEntries, and kMaxIgnoreBytes are read.
[[nodiscard]] Result<std::deque<IgnoreEntry>> parse_ignore_text(std::string_view text);
inline constexpr std::uint64_t kMaxIgnoreBytes = 64 * 1024;
inline constexpr std::size_t kMaxIgnoreEntries = 1000;

/// The lists that apply to one checkpoint.
class IgnoresOfFile {
 public:
  struct Match {
    IgnoreList* list;
    IgnoreEntry* entry;
  };

  /// Literal patterns mean the nodes below `root` that key paths of these texts would.
  IgnoresOfFile(std::vector<IgnoreList*> lists, const NodeRef& root);

  /// The first entry for a finding.
  std::optional<Match> match(const Finding& finding) const { return first(finding, false); }
  /// The same; every entry that matches counts it.
  std::optional<Match> use(const Finding& finding) const { return first(finding, true); }

  const std::vector<IgnoreList*>& lists() const { return lists_; }

 private:
  std::optional<Match> first(const Finding& finding, bool counts) const;

  std::vector<IgnoreList*> lists_;
  std::vector<Match> entries_;
  std::vector<Pattern> patterns_;  // resolved, of entries_
};

/// All lists of a run of the program.
class IgnoreLists {
 public:
  /// The entries of --ignore, and the files of --ignore-file.
  [[nodiscard]] tl::expected<void, Failure> add(const std::vector<std::string>& entries,
                                                const std::vector<std::string>& files);

  /// The lists for `file`. With `reads_beside`, one of them may be beside it, and is read:
  /// `file`.doctor-ignore, or else .doctor-ignore in the folder that `file` is in, or is. Nothing
  /// is beside a URL.
  [[nodiscard]] tl::expected<std::vector<IgnoreList*>, Failure> of(const std::string& file,
                                                                   bool reads_beside);

  /// Says on the standard error, in a line for each list, which entries have matched nothing.
  void tell_unmatched() const;

 private:
  std::vector<std::unique_ptr<IgnoreList>> given_;
  std::map<std::string, std::unique_ptr<IgnoreList>> beside_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_DOCTOR_IGNORE_LIST_H_
