#include "espalier/map/blocks.h"

#include <algorithm>
#include <map>

namespace espalier {
namespace {

std::string named(const std::vector<std::string>& ids) {
  std::string text = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) text += ' ';
    text += ids[i];
  }
  return text + ']';
}

}  // namespace

std::vector<const TensorTerm*> tensors_of(const std::vector<Part>& side) {
  std::vector<const TensorTerm*> tensors;
  for (const Part& part : side) {
    for (const Term& term : part.terms) {
      for (const TensorTerm& tensor : term.tensors) tensors.push_back(&tensor);
    }
  }
  return tensors;
}

bool names_have(const std::vector<Part>& side, std::size_t word) {
  const auto tensors = tensors_of(side);
  return std::any_of(tensors.begin(), tensors.end(), [&](const TensorTerm* tensor) {
    return std::any_of(tensor->names.begin(), tensor->names.end(),
                       [&](const TensorName& name) { return name.pattern.has_word(word); });
  });
}

std::vector<std::size_t> stacked_words(const Rule& rule, const TensorTerm& tensor,
                                       const std::vector<Part>& other) {
  std::vector<std::size_t> words;
  for (std::size_t word = 0; word < rule.words.size(); ++word) {
    const auto& items = tensor.names.front().pattern.items();
    const bool is_number =
        std::any_of(items.begin(), items.end(), [&](const NamePattern::Item& item) {
          return item.capture && item.capture->kind == Capture::Kind::kInteger &&
                 (item.word == word || (!item.capture->low.empty() && item.low == word));
        });
    if (is_number && !names_have(other, word)) words.push_back(word);
  }
  return words;
}

Result<void> add_blocks(const Rule& rule, const TensorTerm& tensor, std::size_t number,
                        const std::vector<Part>& other, const Axes& axes, const Sizes& sizes,
                        std::vector<Block>& blocks) {
  auto cells = cells_of(axes, sizes);
  if (!cells) return propagate(cells);
  const auto words = stacked_words(rule, tensor, other);
  for (Cell& cell : *cells) {
    Block block{number, std::move(cell), {}};
    for (const Atom& atom : block.cell.atoms) block.ids.push_back(atom.id);
    for (const std::size_t word : words) block.ids.push_back(rule.words[word]);
    std::sort(block.ids.begin(), block.ids.end());
    blocks.push_back(std::move(block));
  }
  return {};
}

Result<std::vector<std::pair<std::size_t, std::size_t>>> pair_blocks(
    const std::vector<Block>& left, const std::vector<Block>& right) {
  std::map<std::vector<std::string>, std::vector<std::size_t>> waiting;
  // From behind, so that the first one is taken first.
  for (std::size_t i = right.size(); i-- > 0;) waiting[right[i].ids].push_back(i);
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < left.size(); ++i) {
    auto& others = waiting[left[i].ids];
    if (others.empty()) {
      return fail(ErrorCode::kMapInvalid,
                  "the block " + named(left[i].ids) + " has no counterpart on the other side");
    }
    pairs.emplace_back(i, others.back());
    others.pop_back();
  }
  for (const auto& [ids, others] : waiting) {
    if (others.empty()) continue;
    return fail(ErrorCode::kMapInvalid,
                "the block " + named(ids) + " has no counterpart on the other side");
  }
  return pairs;
}

}  // namespace espalier
