// How far long work is.
#ifndef ESPALIER_PROGRESS_H_
#define ESPALIER_PROGRESS_H_

#include <cstdint>
#include <functional>

namespace espalier {

/// Reports progress: bytes done and bytes in total. Called from one thread at a time, but not
/// always the same one. Must not throw.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

}  // namespace espalier

#endif  // ESPALIER_PROGRESS_H_
