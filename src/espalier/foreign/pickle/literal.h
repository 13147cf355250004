// The opcodes that push a literal, and where its bytes stand.
#ifndef ESPALIER_FOREIGN_PICKLE_LITERAL_H_
#define ESPALIER_FOREIGN_PICKLE_LITERAL_H_

#include <cstddef>
#include <optional>

#include "espalier/base/checked.h"
#include "espalier/base/little_endian.h"
#include "espalier/bytes.h"
#include "espalier/foreign/pickle/opcode.h"
#include "espalier/foreign/pickle/pickle_graph.h"

namespace espalier {

/// Where the argument of the opcode at `at` begins and ends, and where the next opcode stands.
struct OpSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t next = 0;
};
/// The line that begins at `begin`; nothing if it has no end.
std::optional<OpSpan> find_line(ByteSpan pickle, std::size_t begin);

/// The little-endian number of 1, 2, 4 or 8 bytes at `at`.
inline std::uint64_t load_number(const std::byte* at, std::size_t bytes) {
  switch (bytes) {
    case 1:
      return load_le<std::uint8_t>(at);
    case 2:
      return load_le<std::uint16_t>(at);
    case 4:
      return load_le<std::uint32_t>(at);
    default:
      return load_le<std::uint64_t>(at);
  }
}

/// Nothing if the argument goes past the end of `pickle`.
inline std::optional<OpSpan> find_argument(ByteSpan pickle, std::size_t at) {
  const OpForm form = form_of(static_cast<PickleOp>(pickle[at]));
  const std::size_t begin = at + 1 + form.length_bytes;
  if (begin > pickle.size()) return std::nullopt;
  if (form.is_line) return find_line(pickle, begin);
  const std::uint64_t length =
      form.length_bytes == 0 ? form.fixed : load_number(pickle.data() + at + 1, form.length_bytes);
  if (!range_fits(begin, length, pickle.size())) return std::nullopt;
  const std::size_t end = begin + static_cast<std::size_t>(length);
  return OpSpan{begin, end, end};
}

/// Whether the argument of an opcode of protocol 0 is what Python writes there.
bool is_valid_line(PickleOp op, std::string_view line);

/// The literal that the opcode at `at` pushes; its argument must be there.
PickleLiteral read_literal(ByteSpan pickle, std::size_t at);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_PICKLE_LITERAL_H_
