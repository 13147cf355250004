// The tables of LevelDB, as which TensorFlow writes the index of a checkpoint.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_SORTED_TABLE_H_
#define ESPALIER_FOREIGN_TENSORFLOW_SORTED_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/limits.h"

namespace espalier {

/// The CRC-32C that is stored as `masked`: rotated, and with a constant added, so that a CRC of
/// bytes that contain it means something.
constexpr std::uint32_t unmask_crc32c(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xA282EAD8u;
  return (rotated >> 17) | (rotated << 15);
}

/// All keys of a table with their values, in their order. Views of the file and of the table
/// itself.
class SortedTable {
 public:
  struct Entry {
    std::string_view key;
    ByteSpan value;
  };

  /// Reads all of a table, with its checksums. kForeignInvalid for damage, and for what makes
  /// LevelDB lose keys: any that are not sorted, restarts that are no entries, blocks that overlap;
  /// kTruncated without the magic at its end; kLimitExceeded if all keys take more than
  /// `limits.text_bytes`, all unpacked blocks more than `limits.foreign_header_bytes`, or there are
  /// more keys than `limits.nodes`. `file` must outlive the table.
  [[nodiscard]] static Result<SortedTable> read(ByteSpan file, const Limits& limits);

  std::span<const Entry> entries() const { return entries_; }

 private:
  friend class SortedTableReader;
  SortedTable() = default;

  std::vector<Entry> entries_;
  std::vector<char> keys_;
  std::vector<std::vector<std::byte>> unpacked_;
};

/// Whether a file that begins with `front` begins as a table does whose first key is empty: gives
/// the beginning of that key's value, and its length; nothing otherwise. Its first block may be
/// packed.
struct FirstValue {
  ByteSpan bytes;  // as far as it lies in the front
  std::uint64_t length = 0;
};
bool find_first_value(ByteSpan front, FirstValue& value);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_SORTED_TABLE_H_
