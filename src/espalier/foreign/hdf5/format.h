// The rows of HDF5 and of Keras's archives.
#ifndef ESPALIER_FOREIGN_HDF5_FORMAT_H_
#define ESPALIER_FOREIGN_HDF5_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

inline constexpr FormatEnding kHdf5Endings[] = {{".h5", "an HDF5 file"}, {".hdf5", "an HDF5 file"}};
inline constexpr FormatInfo kHdf5Format{"hdf5", "HDF5", kHdf5Endings};

inline constexpr FormatEnding kKerasEndings[] = {{".keras", "a Keras model"}};
inline constexpr FormatInfo kKerasFormat{"keras", "Keras", kKerasEndings};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_FORMAT_H_
