// Values of attributes, and texts: what stands in the tree itself.
#ifndef ESPALIER_FOREIGN_HDF5_VALUES_H_
#define ESPALIER_FOREIGN_HDF5_VALUES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/hdf5/datatype.h"
#include "espalier/foreign/hdf5/object_header.h"
#include "espalier/foreign/hdf5/reading.h"

namespace espalier {

/// A number, a text, bytes, or a list of these.
struct Hdf5Value {
  enum class Kind : std::uint8_t {
    kNull,
    kBool,
    kInteger,
    kUnsigned,
    kReal,
    kComplex,
    kText,
    kList
  };

  Kind kind = Kind::kNull;
  std::int64_t integer = 0;  // a bool, too
  std::uint64_t natural = 0;
  double real = 0;
  double imaginary = 0;
  /// A text if it is UTF-8, otherwise bytes. Lies in the pieces of the file.
  ByteSpan text = {};
  bool is_bytes = false;
  std::vector<Hdf5Value> items = {};
  /// The type, as a label.
  std::string label = {};
};

/// The global heap: collections of what has variable length. Each is read once.
class Hdf5GlobalHeap {
 public:
  /// Object `index` of the collection at `address`; none if the reading lacks it or fails.
  ByteSpan get(Hdf5Reading& reading, std::uint64_t address, std::uint32_t index);

 private:
  using Objects = std::vector<std::pair<std::uint16_t, ByteSpan>>;  // sorted
  const Objects* read(Hdf5Reading& reading, std::uint64_t address);

  std::map<std::uint64_t, Objects> collections_;
};

/// The value of elements of `type` with `shape`, in nested lists.
Hdf5Value read_hdf5_value(Hdf5Reading& reading, Hdf5GlobalHeap& heap, const Hdf5Type& type,
                          std::span<const std::uint64_t> shape, ByteSpan bytes);

struct Hdf5Attribute {
  std::string_view name;
  Hdf5Value value;
  /// Why there is no value.
  std::optional<Error> problem;
};

/// The attributes of the object with these messages: in the order in which they were made, if it
/// tracks that, otherwise by their names.
std::vector<Hdf5Attribute> read_attributes(Hdf5Reading& reading, Hdf5GlobalHeap& heap,
                                           const std::vector<Hdf5Message>& messages);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_VALUES_H_
