// The values of a pickle that PyTorch wrote, as nodes of a tree.
#ifndef ESPALIER_FOREIGN_TORCH_TORCH_TREE_H_
#define ESPALIER_FOREIGN_TORCH_TORCH_TREE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "espalier/foreign/pickle/pickle_tree.h"
#include "espalier/foreign/torch/data_globals.h"

namespace espalier {

/// Where the bytes of a storage lie.
struct TorchStorage {
  std::uint16_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// What a TorchTree asks its archive for.
class TorchStorages {
 public:
  TorchStorages() = default;
  TorchStorages(const TorchStorages&) = delete;
  TorchStorages& operator=(const TorchStorages&) = delete;
  virtual ~TorchStorages() = default;

  /// The storage with this key; kForeignInvalid if the archive has none.
  [[nodiscard]] virtual Result<TorchStorage> find(std::string_view key) = 0;
  /// Where bytes that are views of the pickle, or that the callee must copy, can be read.
  [[nodiscard]] virtual Result<TorchStorage> keep(ByteSpan bytes) = 0;
};

/// Adds tensors, parameters, sizes, dtypes and devices of torch to what a PickleTree knows.
class TorchTree final : public PickleTree {
 public:
  /// Bytes in storages stand in the other order if `is_big_endian`. All must outlive the tree.
  TorchTree(const PickleGraph& graph, TorchStorages& storages, bool is_big_endian,
            const Limits& limits, Notes& notes)
      : PickleTree(graph, limits, notes, is_data_global),
        storages_(storages),
        is_big_endian_(is_big_endian) {}

 private:
  std::optional<PickleShape> shape_call(PickleGlobal function, PickleRef ref,
                                        std::span<const PickleRef> args) override;
  std::optional<PickleShape> shape_global(PickleGlobal global) override;
  PickleShape shape_persistent(PickleRef ref) override;
  bool read_tensor(PickleRef ref, ForeignTensor& tensor, std::string& missing) override;
  std::optional<Place> place_bytes(ByteSpan bytes) override;

  std::optional<PickleShape> shape_utils(std::string_view name, PickleRef ref,
                                         std::span<const PickleRef> args);
  std::optional<PickleShape> shape_parameter(std::span<const PickleRef> args);
  PickleShape shape_quantised(std::span<const PickleRef> args, PickleRef ref);
  std::optional<PickleShape> shape_sparse(std::span<const PickleRef> args);
  PickleShape with_state(PickleShape shape, PickleRef state, std::string_view label);

  struct Storage {
    std::optional<DType> dtype;  // of its class; none for an untyped one
    std::uint64_t numel = 0;
    bool is_meta = false;
    bool is_unknown = false;  // its class is unknown
    bool is_big_endian = false;
    TorchStorage place;
    std::string_view key;
  };
  bool is_list(PickleRef ref) const {
    return !ref.is_literal() && graph().type(ref) == PickleType::kList;
  }
  /// The storage that a persistent id names. Refuses the file if it is none.
  std::optional<Storage> storage(PickleRef ref);
  std::optional<Storage> inner_storage(PickleRef ref);
  bool read_rebuilt(std::string_view name, PickleRef ref, std::span<const PickleRef> args,
                    ForeignTensor& tensor, std::string& missing);
  bool read_meta(std::span<const PickleRef> args, ForeignTensor& tensor);
  bool read_layout(PickleRef storage_ref, std::int64_t first, PickleRef size, PickleRef stride,
                   ForeignTensor& tensor, std::string& missing, bool has_dtype, bool is_pairs);
  bool read_dtype(PickleRef ref, ForeignTensor& tensor, bool& is_pairs, std::string& missing);

  TorchStorages& storages_;
  bool is_big_endian_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TORCH_TORCH_TREE_H_
