// The classes and functions that pickles of checkpoints name and that are data.
#ifndef ESPALIER_FOREIGN_TORCH_DATA_GLOBALS_H_
#define ESPALIER_FOREIGN_TORCH_DATA_GLOBALS_H_

#include "espalier/foreign/pickle/pickle_graph.h"

namespace espalier {

/// Whether naming or calling this runs nothing but the constructor of a plain value, of Python,
/// NumPy or PyTorch. All other names are noted as code. A call of such a name is noted, too, if its
/// arguments are not those that its own library writes.
bool is_data_global(PickleGlobal global);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TORCH_DATA_GLOBALS_H_
