// A made file whose bytes are in memory already.
#ifndef ESPALIER_FOREIGN_COMMON_KEPT_BYTES_H_
#define ESPALIER_FOREIGN_COMMON_KEPT_BYTES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/format/file_set.h"

namespace espalier {

/// Keeps bytes that stand in a file in another form and were decoded when it was opened, such as
/// the arrays in a pickle of protocol 2. They are one made file together. Not thread-safe.
class KeptBytes {
 public:
  struct Place {
    std::uint16_t file = 0;
    std::uint64_t offset = 0;
  };
  /// Copies `bytes`; where in `files` they can be read, the same set at each call. Made files have
  /// the highest numbers, so no further file may be wanted after the first call. kLimitExceeded if
  /// there are too many files.
  [[nodiscard]] Result<Place> keep(FileSet& files, ByteSpan bytes);

 private:
  std::shared_ptr<std::vector<std::byte>> bytes_;
  std::uint16_t file_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_KEPT_BYTES_H_
