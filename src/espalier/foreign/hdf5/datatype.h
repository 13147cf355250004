// Types of elements, as HDF5 describes them.
#ifndef ESPALIER_FOREIGN_HDF5_DATATYPE_H_
#define ESPALIER_FOREIGN_HDF5_DATATYPE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "espalier/dtype.h"
#include "espalier/foreign/hdf5/reading.h"

namespace espalier {

struct Hdf5Type {
  enum class Class : std::uint8_t {
    kNumber,
    /// A text of `bytes` bytes.
    kText,
    /// Bytes that the library keeps as they are: opaque and compound elements.
    kBlock,
    /// Texts or elements of `element` in the global heap.
    kVariableText,
    kVariable,
  };
  /// How a text of fixed length ends.
  enum class Padding : std::uint8_t { kNulEnded, kNuls, kSpaces };

  Class type_class = Class::kNumber;
  /// kOpaque unless a number.
  DType dtype = DType::kOpaque;
  Padding padding = Padding::kNulEnded;
  bool is_swapped = false;
  bool is_utf8 = false;
  /// Of one element, without `axes`.
  std::uint64_t bytes = 0;
  /// Further axes, of array types.
  std::vector<std::uint64_t> axes;
  /// As NumPy names it, or close to it: "<f4", "|S5", "|V2", "[('x', '<f4'), ('n', '<i8')]".
  std::string name;
  /// The tag of an opaque type.
  std::string tag;
  /// Names of an enumeration's values, as "A=0, B=2".
  std::string values;
  std::shared_ptr<const Hdf5Type> element;

  bool is_variable() const {
    return type_class == Class::kVariableText || type_class == Class::kVariable;
  }
};

/// Reads a type. Refuses those that have no place here, by name.
Hdf5Type read_hdf5_type(Hdf5Reading& reading, ByteSpan bytes);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_DATATYPE_H_
