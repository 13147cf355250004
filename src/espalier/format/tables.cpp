#include "espalier/detail/catalog.h"
#include "espalier/format/owned_tables.h"

namespace espalier {

// Not in the header: nineteen conversions to spans take a while to compile.
Tables OwnedTables::view() const {
  return {nodes,  tensors, chunks, shape_ends,  dims,   words, text_ends,
          text,   bytes,   labels, dict_orders, order,  axes,  axis_names,
          blocks, files,   bases,  storages,    strides};
}

}  // namespace espalier
