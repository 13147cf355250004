// Files whose bytes are made when they are first read.
#ifndef ESPALIER_NATIVE_MADE_SOURCE_H_
#define ESPALIER_NATIVE_MADE_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "espalier/base/error.h"
#include "espalier/format/file_set.h"
#include "espalier/native/source.h"

namespace espalier {

/// The bytes that the made files of one checkpoint may still take: Limits::made_bytes at first.
using MadeBudget = std::atomic<std::uint64_t>;

/// File `number` of a checkpoint, made by `entry.maker` from `files` when it is first read, and
/// kept in memory as long as the source lives. Reading waits for the first maker; a file that could
/// not be made gives the same error each time. Errors of read() and copy(): the maker's,
/// kLimitExceeded if `budget` does not suffice, kOutOfMemory, kTruncated.
std::shared_ptr<const Source> make_source(const FileEntry& entry,
                                          std::shared_ptr<const Source> files,
                                          std::shared_ptr<MadeBudget> budget);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_MADE_SOURCE_H_
