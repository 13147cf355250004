// Converts std::bad_alloc to an error.
//
// The core lets std::bad_alloc pass, because almost every function builds strings or tables. The
// public functions of this layer that return a Result catch it, so programs handle it like any
// other error:
//
//   Result<void> f() try {
//     ...
//   } catch (const std::bad_alloc&) {
//     return out_of_memory();
//   }
#ifndef ESPALIER_FILES_OS_OUT_OF_MEMORY_H_
#define ESPALIER_FILES_OS_OUT_OF_MEMORY_H_

#include "espalier/error.h"

namespace espalier {

/// A kOutOfMemory that allocates nothing: the text fits in the string's inline buffer.
inline tl::unexpected<Error> out_of_memory() noexcept {
  return tl::unexpected<Error>(
      Error{ErrorCode::kOutOfMemory, Error::kNoOffset, {}, "out of memory"});
}

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_OUT_OF_MEMORY_H_
