// The blocks of elements that a rule's tensors are made of, and which of the two sides are the
// same.
#ifndef ESPALIER_MAP_BLOCKS_H_
#define ESPALIER_MAP_BLOCKS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "espalier/error.h"
#include "espalier/map/axes.h"
#include "espalier/map/rule.h"

namespace espalier {

/// One cell of a tensor of a rule.
struct Block {
  /// The number of the tensor on its side.
  std::size_t tensor = 0;
  Cell cell;
  /// The ids of the atoms, and the words of the name that are axes on the other side; sorted.
  std::vector<std::string> ids;
};

/// The tensors of a side, in order, through all parts.
std::vector<const TensorTerm*> tensors_of(const std::vector<Part>& side);

/// Whether a name of the side has the word.
bool names_have(const std::vector<Part>& side, std::size_t word);

/// The words of a tensor's name that the names of the other side lack, {r=} aside: they number the
/// tensors along an axis there.
std::vector<std::size_t> stacked_words(const Rule& rule, const TensorTerm& tensor,
                                       const std::vector<Part>& other);

/// Appends the blocks of tensor number `number` of a side. Errors are those of cells_of().
[[nodiscard]] Result<void> add_blocks(const Rule& rule, const TensorTerm& tensor,
                                      std::size_t number, const std::vector<Part>& other,
                                      const Axes& axes, const Sizes& sizes,
                                      std::vector<Block>& blocks);

/// Pairs blocks with equal ids in their order: positions in the two vectors. kMapInvalid, with a
/// message, if a block has no counterpart.
[[nodiscard]] Result<std::vector<std::pair<std::size_t, std::size_t>>> pair_blocks(
    const std::vector<Block>& left, const std::vector<Block>& right);

}  // namespace espalier

#endif  // ESPALIER_MAP_BLOCKS_H_
