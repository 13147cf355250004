#include "errors.h"

#include <nanobind/stl/string.h>

namespace espalier::python {

namespace nb = nanobind;

nb::object text(const std::string& bytes, const char* errors) {
  PyObject* const made =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), errors);
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

nb::object exception_of(const Error& error, const std::string& where) {
  const nb::object offset =
      error.offset == Error::kNoOffset ? nb::object(nb::none()) : nb::cast(error.offset);
  Error unnamed = error;
  unnamed.file.clear();  // make() begins with it.
  return nb::module_::import_("espalier._errors")
      .attr("make")(std::string(to_string(error.code)),
                    text(unnamed.describe(), "backslashreplace"),
                    text(error.path, "backslashreplace"), offset,
                    text(error.file.empty() ? where : error.file, "surrogateescape"));
}

void raise(const nb::object& exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

void raise(const Error& error, const std::string& where) { raise(exception_of(error, where)); }

}  // namespace espalier::python
