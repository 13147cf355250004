// From a pickle with tensors to the tables of a checkpoint.
#ifndef ESPALIER_FOREIGN_TORCH_PICKLE_CHECKPOINT_H_
#define ESPALIER_FOREIGN_TORCH_PICKLE_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/foreign/pickle/pickle_graph.h"
#include "espalier/foreign/torch/torch_tree.h"
#include "espalier/format/owned_tables.h"
#include "espalier/limits.h"
#include "espalier/notes.h"

namespace espalier {

/// What the pickle of a part of a checkpoint holds.
struct TorchCalls {
  std::uint64_t tensors = 0;
  /// Calls of something unknown, and the name of the first.
  std::uint64_t calls = 0;
  std::string first = {};
};

/// The tables of all that `graph` holds; `notes` gets what is lost or doubtful. kForeignInvalid for
/// what torch does not write, and for a pickle that holds no tensors and would call something
/// unknown: such a file is no checkpoint, and loading it with pickle could do anything. With
/// `calls`, it is not refused, but the caller is told: a part may hold no tensors. kLimitExceeded.
[[nodiscard]] Result<OwnedTables> torch_tables(const PickleGraph& graph, TorchStorages& storages,
                                               bool is_big_endian, const Limits& limits,
                                               Notes& notes, TorchCalls* calls = nullptr);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TORCH_PICKLE_CHECKPOINT_H_
