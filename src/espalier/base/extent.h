// A range of bytes in one of the files that make up a checkpoint.
#ifndef ESPALIER_BASE_EXTENT_H_
#define ESPALIER_BASE_EXTENT_H_

#include <cstdint>

namespace espalier {

/// `length` bytes at `offset` of file number `file`. File 0 is the opened one; the catalog's
/// FileSet lists the others.
struct Extent {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

}  // namespace espalier

#endif  // ESPALIER_BASE_EXTENT_H_
