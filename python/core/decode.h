// Trees that were loaded, as Python objects.
#ifndef ESPALIER_PYTHON_DECODE_H_
#define ESPALIER_PYTHON_DECODE_H_

#include "arrays.h"
#include <nanobind/nanobind.h>

#include "espalier/value.h"

namespace espalier::python {

/// Turns a tree without producers into Python objects. `decode_other(kind, label, content)` of
/// espalier/_decode.py makes those with a label, unless they are to be `exact`: then labels come
/// back as espalier.Labelled. Nothing is ever imported by a name from the tree. What `convert`
/// gives for an array, if it is not None, takes its place; ties get one.
nanobind::object decode(const Value& root, Arrays& arrays, bool exact,
                        const nanobind::object& convert = nanobind::none());

/// A value without children: what decode() makes of it.
nanobind::object decode_scalar(const Value& value);

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_DECODE_H_
