// The module espalier._core: what the package needs of the library. Handles into a file are numbers
// of its nodes; espalier/_checkpoint.py makes objects of them.
#include "bindings.h"
#include "interruptible.h"
#include <nanobind/stl/string.h>

#include "espalier/base/escaped.h"
#include "espalier/version.h"

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);  // Arrays that live until the process ends are no leak.
  module.attr("VERSION") = ESPALIER_VERSION;
  module.def(
      "escaped",
      [](const nanobind::bytes& text) {
        return espalier::escaped({text.c_str(), text.size()});
      },
      nanobind::arg("text"));
  module.def("end_calls", &espalier::python::end_calls);
  module.def("forget_other_calls", &espalier::python::forget_other_calls);
  espalier::python::bind_examining(module);
  espalier::python::bind_file(module);
  espalier::python::bind_mapping(module);
  espalier::python::bind_saving(module);
}
