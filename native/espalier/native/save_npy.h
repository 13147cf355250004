// Saves one tensor for programs that know no checkpoints: as a .npy file, or as plain bytes.
#ifndef ESPALIER_NATIVE_SAVE_NPY_H_
#define ESPALIER_NATIVE_SAVE_NPY_H_

#include <filesystem>

#include "espalier/base/error.h"
#include "espalier/native/save.h"
#include "espalier/tree/value.h"

namespace espalier {

/// Saves a tensor as a .npy file at `path`, completely or not at all, as save() does. The file is
/// byte for byte that of `numpy.save`: `numpy.load` reads or maps it. `options` apply as for
/// save(); the file has no metadata and no names of axes. Errors: kUnrepresentable if NumPy has no
/// such dtype; kInvalidTree for a placeholder, and for data that do not fit the shape;
/// kInvalidArgument for metadata, a compression level or an ending of another format. All of these
/// before anything is written; then those of the tensor's producer; kIoError; kOutOfMemory.
[[nodiscard]] Result<void> save_npy(const std::filesystem::path& path, const Tensor& tensor,
                                    const SaveOptions& options = {});

/// The same with nothing but the bytes of the tensor: packed, in C order, little-endian. Every
/// dtype has such bytes.
[[nodiscard]] Result<void> save_raw(const std::filesystem::path& path, const Tensor& tensor,
                                    const SaveOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_NATIVE_SAVE_NPY_H_
