// The two kinds of B-trees that link structures of an HDF5 file.
#ifndef ESPALIER_FOREIGN_HDF5_TREES_H_
#define ESPALIER_FOREIGN_HDF5_TREES_H_

#include <cstdint>

#include "espalier/base/function_ref.h"
#include "espalier/bytes.h"
#include "espalier/foreign/hdf5/reading.h"

namespace espalier {

/// Goes through a tree of version 1 of `kind` 0 (groups) or 1 (chunks), whose keys have `key_bytes`
/// bytes: gives the key and the address of each child of the leaves. Each node counts once.
void read_tree1(Hdf5Reading& reading, std::uint64_t root, std::uint8_t kind,
                std::uint32_t key_bytes,
                FunctionRef<void(ByteSpan key, std::uint64_t child)> found);

/// Goes through the records of a tree of version 2 of `type`, in their order.
void read_tree2(Hdf5Reading& reading, std::uint64_t header, std::uint8_t type,
                FunctionRef<void(ByteSpan record)> found);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_TREES_H_
