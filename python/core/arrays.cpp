#include "arrays.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "dlpack.h"
#include "errors.h"
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace espalier::python {

namespace nb = nanobind;

namespace {

// The owner of memory that Python objects use.
nb::capsule capsule_of(std::shared_ptr<const void> keeper) {
  auto owned = std::make_unique<std::shared_ptr<const void>>(std::move(keeper));
  nb::capsule capsule(
      owned.get(), [](void* p) noexcept { delete static_cast<std::shared_ptr<const void>*>(p); });
  owned.release();
  return capsule;
}

// As is_of_numpy() of espalier/_decode.py.
bool is_of_numpy(std::string_view label) {
  return label.starts_with("numpy.") || label.starts_with("datetime64") ||
         label.starts_with("timedelta64");
}

// numpy and torch count elements with 64 bits and a sign, also those of arrays without any, whose
// other axes a file may make as long as it likes.
void check_shape(DType dtype, const std::vector<std::uint64_t>& shape) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = dtype_bits(dtype) < 8 ? 1 : dtype_bits(dtype) / 8;
  for (const std::uint64_t length : shape) {
    if (length > 1 && length > kMost / bytes) {
      raise(nb::module_::import_("espalier._errors")
                .attr("Unsupported")("a tensor has a shape that no array can have"));
    }
    if (length > 1) bytes *= length;
  }
}

// What by_number() of a module has: the dtype for each number, or None.
std::vector<nb::object> dtypes_of(const char* module) {
  const nb::object dtypes = nb::module_::import_(module).attr("by_number")();
  std::vector<nb::object> found;
  for (const nb::handle dtype : dtypes) found.push_back(nb::borrow(dtype));
  return found;
}

nb::object tuple_of(const std::vector<std::uint64_t>& shape) {
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  if (!made.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    PyObject* const length = PyLong_FromUnsignedLongLong(shape[i]);
    if (length == nullptr) throw nb::python_error();
    PyTuple_SetItem(made.ptr(), static_cast<Py_ssize_t>(i), length);
  }
  return made;
}

}  // namespace

Arrays::Arrays(std::string framework, std::optional<ByteSpan> mapping,
               std::shared_ptr<const void> keeper)
    : framework_(std::move(framework)),
      mapping_(mapping),
      ndarray_(nb::module_::import_("numpy").attr("ndarray")),
      by_number_(dtypes_of("espalier._dtypes")),
      uint8_(nb::module_::import_("numpy").attr("uint8")) {
  if (mapping_) base_ = buffer(*mapping_, std::move(keeper));
  if (framework_ != "torch") return;
  torch_by_number_ = dtypes_of("espalier._torch");
  from_dlpack_ = nb::module_::import_("torch.utils.dlpack").attr("from_dlpack");
}

nb::object Arrays::buffer(ByteSpan bytes, std::shared_ptr<const void> keeper) const {
  const nb::object array = nb::cast(nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(
      bytes.data(), {bytes.size()}, capsule_of(std::move(keeper))));
  // An array describes its buffer anew for each view of it, which takes as long as making the view.
  PyObject* const view = PyMemoryView_FromObject(array.ptr());
  if (view == nullptr) throw nb::python_error();
  return nb::steal(view);
}

bool Arrays::is_torch(DType dtype, std::string_view label) const {
  return from_dlpack_.is_valid() && !is_of_numpy(label) &&
         !torch_by_number_[static_cast<std::size_t>(dtype)].is_none();
}

bool Arrays::is_made_here(DType dtype, std::string_view label) const {
  if (!label.empty()) return false;
  if (from_dlpack_.is_valid()) return is_torch(dtype, label);
  return framework_ == "numpy" && !by_number_[static_cast<std::size_t>(dtype)].is_none();
}

nb::object Arrays::make_torch(DType dtype, const std::vector<std::uint64_t>& shape, ByteSpan bytes,
                              std::shared_ptr<const void> keeper) const {
  if (!is_aligned(dtype, bytes)) {  // in a file that is not ours
    std::shared_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
    std::memcpy(copy.get(), bytes.data(), bytes.size());
    bytes = {copy.get(), bytes.size()};
    keeper = std::move(copy);
  }
  nb::object made = from_dlpack_(to_dlpack(dtype, shape, bytes, std::move(keeper)));
  // Not all versions of torch know the codes of floats of 8 bits.
  if (is_exchanged_as_bytes(dtype)) {
    made = made.attr("view")(torch_by_number_[static_cast<std::size_t>(dtype)]);
  }
  return made;
}

nb::object Arrays::make(DType dtype, const std::vector<std::uint64_t>& shape,
                        std::string_view label, ByteSpan bytes,
                        std::shared_ptr<const void> keeper) {
  check_shape(dtype, shape);
  if (is_torch(dtype, label)) return make_torch(dtype, shape, bytes, std::move(keeper));
  nb::object base;
  std::size_t offset = 0;
  if (mapping_ && !bytes.empty() && bytes.data() >= mapping_->data() &&
      bytes.data() < mapping_->data() + mapping_->size()) {
    base = base_;
    offset = static_cast<std::size_t>(bytes.data() - mapping_->data());
  } else {
    base = buffer(bytes, std::move(keeper));
  }
  const nb::object& type = by_number_[static_cast<std::size_t>(dtype)];
  if (type.is_none()) return ndarray_(nb::make_tuple(bytes.size()), uint8_, base, offset);
  return ndarray_(tuple_of(shape), type, base, offset);
}

}  // namespace espalier::python
