// Where std::bad_alloc ends.
//
// The core lets it pass, as it builds strings and tables all over. The public functions of this
// layer that return a Result catch it, so that a program that handles errors handles this one too:
//
//   Result<void> f() try {
//     ...
//   } catch (const std::bad_alloc&) {
//     return out_of_memory();
//   }
#ifndef ESPALIER_NATIVE_OUT_OF_MEMORY_H_
#define ESPALIER_NATIVE_OUT_OF_MEMORY_H_

#include "espalier/base/error.h"

namespace espalier {

/// A kOutOfMemory that takes no memory: the text is short enough to be held by the string itself.
inline tl::unexpected<Error> out_of_memory() noexcept {
  return tl::unexpected<Error>(
      Error{ErrorCode::kOutOfMemory, Error::kNoOffset, {}, "out of memory"});
}

}  // namespace espalier

#endif  // ESPALIER_NATIVE_OUT_OF_MEMORY_H_
