// A range of a file's bytes.
#ifndef ESPALIER_HTTP_BYTE_RANGE_H_
#define ESPALIER_HTTP_BYTE_RANGE_H_

#include <cstdint>

namespace espalier::http {

/// The bytes [begin, end) of a file.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t length() const { return end - begin; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_BYTE_RANGE_H_
