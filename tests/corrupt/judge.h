// The library's verdict on a file in memory after all steps: open, verify, read, restore.
//
// No I/O and no exceptions, so that the same table can be walked wherever the core runs.
#ifndef ESPALIER_TESTS_CORRUPT_JUDGE_H_
#define ESPALIER_TESTS_CORRUPT_JUDGE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "espalier/base/bytes.h"
#include "espalier/base/error.h"
#include "espalier/base/limits.h"
#include "espalier/read/checkpoint.h"

namespace espalier::testing {

/// The first thing that is wrong with a file.
struct Verdict {
  /// The step that found it: "open", "verify", "read" or "restore".
  std::string_view found_by;
  Error error = {};
  /// Whether all tensors could be read all the same; of interest after "verify".
  bool readable = false;
};

/// Judges a file that is fed `step` bytes at a time, or whole if `step` is 0. Nothing if it is
/// good.
std::optional<Verdict> judge(ByteSpan file, const Limits& limits, std::uint64_t step);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_CORRUPT_JUDGE_H_
