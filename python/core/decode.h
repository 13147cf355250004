// Trees that were loaded, as Python objects.
#ifndef ESPALIER_PYTHON_DECODE_H_
#define ESPALIER_PYTHON_DECODE_H_

#include <memory>
#include <optional>

#include <nanobind/nanobind.h>

#include "espalier/base/bytes.h"
#include "espalier/tree/value.h"

namespace espalier::python {

/// Makes read-only numpy arrays of a checkpoint's tensors.
class Arrays {
 public:
  /// `mapping` is the whole mapped file, if it is mapped: arrays of it then share one owner.
  Arrays(std::optional<ByteSpan> mapping, std::shared_ptr<const void> keeper);

  /// Whether numpy has arrays of such elements, as they lie in a file. If not, make() gives their
  /// bytes, which decode_tensor() of espalier/_decode.py turns into something better.
  bool has_dtype(DType dtype) const;

  /// An array of the elements, which `keeper` keeps alive.
  nanobind::object make(DType dtype, const std::vector<std::uint64_t>& shape, ByteSpan bytes,
                        std::shared_ptr<const void> keeper);

 private:
  nanobind::object buffer(ByteSpan bytes, std::shared_ptr<const void> keeper) const;

  std::optional<ByteSpan> mapping_;
  nanobind::object base_;  // all of the mapping, as bytes
  nanobind::object ndarray_;
  nanobind::object by_number_;
  nanobind::object uint8_;
};

/// Turns a tree without producers into Python objects. `decode_other(kind, label, content)` of
/// espalier/_decode.py makes those with a label, unless they are to be `exact`: then labels come
/// back as espalier.Labelled. Nothing is ever imported by a name from the tree.
nanobind::object decode(const Value& root, Arrays& arrays, bool exact);

/// A value without children: what decode() makes of it.
nanobind::object decode_scalar(const Value& value);

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_DECODE_H_
