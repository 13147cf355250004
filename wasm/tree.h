// What other parts of the interface may know of a Tree of abi.h.
#ifndef ESPALIER_WASM_TREE_H_
#define ESPALIER_WASM_TREE_H_

#include "abi.h"

#include "espalier/read/checkpoint.h"

namespace espalier::abi {

const Checkpoint& checkpoint_of(const Tree& tree);

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_TREE_H_
