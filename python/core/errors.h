// Errors of the library as exceptions of Python.
#ifndef ESPALIER_PYTHON_ERRORS_H_
#define ESPALIER_PYTHON_ERRORS_H_

#include <string>

#include <nanobind/nanobind.h>

#include "espalier/error.h"

namespace espalier::python {

/// A str of what need not be UTF-8, such as names of files, keys, and texts of a stranger's file:
/// `errors` says what becomes of other bytes.
nanobind::object text(const std::string& bytes, const char* errors);

/// The exception that espalier/_errors.py makes of an error; `where` names the file, or is empty.
nanobind::object exception_of(const Error& error, const std::string& where = {});

/// Sets `exception` as Python's error, and throws what nanobind passes on.
[[noreturn]] void raise(const nanobind::object& exception);
[[noreturn]] void raise(const Error& error, const std::string& where = {});

/// The value, or the error as an exception.
template <class T>
T must(Result<T> result, const std::string& where = {}) {
  if (!result) raise(result.error(), where);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_ERRORS_H_
