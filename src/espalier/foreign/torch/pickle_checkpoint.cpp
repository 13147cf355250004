#include "espalier/foreign/torch/pickle_checkpoint.h"

#include "espalier/foreign/common/reader_error.h"
#include "espalier/foreign/torch/pickle_rest.h"
#include "espalier/format/owned_tables.h"
#include "espalier/format/table_builder.h"

namespace espalier {

Result<OwnedTables> torch_tables(const PickleGraph& graph, TorchStorages& storages,
                                 bool is_big_endian, const Limits& limits, Notes& notes,
                                 TorchCalls* calls) {
  TorchTree tree(graph, storages, is_big_endian, limits, notes);
  TableBuilder builder(limits);
  if (auto ok = tree.add_to(builder); !ok) {
    add_code(ok.error(), graph);
    return propagate(ok);
  }
  const bool is_whole = builder.ok();
  auto tables = builder.finish();
  if (!tables) {
    if (!is_whole) tables.error().path = tree.failed_path();
    make_reader_error(tables.error());
    if (builder.repeated_key()) {
      tables.error().message = kRepeatedKey;
    }
    add_code(tables.error(), graph);
    return propagate(tables);
  }
  if (calls != nullptr) {
    *calls = {tree.tensor_count(), tree.call_count(), tree.first_call()};
    return tables;
  }
  if (tree.tensor_count() == 0 && tree.call_count() > 0) {
    return fail(ErrorCode::kForeignInvalid,
                "this pickle holds no tensors, and loading it with pickle would call " +
                    tree.first_call() + "; nothing was run; " + std::string(kAskAuthor));
  }
  return tables;
}

}  // namespace espalier
