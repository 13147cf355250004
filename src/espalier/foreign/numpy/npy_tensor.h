// From the header of a .npy file to a node of a checkpoint.
#ifndef ESPALIER_FOREIGN_NUMPY_NPY_TENSOR_H_
#define ESPALIER_FOREIGN_NUMPY_NPY_TENSOR_H_

#include <cstdint>
#include <optional>

#include "espalier/foreign/numpy/read_npy_header.h"
#include "espalier/format/table_builder.h"
#include "espalier/notes.h"

namespace espalier {

/// Bytes of all elements; nothing if that is more than a tensor can have.
std::optional<std::uint64_t> npy_data_bytes(const NpyArray& array);

/// Adds `array` as the next node: a tensor whose elements lie at `offset` of file number `file`, or
/// a placeholder if the library cannot show them. npy_data_bytes() must be known. `block.name` must
/// stay where it is until TableBuilder::finish(). The note to give, without its path, if there is
/// anything to say.
std::optional<Note> add_npy_tensor(TableBuilder& builder, const NpyArray& array, std::uint16_t file,
                                   std::uint64_t offset);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_NUMPY_NPY_TENSOR_H_
