// Memory that is handed to another library as DLPack has it.
#ifndef ESPALIER_PYTHON_DLPACK_H_
#define ESPALIER_PYTHON_DLPACK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include <nanobind/nanobind.h>

#include "espalier/bytes.h"
#include "espalier/dtype.h"

namespace espalier::python {

/// Whether to_dlpack() gives elements of this dtype as those of u8.
bool is_exchanged_as_bytes(DType dtype);

/// Whether the bytes begin where an element may stand.
bool is_aligned(DType dtype, ByteSpan bytes);

/// A capsule "dltensor" (DLPack 0.x) of elements of one byte or more each in C order. The library
/// that takes it may write to them. The last owner lets `keeper` go, on any thread and without the
/// GIL.
nanobind::object to_dlpack(DType dtype, const std::vector<std::uint64_t>& shape, ByteSpan bytes,
                           std::shared_ptr<const void> keeper);

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_DLPACK_H_
