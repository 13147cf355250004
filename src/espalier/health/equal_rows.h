// Rows of a matrix that are the same as others.
#ifndef ESPALIER_HEALTH_EQUAL_ROWS_H_
#define ESPALIER_HEALTH_EQUAL_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/codec/hash.h"

namespace espalier {

/// The rows, not of one value each, whose bytes another has.
struct EqualRows {
  /// How many could be left out.
  std::uint64_t repeated = 0;
  std::uint64_t first = 0;
  /// Whether all of them are the last rows.
  bool are_at_end = false;
};

/// Takes the bytes of a matrix in order and compares its rows by XXH3-64. Takes 16 bytes for each
/// row. Not thread-safe. Throws std::bad_alloc.
class RowComparer {
 public:
  /// Rows of fewer elements are equal by chance.
  static constexpr std::uint64_t kLeastColumns = 8;

  /// `width` is the size of an element in bytes.
  RowComparer(std::size_t width, std::uint64_t columns)
      : width_(width), row_bytes_(columns * width) {}

  void add(ByteSpan packed);
  EqualRows equal_rows() const;

 private:
  struct Row {
    std::uint64_t hash;
    std::uint64_t number;
  };

  void end_row(ByteSpan row);

  std::size_t width_;
  std::uint64_t row_bytes_;
  std::vector<std::byte> begun_;  // what is known of a row that has not ended
  std::uint64_t number_ = 0;
  std::vector<Row> rows_;
};

}  // namespace espalier

#endif  // ESPALIER_HEALTH_EQUAL_ROWS_H_
