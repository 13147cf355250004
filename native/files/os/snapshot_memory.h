// Memory for snapshots.
#ifndef ESPALIER_FILES_OS_SNAPSHOT_MEMORY_H_
#define ESPALIER_FILES_OS_SNAPSHOT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace espalier {

/// `size` bytes with unspecified contents, aligned to a page. The page faults of new memory
/// cost several times more than a copy into it, so the largest block that was given back stays with
/// the process for the next snapshot. After its first use its pages are free for the system to take
/// when it needs memory (MADV_FREE). A block that is used again stays whole: a program that saves
/// again and again needs the memory at each save anyway, and on some virtual machines the first
/// write to a page that was marked as free takes as long as its copy. Null without memory.
/// Thread-safe.
std::shared_ptr<std::byte[]> snapshot_memory(std::uint64_t size);

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_SNAPSHOT_MEMORY_H_
