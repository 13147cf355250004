// The types of elements in TensorFlow's checkpoints.
#ifndef ESPALIER_FOREIGN_TENSORFLOW_ELEMENT_TYPE_H_
#define ESPALIER_FOREIGN_TENSORFLOW_ELEMENT_TYPE_H_

#include <cstdint>
#include <string_view>

#include "espalier/dtype.h"

namespace espalier {

/// How elements of a DataType are stored.
struct TensorFlowType {
  enum class Storage : std::uint8_t {
    kPlain,    // as ours
    kNarrow,   // a byte each, of which ours take a part
    kText,     // strings: their lengths, and after these their bytes
    kVariant,  // the length and the bytes of each
    kRefused,  // none: handles of what only a running program has
    kUnknown,  // of a later version
  };
  Storage storage = Storage::kUnknown;
  /// TensorFlow's name.
  std::string_view name;
  /// Of kPlain and kNarrow.
  DType dtype = DType::kOpaque;
  /// Bytes of an element, of kPlain and kNarrow.
  std::uint64_t width = 0;
  /// Of integers that stand for other numbers; what their nodes are labelled.
  std::string_view label = {};
  /// Whether a narrow one is a number with a sign.
  bool is_signed = false;

  BlockType block() const {
    return dtype == DType::kOpaque ? BlockType{name, 1, static_cast<std::uint32_t>(width)}
                                   : BlockType{};
  }
};

/// The type with this number, whatever it is.
TensorFlowType tensorflow_type(std::uint64_t number);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TENSORFLOW_ELEMENT_TYPE_H_
