// The opcodes of pickles: https://github.com/python/cpython/blob/main/Lib/pickletools.py
#ifndef ESPALIER_FOREIGN_PICKLE_OPCODE_H_
#define ESPALIER_FOREIGN_PICKLE_OPCODE_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace espalier {

enum class PickleOp : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloat = 'F',
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLong = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kPersId = 'P',
  kBinPersId = 'Q',
  kReduce = 'R',
  kString = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicode = 'V',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kInst = 'i',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kObj = 'o',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObj = 0x81,
  kExt1 = 0x82,
  kExt2 = 0x83,
  kExt4 = 0x84,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8A,
  kLong4 = 0x8B,
  kShortBinUnicode = 0x8C,
  kBinUnicode8 = 0x8D,
  kBinBytes8 = 0x8E,
  kEmptySet = 0x8F,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
  kNextBuffer = 0x97,
  kReadonlyBuffer = 0x98,
};

/// How the argument of an opcode is delimited, and whether it is a literal.
struct OpForm {
  /// Bytes of a length before the argument: 1, 2, 4 or 8; 0 if there is none.
  std::uint8_t length_bytes = 0;
  /// Bytes of the argument if it has a fixed size.
  std::uint8_t fixed = 0;
  /// Whether it is a line, which ends with a newline.
  bool is_line = false;
  /// Whether the length is an i32, which must not be negative.
  bool is_signed = false;
  /// Whether the opcode pushes a literal.
  bool is_literal = false;
};

constexpr OpForm make_form(PickleOp op) {
  switch (op) {
    case PickleOp::kFloat:
    case PickleOp::kInt:
    case PickleOp::kLong:
    case PickleOp::kString:
    case PickleOp::kUnicode:
      return {.is_line = true, .is_literal = true};
    case PickleOp::kGet:
    case PickleOp::kPut:
    case PickleOp::kPersId:
      return {.is_line = true};
    case PickleOp::kBinGet:
    case PickleOp::kBinPut:
    case PickleOp::kProto:
    case PickleOp::kExt1:
      return {.fixed = 1};
    case PickleOp::kExt2:
      return {.fixed = 2};
    case PickleOp::kLongBinGet:
    case PickleOp::kLongBinPut:
    case PickleOp::kExt4:
      return {.fixed = 4};
    case PickleOp::kFrame:
      return {.fixed = 8};
    case PickleOp::kNone:
    case PickleOp::kNewTrue:
    case PickleOp::kNewFalse:
      return {.is_literal = true};
    case PickleOp::kBinInt1:
      return {.fixed = 1, .is_literal = true};
    case PickleOp::kBinInt2:
      return {.fixed = 2, .is_literal = true};
    case PickleOp::kBinInt:
      return {.fixed = 4, .is_literal = true};
    case PickleOp::kBinFloat:
      return {.fixed = 8, .is_literal = true};
    case PickleOp::kShortBinString:
    case PickleOp::kShortBinBytes:
    case PickleOp::kShortBinUnicode:
    case PickleOp::kLong1:
      return {.length_bytes = 1, .is_literal = true};
    case PickleOp::kBinUnicode:
    case PickleOp::kBinBytes:
      return {.length_bytes = 4, .is_literal = true};
    case PickleOp::kBinString:
    case PickleOp::kLong4:
      return {.length_bytes = 4, .is_signed = true, .is_literal = true};
    case PickleOp::kBinUnicode8:
    case PickleOp::kBinBytes8:
    case PickleOp::kByteArray8:
      return {.length_bytes = 8, .is_literal = true};
    default:
      return {};
  }
}

/// A table: a pickle has thirty opcodes for each tensor.
inline constexpr auto kOpForms = [] {
  std::array<OpForm, 256> forms = {};
  for (std::size_t i = 0; i < forms.size(); ++i) {
    forms[i] = make_form(static_cast<PickleOp>(i));
  }
  return forms;
}();

inline OpForm form_of(PickleOp op) { return kOpForms[static_cast<std::uint8_t>(op)]; }

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_PICKLE_OPCODE_H_
