// espalier._core.File for the other parts of the module.
#ifndef ESPALIER_PYTHON_FILE_H_
#define ESPALIER_PYTHON_FILE_H_

#include <string>

#include <nanobind/nanobind.h>

#include "espalier/checkpoint_file.h"

namespace espalier::python {

/// The checkpoint of a File, which must outlive it.
const CheckpointFile& checkpoint_of(nanobind::handle file);

/// A File; errors call it `where`.
nanobind::object make_file(CheckpointFile file, const std::string& where);

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_FILE_H_
