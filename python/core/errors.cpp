#include "errors.h"

#include <nanobind/stl/string.h>

namespace espalier::python {

namespace nb = nanobind;

nb::object exception_of(const Error& error, const std::string& where) {
  const nb::object offset =
      error.offset == Error::kNoOffset ? nb::object(nb::none()) : nb::cast(error.offset);
  return nb::module_::import_("espalier._errors")
      .attr("make")(std::string(to_string(error.code)), error.describe(), error.path, offset,
                    error.file.empty() ? where : error.file);
}

void raise(const nb::object& exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

void raise(const Error& error, const std::string& where) { raise(exception_of(error, where)); }

}  // namespace espalier::python
