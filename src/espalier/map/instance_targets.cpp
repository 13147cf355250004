#include "espalier/map/instance_targets.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/base/checked.h"
#include "espalier/base/function_ref.h"
#include "espalier/map/blocks.h"
#include "espalier/map/compute.h"
#include "espalier/map/instance_sizes.h"
#include "espalier/map/pieces.h"
#include "espalier/map/rule_targets.h"

namespace espalier {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Result<Pairs> swapped(Result<Pairs> pairs) {
  if (pairs) {
    for (auto& [a, b] : *pairs) std::swap(a, b);
  }
  return pairs;
}

bool is_empty(const MapPiece& piece) {
  return std::any_of(piece.loops.begin(), piece.loops.end(),
                     [](const MapLoop& loop) { return loop.count == 0; });
}

tl::unexpected<Error> not_the_same(const PlannedRule& rule, const MapLeaf& first,
                                   const MapLeaf& second) {
  return rule.failed(ErrorCode::kMapShape, in_quotes(second.name) + " is not the same tensor as " +
                                               in_quotes(first.name) +
                                               ": dtype or shape are different");
}

tl::unexpected<Error> taken_apart(const PlannedRule& rule, const MapLeaf& source) {
  return rule.failed(ErrorCode::kMapShape, in_quotes(source.name) + " is " +
                                               std::string(dtype_name(source.dtype)) +
                                               ", whose elements come in blocks of " +
                                               std::to_string(unit_of(source).elements) +
                                               "; the map would take one apart");
}

// The pieces and terms of an instance whose sizes are known.
class InstanceTargets {
 public:
  InstanceTargets(const PlannedRule& rule, const Instance& instance, const Frame& frame)
      : planning_(rule.planning), rule_(rule), instance_(instance), frame_(frame) {}

  // Other names of a tie, and copies.
  Result<void> add_equals() {
    for (std::size_t t = 0; t < rule_.reads.size(); ++t) {
      for (const auto& [index, all] : instance_.tensors[t]) {
        for (std::size_t i = 1; i < all.size(); ++i) {
          const Axes& axes = *rule_.reads[t]->names[all[i].name].axes;
          if (auto ok = add_equal(all.front().leaf, all[i].leaf, frame_.read_axes[t], axes); !ok) {
            return ok;
          }
        }
      }
    }
    return {};
  }

  // Targets whose elements come from the blocks of single tensors.
  Result<void> gather() {
    std::vector<Block> sources;
    for (std::size_t t = 0; t < rule_.reads.size(); ++t) {
      if (auto ok = add_blocks(rule_.rule, *rule_.reads[t], t, rule_.written, frame_.read_axes[t],
                               frame_.sizes, sources);
          !ok) {
        return rule_.failed(ok.error());
      }
    }
    // First all tensors with their first names; then each name of a tie with axes of its own.
    std::vector<Written> written;
    for (std::size_t t = 0; t < rule_.writes.size(); ++t) {
      const TensorTerm& tensor = *rule_.writes[t];
      written.push_back({t, 0, frame_.whole(*tensor.axes()), rule_.words_of_written(tensor)});
      if (auto ok = check_known(rule_, written.back().axes, tensor, {}, frame_); !ok) {
        return ok;
      }
    }
    compare_pads();
    if (auto ok = make_targets(sources, written, std::nullopt); !ok) return ok;
    for (std::size_t t = 0; t < rule_.writes.size(); ++t) {
      const TensorTerm& tensor = *rule_.writes[t];
      for (std::size_t n = 1; n < tensor.names.size(); ++n) {
        if (tensor.names[n].is_optional || is_alike(tensor, n)) continue;
        auto others = written;
        others[t].name = n;
        others[t].axes = frame_.whole(*tensor.names[n].axes);
        if (auto ok = make_targets(sources, others, t); !ok) return ok;
      }
    }
    return {};
  }

  // A target whose elements are sums of products.
  Result<void> compute() {
    const TensorTerm& tensor = *rule_.writes.front();
    const Axes& axes = *tensor.axes();
    if (auto ok = check_known(rule_, axes, tensor, {}, frame_); !ok) return ok;
    const auto cells = cells_of(axes, frame_.sizes);
    const auto shape = shape_of(axes, frame_.sizes);
    if (!cells) return rule_.failed(cells.error());
    if (!shape) return rule_.failed(shape.error());
    MapTarget target;
    target.rule = rule_.number;
    target.shape = *shape;
    if (auto ok = add_names(rule_, tensor, 0, frame_.values, frame_.sizes, target); !ok) {
      return ok;
    }
    target.work = MapWork::kArithmetic;
    std::size_t number = 0;
    for (const Term& term : rule_.read.front().terms) {
      auto made = term_of(term, cells->front(), number);
      if (!made) return propagate(made);
      target.terms.push_back(std::move(*made));
      number += term.tensors.size();
    }
    target.dtype = leaf(target.terms.front().operands.front().source).dtype;
    if (const auto dtype = wanted_dtype(rule_, tensor, target.name)) target.dtype = *dtype;
    for (const MapTerm& term : target.terms) {
      for (const MapOperand& operand : term.operands) {
        const MapLeaf& source = leaf(operand.source);
        if (can_compute(source.dtype) && can_compute(target.dtype)) continue;
        return cannot_compute(rule_, source.name, source.dtype);
      }
    }
    add_target(rule_, std::move(target));
    return {};
  }

 private:
  // A tensor that is written, for each choice of its stacked words.
  struct Written {
    std::size_t tensor = 0;
    std::size_t name = 0;
    Axes axes;
    std::vector<std::size_t> words;
  };
  // The targets of such a tensor.
  using Made = std::map<Index, MapTarget>;

  const MapLeaf& leaf(std::uint32_t number) const { return planning_.leaves[number]; }

  static bool has_word(const Axes& axes, const std::string& word) {
    const auto words = words_of(axes);
    return std::find(words.begin(), words.end(), word) != words.end();
  }

  // Embeddings that are padded alike are trimmed alike: one that lacks the padding of another may
  // have lost rows before.
  void compare_pads() {
    for (const TensorTerm* const pad : rule_.writes) {
      if (pad->kind != TensorTerm::Kind::kPad) continue;
      for (const std::string& word : words_of(*pad->axes())) {
        const bool is_elsewhere =
            std::any_of(rule_.writes.begin(), rule_.writes.end(), [&](const TensorTerm* each) {
              return each->kind != TensorTerm::Kind::kPad && has_word(*each->axes(), word);
            });
        const auto size = frame_.sizes.find(word);
        if (is_elsewhere || size == frame_.sizes.end()) continue;
        for (std::size_t t = 0; t < rule_.reads.size(); ++t) {
          if (instance_.tensors[t].empty() || !has_word(frame_.read_axes[t], word)) continue;
          const MapLeaf& source = leaf(first_leaf(instance_.tensors[t]));
          const std::string name = in_quotes(source.name) + ' ' + printed(source.shape);
          const auto& [first, is_new] = planning_.pads.try_emplace(word, size->second, name);
          if (is_new || first->second.first == size->second) break;
          std::string note = name;
          note += " has a padding ";
          note += word;
          note += " of " + std::to_string(size->second);
          note += ", and ";
          note += first->second.second;
          note += " one of " + std::to_string(first->second.first);
          note += "; if they are padded alike, one of them was trimmed before, or has lost rows";
          planning_.notes.push_back(std::move(note));
          break;
        }
      }
    }
  }

  Result<void> add_equal(std::uint32_t first, std::uint32_t second, const Axes& axes,
                         const Axes& other_axes) {
    const auto other = with_rank(other_axes, leaf(second).shape.size());
    const auto shape = other ? shape_of(*other, frame_.sizes)
                             : Result<std::vector<std::uint64_t>>(std::vector<std::uint64_t>());
    if (!other || !shape || *shape != leaf(second).shape ||
        !is_stored_alike(leaf(second), leaf(first))) {
      return not_the_same(rule_, leaf(first), leaf(second));
    }
    MapEqual equal{rule_.number, first, second};
    if (to_string(axes) != to_string(*other)) {
      auto piece = piece_between(axes, *other);
      if (!piece) return propagate(piece);
      piece->source = first;
      if (auto ok = check_whole(*piece); !ok) return ok;
      equal.piece = std::move(*piece);
    }
    planning_.equals.push_back(std::move(equal));
    return {};
  }

  // Two orders of the same axes, of one block each.
  Result<MapPiece> piece_between(const Axes& from, const Axes& to) const {
    const auto source = cells_of(from, frame_.sizes);
    const auto target = cells_of(to, frame_.sizes);
    if (!source || !target || source->size() != 1 || target->size() != 1) {
      return rule_.failed(ErrorCode::kMapShape, "the names of a tie have sums of axes");
    }
    MapPiece piece;
    piece.from = source->front().base;
    piece.to = target->front().base;
    for (const Atom& atom : source->front().atoms) {
      for (const Atom& other : target->front().atoms) {
        if (other.id == atom.id) piece.loops.push_back({atom.size, atom.stride, other.stride});
      }
    }
    settle(piece.loops);
    return piece;
  }

  // Of what a check reads by itself.
  Result<void> check_whole(const MapPiece& piece) const {
    const MapLeaf& source = leaf(piece.source);
    if (piece.loops.empty() || is_whole_units(piece, unit_of(source))) return {};
    return taken_apart(rule_, source);
  }

  // Every choice of numbers for words, the last one fastest.
  Result<void> for_each_index(const std::vector<std::size_t>& words,
                              FunctionRef<Result<void>(const Index&)> visit) const {
    Index index(words.size(), 0);
    Index counts;
    for (const std::size_t word : words) counts.push_back(frame_.sizes.at(rule_.rule.words[word]));
    if (std::find(counts.begin(), counts.end(), 0) != counts.end()) return {};
    for (;;) {
      if (auto ok = visit(index); !ok) return ok;
      std::size_t k = words.size();
      while (k > 0 && ++index[k - 1] == counts[k - 1]) index[--k] = 0;
      if (k == 0) return {};
    }
  }

  // Adds the targets of all tensors, or those of one of them.
  Result<void> make_targets(const std::vector<Block>& sources, const std::vector<Written>& written,
                            std::optional<std::size_t> only) {
    std::vector<Block> targets;
    for (const Written& each : written) {
      if (auto ok = add_blocks(rule_.rule, *rule_.writes[each.tensor], each.tensor, rule_.read,
                               each.axes, frame_.sizes, targets);
          !ok) {
        return rule_.failed(ok.error());
      }
    }
    // In the order of the rule's text in both directions, so that the inverse pairs the same.
    const auto pairs = planning_.options.reverse ? swapped(pair_blocks(targets, sources))
                                                 : pair_blocks(sources, targets);
    if (!pairs) return rule_.failed(pairs.error());
    std::vector<Made> made(written.size());  // by tensor
    for (const Written& each : written) {
      if (auto ok = begin_targets(each, made[each.tensor]); !ok) return ok;
    }
    for (const auto& [i, k] : *pairs) {
      const std::size_t tensor = targets[k].tensor;
      if (auto ok = connect(sources[i], targets[k], written[tensor], made[tensor]); !ok) return ok;
    }
    for (const Written& each : written) {
      if (only && each.tensor != *only) continue;
      for (auto& [index, target] : made[each.tensor]) {
        if (auto ok = finish(std::move(target), *rule_.writes[each.tensor]); !ok) return ok;
      }
    }
    return {};
  }

  Result<void> begin_targets(const Written& written, Made& made) {
    const TensorTerm& tensor = *rule_.writes[written.tensor];
    if (tensor.kind != TensorTerm::Kind::kTensor) return {};
    const auto shape = shape_of(written.axes, frame_.sizes);
    if (!shape) return rule_.failed(shape.error());
    std::uint64_t count = 1;
    for (const std::size_t word : written.words) {
      const auto product = checked_mul(count, frame_.sizes.at(rule_.rule.words[word]));
      if (!product || *product > most_names(planning_)) return too_many(rule_);
      count = *product;
    }
    return for_each_index(written.words, [&](const Index& index) -> Result<void> {
      CaptureValues values = frame_.values;
      for (std::size_t k = 0; k < index.size(); ++k) {
        values[written.words[k]] = CaptureValue{static_cast<std::int64_t>(index[k]), {}};
      }
      MapTarget target;
      target.rule = rule_.number;
      target.shape = *shape;
      if (auto ok = add_names(rule_, tensor, written.name, values, frame_.sizes, target); !ok) {
        return ok;
      }
      for (const Axis& axis : written.axes) {
        const AxisTerm& term = axis.terms.front();
        target.words.push_back(axis.terms.size() == 1 ? term.word : std::string());
      }
      made.emplace(index, std::move(target));
      return {};
    });
  }

  // Makes the elements of one block those of another, in all tensors that have them.
  Result<void> connect(const Block& source, const Block& target, const Written& written,
                       Made& made) {
    const auto from_words = rule_.words_of_read(*rule_.reads[source.tensor]);
    const auto kind = rule_.writes[target.tensor]->kind;
    const auto steps = steps_between(rule_, source.tensor, target.tensor, frame_.sizes);
    if (!steps) return propagate(steps);
    return for_each_index(from_words, [&](const Index& from_index) {
      return for_each_index(written.words, [&](const Index& to_index) -> Result<void> {
        MapPiece piece = piece_of(source, from_index, target.cell);
        piece.from += position(written.words, to_index, source.cell);
        piece.to += position(from_words, from_index, target.cell);
        piece.steps = *steps;
        if (++planning_.pieces > kMaxPieces) return too_many(rule_);
        if (planning_.are_adapted() ? is_empty(piece) : !settle(piece.loops)) return {};
        if (piece.source == MapPiece::kZeros) {
          for (MapLoop& loop : piece.loops) loop.from = 0;
        }
        if (kind == TensorTerm::Kind::kTensor)
          return add_piece(made.at(to_index), std::move(piece));
        return add_loss(std::move(piece), kind == TensorTerm::Kind::kZeros);
      });
    });
  }

  MapPiece piece_of(const Block& source, const Index& index, const Cell& target) const {
    MapPiece piece;
    const Candidates& there = instance_.tensors[source.tensor];
    if (const auto found = there.find(index); found != there.end()) {
      piece.source = found->second.front().leaf;
    }
    piece.from = source.cell.base;
    piece.to = target.base;
    for (const Atom& atom : source.cell.atoms) {
      for (const Atom& other : target.atoms) {
        if (other.id != atom.id) continue;
        piece.loops.push_back({atom.size, atom.stride, other.stride});
        if (planning_.are_adapted()) piece.axes.emplace_back(atom.axis, other.axis);
      }
    }
    return piece;
  }

  // Where the elements of one choice of words stand in a cell that has them as axes.
  std::int64_t position(const std::vector<std::size_t>& words, const Index& index,
                        const Cell& cell) const {
    std::int64_t position = 0;
    for (std::size_t k = 0; k < words.size(); ++k) {
      for (const Atom& atom : cell.atoms) {
        if (atom.id == rule_.rule.words[words[k]]) {
          position += atom.stride * static_cast<std::int64_t>(index[k]);
        }
      }
    }
    return position;
  }

  Result<void> add_piece(MapTarget& target, MapPiece piece) const {
    if (piece.source != MapPiece::kZeros) {
      const MapLeaf& source = leaf(piece.source);
      for (const MapPiece& other : target.pieces) {
        if (other.source == MapPiece::kZeros) continue;
        const MapLeaf& before = leaf(other.source);
        if (is_stored_alike(before, source)) break;
        return rule_.failed(
            ErrorCode::kMapShape,
            of_two_dtypes(before, source) + in_quotes(target.name) + ", which has one dtype");
      }
      target.dtype = source.dtype;
    }
    target.pieces.push_back(std::move(piece));
    return {};
  }

  Result<void> add_loss(MapPiece piece, bool must_be_zero) {
    if (planning_.are_adapted() && piece.source == MapPiece::kZeros) return {};
    if (auto ok = check_whole(piece); !ok) return ok;
    planning_.losses.push_back({rule_.number, piece.source, must_be_zero, std::move(piece)});
    return {};
  }

  Result<void> finish(MapTarget target, const TensorTerm& tensor) {
    const MapLeaf* source = nullptr;
    for (const MapPiece& piece : target.pieces) {
      if (piece.source != MapPiece::kZeros) source = &leaf(piece.source);
    }
    if (planning_.are_adapted()) {
      // Of missing tensors alone, there is nothing to adapt.
      if (source != nullptr) add_target(rule_, std::move(target));
      return {};
    }
    if (source == nullptr && elements_of(target.shape) > 0) {
      return rule_.failed(ErrorCode::kMapShape,
                          in_quotes(target.name) + " would be zeros alone, of no dtype");
    }
    if (source == nullptr) {
      target.dtype = leaf(planning_.found[rule_.number].front().leaf).dtype;
    } else {
      target.dtype = source->dtype;
      if (auto ok = check_units(target, *source); !ok) return ok;
    }
    target.work = work_of(target, planning_.leaves);
    if (const auto dtype = wanted_dtype(rule_, tensor, target.name)) {
      if (auto ok = cast_target(rule_, target, *dtype); !ok) return ok;
    }
    const bool has_steps = std::any_of(target.pieces.begin(), target.pieces.end(),
                                       [](const MapPiece& piece) { return !piece.steps.empty(); });
    if (has_steps) {
      if (!can_compute(target.dtype)) return cannot_compute(rule_, target.name, target.dtype);
      target.work = MapWork::kArithmetic;
    }
    if (target.work == MapWork::kRename && target.pieces.size() == 1) {
      target.source = target.pieces.front().source;
      target.pieces.clear();
    }
    add_target(rule_, std::move(target));
    return {};
  }

  Result<void> check_units(const MapTarget& target, const MapLeaf& source) const {
    const MapUnit unit = unit_of(source);
    for (const MapPiece& piece : target.pieces) {
      if (is_identity(target, piece, planning_.leaves) || is_whole_units(piece, unit)) continue;
      return taken_apart(rule_, source);
    }
    return {};
  }

  // `number` is that of the first tensor among those that are read.
  Result<MapTerm> term_of(const Term& term, const Cell& target, std::size_t number) const {
    MapTerm made;
    made.factor = term.is_subtracted ? -1 : 1;
    for (const auto& [scalar, divides] : term.scalars) {
      const auto value = value_of(rule_, scalar, !divides, frame_.sizes);
      if (!value) return propagate(value);
      made.factor = divides ? made.factor / *value : made.factor * *value;
    }
    std::vector<std::string> ids;
    for (const Atom& atom : target.atoms) {
      ids.push_back(atom.id);
      made.counts.push_back(atom.size);
    }
    made.target_loops = ids.size();
    std::vector<Cell> cells;
    for (std::size_t i = 0; i < term.tensors.size(); ++i) {
      auto own = cells_of(frame_.read_axes[number + i], frame_.sizes);
      if (!own) return rule_.failed(own.error());
      for (const Atom& atom : own->front().atoms) {
        if (std::find(ids.begin(), ids.end(), atom.id) != ids.end()) continue;
        ids.push_back(atom.id);
        made.counts.push_back(atom.size);
      }
      cells.push_back(std::move(own->front()));
    }
    for (const Cell& cell : cells) {
      MapOperand operand;
      operand.source = first_leaf(instance_.tensors[number++]);
      operand.from = cell.base;
      operand.strides.assign(ids.size(), 0);
      for (const Atom& atom : cell.atoms) {
        const auto at = std::find(ids.begin(), ids.end(), atom.id) - ids.begin();
        operand.strides[static_cast<std::size_t>(at)] = atom.stride;
      }
      made.operands.push_back(std::move(operand));
    }
    return made;
  }

  Planning& planning_;
  const PlannedRule& rule_;
  const Instance& instance_;
  const Frame& frame_;
};

// What has several names or copies, and no axes.
Result<void> plan_whole(const PlannedRule& rule, const Instance& instance) {
  const std::vector<Candidate>& all = instance.tensors.front().begin()->second;
  const std::uint32_t source = all.front().leaf;
  const MapLeaf& first = rule.leaf(source);
  for (std::size_t i = 1; i < all.size(); ++i) {
    const MapLeaf& other = rule.leaf(all[i].leaf);
    if (first.is_tensor != other.is_tensor || first.shape != other.shape ||
        !is_stored_alike(first, other)) {
      return not_the_same(rule, first, other);
    }
    rule.planning.equals.push_back({rule.number, source, all[i].leaf});
  }
  return add_rename(rule, source, instance.values);
}

}  // namespace

Result<void> plan_instance(const PlannedRule& rule, Instance& instance) {
  const bool is_plain = std::all_of(rule.read.begin(), rule.read.end(),
                                    [](const Part& part) { return as_plain(part).has_value(); });
  if (!is_plain && rule.planning.options.slot) {
    return rule.failed(
        ErrorCode::kMapNotInvertible,
        "it computes a parameter from several, and state along them has no such sum");
  }
  if (!is_plain && rule.planning.are_adapted()) {
    return rule.failed(ErrorCode::kMapNotInvertible,
                       "it computes a tensor from " + first_name(rule, instance) +
                           " and others, and factors have no such sum; merge the adapter into its "
                           "base, and map that");
  }
  if (auto ok = complete_instance(rule, instance); !ok) return ok;
  if (!rule.reads.front()->axes()) return plan_whole(rule, instance);
  const auto frame = find_sizes(rule, instance);
  if (!frame) return propagate(frame);
  InstanceTargets targets(rule, instance, *frame);
  if (auto ok = targets.add_equals(); !ok) return ok;
  return is_plain ? targets.gather() : targets.compute();
}

}  // namespace espalier
