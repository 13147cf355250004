// The opcodes that push a literal, and where its bytes stand.
#ifndef ESPALIER_FOREIGN_PICKLE_LITERAL_H_
#define ESPALIER_FOREIGN_PICKLE_LITERAL_H_

#include <cstddef>
#include <optional>

#include "espalier/base/bytes.h"
#include "espalier/foreign/pickle/opcode.h"
#include "espalier/foreign/pickle/pickle_graph.h"

namespace espalier {

/// How the argument of an opcode is delimited.
struct OpArgument {
  /// Bytes of a length before the argument: 1, 2, 4 or 8; 0 if there is none.
  std::uint8_t length_bytes = 0;
  /// Bytes of the argument if it has a fixed size.
  std::uint8_t fixed = 0;
  /// Whether it is a line, which ends with a newline.
  bool is_line = false;
  /// Whether the length is an i32, which must not be negative.
  bool is_signed = false;
};
OpArgument argument_of(PickleOp op);

/// Where the argument of the opcode at `at` begins and ends, and where the next opcode stands.
struct OpSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t next = 0;
};
/// Nothing if the argument goes past the end of `pickle`.
std::optional<OpSpan> find_argument(ByteSpan pickle, std::size_t at);

/// Whether the argument of an opcode of protocol 0 is what Python writes there.
bool is_valid_line(PickleOp op, std::string_view line);

/// Whether `op` pushes a literal.
bool is_literal(PickleOp op);

/// The literal that the opcode at `at` pushes; its argument must be there.
PickleLiteral read_literal(ByteSpan pickle, std::size_t at);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_PICKLE_LITERAL_H_
