// The part of abi.h that takes trees of other modules.
#include <cstdint>

#include "abi.h"
#include "copied_tables.h"
#include "tree_handle.h"

#include "espalier/checkpoint.h"
#include "espalier/detail/catalog.h"

namespace espalier::abi {

Tree* espalier_tree_of_tables(const Tables* tables, const std::uint8_t* digest) {
  return new Tree(Checkpoint(Catalog::from_copy(copied(*tables), copied(digest))));
}

}  // namespace espalier::abi
