// The library's verdict on files in memory after all steps: open, verify, read, restore.
//
// No I/O and no exceptions, so that the same table can be walked wherever the core runs.
#ifndef ESPALIER_TESTS_CORRUPT_JUDGE_H_
#define ESPALIER_TESTS_CORRUPT_JUDGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/notes.h"
#include "espalier/value.h"

namespace espalier::testing {

/// The first thing that is wrong with a file.
struct Verdict {
  /// The step that found it: "open", "verify" if the tensors can be read all the same, "read" if
  /// they cannot, "restore"; "opens" if nothing is wrong.
  std::string_view found_by = "opens";
  Error error = {};
  /// What the opener noticed in a file that is not refused.
  std::vector<Note> notes = {};
};

/// The file to open, and all files of its folder by name, itself among them.
struct OpenedFolder {
  std::string name;
  std::map<std::string, std::vector<std::byte>> files;
};

/// Judges a file that is fed `step` bytes at a time, or whole if `step` is 0. `is_remote` is that
/// of OpenOptions.
Verdict judge(const OpenedFolder& folder, const Limits& limits, std::uint64_t step,
              bool is_remote = false);

/// The steps after opening, with what verifying and loading both roots gave.
Verdict judge_contents(const Checkpoint& checkpoint, const Limits& limits,
                       Result<VerifyReport> report, Result<Value> state, Result<Value> metadata);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_CORRUPT_JUDGE_H_
