// The result of verifying a checkpoint.
#ifndef ESPALIER_READ_VERIFY_REPORT_H_
#define ESPALIER_READ_VERIFY_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

/// Damaged spots that a VerifyReport describes; it only counts the others. Stops a report that is
/// larger than the file.
inline constexpr std::size_t kMaxReportedErrors = 1000;

/// The result of a verification. The file is intact if `error_count` is 0.
struct VerifyReport {
  /// Whether the format has hashes of chunks. Without, `checksums` tells what is known of the
  /// tensors' bytes.
  bool has_hashes = true;
  /// Chunks and bytes that were checked.
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  /// Checksums of the format that were compared in place of hashes, such as the CRC-32 of a zip
  /// archive's entries, and bytes of tensors that have none.
  std::uint64_t checksums = 0;
  std::uint64_t unchecked = 0;
  /// All that is wrong, and the first kMaxReportedErrors of it: files that cannot be read, then
  /// damage in the order of chunks.
  std::uint64_t error_count = 0;
  std::vector<Error> errors;
};

}  // namespace espalier

#endif  // ESPALIER_READ_VERIFY_REPORT_H_
