// The parts of the module espalier._core.
#ifndef ESPALIER_PYTHON_BINDINGS_H_
#define ESPALIER_PYTHON_BINDINGS_H_

#include <string>
#include <string_view>

#include <nanobind/nanobind.h>

namespace espalier::python {

void bind_examining(nanobind::module_& module);
void bind_file(nanobind::module_& module);
void bind_mapping(nanobind::module_& module);
void bind_saving(nanobind::module_& module);

/// A path as os.fsencode() makes it, because names of files need not be UTF-8.
inline std::string path_of(const nanobind::bytes& path) {
  const std::string_view text(static_cast<const char*>(path.data()), path.size());
  // The system would take what comes before it as the name.
  if (text.find('\0') != text.npos) throw nanobind::value_error("the path has a null byte");
  return std::string(text);
}

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_BINDINGS_H_
