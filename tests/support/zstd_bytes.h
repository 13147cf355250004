// Frames of zstd that no compressor makes.
#ifndef ESPALIER_TESTS_SUPPORT_ZSTD_BYTES_H_
#define ESPALIER_TESTS_SUPPORT_ZSTD_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::testing {

/// A frame of `blocks` blocks of `size` times the byte 7, which does not say how much it holds. Its
/// window is 2^window_log bytes (RFC 8878, section 3.1.1).
inline std::vector<std::byte> repeating_frame(unsigned window_log, unsigned blocks,
                                              std::uint64_t size = 128 * 1024) {
  std::vector<std::byte> frame;
  const auto add = [&](std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) frame.push_back(static_cast<std::byte>(number >> (8 * i)));
  };
  add(0xFD2FB528, 4);
  add(0, 1);  // neither a content size nor a checksum
  add((window_log - 10) << 3, 1);
  for (unsigned i = 0; i < blocks; ++i) {
    const std::uint64_t is_last = i + 1 == blocks ? 1 : 0;
    add(size << 3 | 1 << 1 | is_last, 3);
    add(7, 1);
  }
  return frame;
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_ZSTD_BYTES_H_
