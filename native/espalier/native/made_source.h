// Files whose bytes are made (unpacked or converted) when they are first read.
#ifndef ESPALIER_NATIVE_MADE_SOURCE_H_
#define ESPALIER_NATIVE_MADE_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "espalier/base/error.h"
#include "espalier/format/file_set.h"
#include "espalier/native/source.h"

namespace espalier {

/// Memory left for the made files of one checkpoint; starts at Limits::made_bytes.
using MadeBudget = std::atomic<std::uint64_t>;

/// File `number` of a checkpoint. `entry.maker` makes it from `files` when it is first read, and it
/// stays in memory as long as the source lives. Concurrent reads wait for the first. If making the
/// file fails, every read returns the same error. Errors of read() and copy(): the maker's,
/// kLimitExceeded if `budget` is too small, kOutOfMemory, kTruncated.
std::shared_ptr<const Source> make_source(const FileEntry& entry,
                                          std::shared_ptr<const Source> files,
                                          std::shared_ptr<MadeBudget> budget);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_MADE_SOURCE_H_
