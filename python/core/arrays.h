// Tensors that were loaded, as arrays of numpy or of a framework.
#ifndef ESPALIER_PYTHON_ARRAYS_H_
#define ESPALIER_PYTHON_ARRAYS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>

#include "espalier/bytes.h"
#include "espalier/dtype.h"

namespace espalier::python {

/// Makes arrays of a checkpoint's tensors without copying them.
class Arrays {
 public:
  /// `framework` is "torch", whose arrays are made here and may be written to, so that the bytes
  /// must be the caller's alone (CheckpointFile::load_writable()); or another, whose arrays
  /// espalier/_decode.py makes of those of numpy. These are read-only. `mapping` is the whole
  /// mapped file, if it is mapped: arrays of it then share one owner.
  Arrays(std::string framework, std::optional<ByteSpan> mapping,
         std::shared_ptr<const void> keeper);

  const std::string& framework() const { return framework_; }

  /// Whether make() gives an array of such elements that needs nothing more done to it. If not, it
  /// gives one of numpy, or the bytes as an array of numpy, for decode_tensor() of
  /// espalier/_decode.py.
  bool is_made_here(DType dtype, std::string_view label) const;

  /// An array of the elements, which `keeper` keeps alive.
  nanobind::object make(DType dtype, const std::vector<std::uint64_t>& shape,
                        std::string_view label, ByteSpan bytes, std::shared_ptr<const void> keeper);

 private:
  bool is_torch(DType dtype, std::string_view label) const;
  nanobind::object make_torch(DType dtype, const std::vector<std::uint64_t>& shape, ByteSpan bytes,
                              std::shared_ptr<const void> keeper) const;
  nanobind::object buffer(ByteSpan bytes, std::shared_ptr<const void> keeper) const;

  std::string framework_;
  std::optional<ByteSpan> mapping_;
  nanobind::object base_;  // all of the mapping, as bytes
  nanobind::object ndarray_;
  std::vector<nanobind::object> by_number_;
  nanobind::object uint8_;
  std::vector<nanobind::object> torch_by_number_;
  nanobind::object from_dlpack_;
};

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_ARRAYS_H_
