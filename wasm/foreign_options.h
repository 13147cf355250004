// The limits of the modules that open other formats.
#ifndef ESPALIER_WASM_FOREIGN_OPTIONS_H_
#define ESPALIER_WASM_FOREIGN_OPTIONS_H_

#include <algorithm>
#include <cstdint>

#include "espalier/read/opening_machine.h"

namespace espalier::abi {

/// Bytes of one made file. A module has at most 1 GiB of memory, for these and the tree.
inline constexpr std::uint64_t kMadeBytes = std::uint64_t{512} << 20;

/// What bounds the index also bounds the headers of other formats.
inline OpenOptions foreign_options(const OpenOptions& options) {
  OpenOptions lowered = options;
  Limits& limits = lowered.limits;
  for (std::uint64_t* const header : {&limits.foreign_header_bytes, &limits.zip_directory_bytes,
                                      &limits.pickle_bytes, &limits.gguf_header_bytes}) {
    *header = std::min(*header, limits.index_bytes);
  }
  limits.made_bytes = kMadeBytes;
  return lowered;
}

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_FOREIGN_OPTIONS_H_
