// A file whose bytes Python reads: one behind a URL.
#ifndef ESPALIER_PYTHON_PYTHON_SOURCE_H_
#define ESPALIER_PYTHON_PYTHON_SOURCE_H_

#include <memory>

#include <nanobind/nanobind.h>

#include "espalier/source.h"

namespace espalier::python {

/// A source over an object with these members, which any thread may call:
///
/// - size: int
/// - read(offset, length) -> bytes, exactly `length` of them;
/// - prefetch(offset, length): that this will be read soon;
/// - expect(is_sequential): whether long sequential reads come.
///
/// An exception of read() goes through the library to the call that needed the bytes, as a
/// nanobind::python_error. Those of the others are dropped, because hints never fail.
std::shared_ptr<const Source> make_python_source(nanobind::object reader);

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_PYTHON_SOURCE_H_
