// The sizes of a chunk in each form that the format has: what the encoder's choice is measured by.
#ifndef ESPALIER_TESTS_SUPPORT_CHUNK_FORMS_H_
#define ESPALIER_TESTS_SUPPORT_CHUNK_FORMS_H_

#include <cstdint>

#include "espalier/bytes.h"
#include "espalier/codec/codec.h"
#include "espalier/error.h"

namespace espalier::testing {

/// Bytes of a chunk, or of several chunks added up.
struct FormSizes {
  std::uint64_t raw = 0;
  /// One zstd frame, of zstd's own settings for the level, and its seal.
  std::uint64_t zstd = 0;
  /// Every plane in its smallest form, found by trying all. The raw size if there are no planes.
  std::uint64_t planes = 0;
  /// The smallest form, chunk by chunk. A form that saves less than a hundredth does not count.
  std::uint64_t best = 0;

  FormSizes& operator+=(const FormSizes& other);
};

/// Measures every form of a chunk at a compression level, 1 to 9, without the encoder's choices:
/// slowly. kOutOfMemory.
[[nodiscard]] Result<FormSizes> measure_forms(ByteSpan logical, ElementLayout layout, int level);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_CHUNK_FORMS_H_
