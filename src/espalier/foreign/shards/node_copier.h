// Copies nodes of an opened checkpoint into the tables of another one.
#ifndef ESPALIER_FOREIGN_SHARDS_NODE_COPIER_H_
#define ESPALIER_FOREIGN_SHARDS_NODE_COPIER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "espalier/checkpoint.h"
#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/format/file_set.h"
#include "espalier/format/table_builder.h"

namespace espalier {

/// Adds the made files of a checkpoint that has but one other file to `files`, where that one is
/// file `number`. Returns what NodeCopier wants: the number that each of its files has in `files`.
/// kLimitExceeded if there are too many.
[[nodiscard]] Result<std::vector<std::uint16_t>> add_made_files(FileSet& files,
                                                                const Catalog& catalog,
                                                                std::uint32_t number);

/// Adds nodes of one checkpoint to a builder: their labels and values, and tensors where they lie.
/// Ties stay ties.
class NodeCopier {
 public:
  /// `file_numbers` has the number that each file of `checkpoint` has in the new one. All but the
  /// numbers must outlive the builder's finish().
  NodeCopier(TableBuilder& builder, const Checkpoint& checkpoint,
             std::vector<std::uint16_t> file_numbers)
      : builder_(builder),
        file_numbers_(std::move(file_numbers)),
        tensors_(checkpoint.tensor_count(), kNoNumber) {}

  /// Adds `node`, after its key. The caller adds the children of a container.
  void add(const NodeRef& node);

 private:
  static constexpr std::uint32_t kNoNumber = ~std::uint32_t{0};

  void add_tensor(const TensorRef& tensor);

  TableBuilder& builder_;
  std::vector<std::uint16_t> file_numbers_;
  // The number that each tensor has in the new tables.
  std::vector<std::uint32_t> tensors_;
  std::deque<std::vector<std::string>> axis_names_;  // they must not move
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_SHARDS_NODE_COPIER_H_
