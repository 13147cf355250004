#include "espalier/map/adapter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/json_text.h"
#include "espalier/map/adapter_layout.h"
#include "espalier/map/adapter_modules.h"
#include "espalier/map/adapter_names.h"
#include "espalier/map/adapter_parameters.h"
#include "espalier/map/adapter_scales.h"
#include "espalier/map/compute.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/map_error.h"
#include "espalier/map/pieces.h"
#include "espalier/notes.h"

namespace espalier {
class AdapterPlanner {
 public:
  AdapterPlanner(const KeyMap& map, std::vector<MapLeaf> leaves, const LiftOptions& options)
      : map_(map),
        options_(options),
        write_separator_(map.parts().side(options.plan.reverse).separator()) {
    plan_.leaves_ = std::move(leaves);
    plan_.rules_.resize(map.parts().rules.size());
    plan_.adapter_.emplace();
  }

  Result<MapPlan> plan() {
    if (!options_.along.empty()) {
      return invalid_map(
          "\"along\": the state of an adapter's optimizer does not follow its factors; leave out "
          "--along, and map the adapter alone");
    }
    auto found = AdapterModules::find(map_, plan_.leaves_, options_);
    if (!found) return propagate(found);
    found_ = std::move(*found);
    plan_.adapter_->is_rank_stabilized = found_->is_rank_stabilized();
    plan_.notes_ = found_->notes();
    are_counted_.assign(found_->modules().size(), false);
    MapPlanOptions own = options_.plan;
    own.parameters = MapParameters::kAdapted;
    const auto made = MapPlan::make(map_, found_->weights(), own);
    if (!made) {
      Error error = made.error();
      error.message = "weights that the adapter changes: " + error.message;
      if (error.code == ErrorCode::kMapShape) {
        error.message +=
            "; the shapes are those of products [o i]: if a weight is [i o], pass an "
            "adapter_config.json with fan_in_fan_out as --config, or give the axes after the "
            "names of --lora: '[r i] [o r] [i o]'";
      }
      return tl::unexpected<Error>(std::move(error));
    }
    for (const auto& [word, count] : made->guessed_) {
      std::string note = "the adapter has {";
      note += word;
      note += "} from 0 to ";
      append_number(note, count - 1);
      note += ", and nothing says whether its base has more; if so, give how many: --set ";
      note += word;
      note += "=...";
      plan_.notes_.push_back(std::move(note));
    }
    plan_.notes_.insert(plan_.notes_.end(), made->notes().begin(), made->notes().end());
    if (auto ok = follow(*made); !ok) return propagate(ok);
    if (auto ok = plan_parameters(); !ok) return propagate(ok);
    for (const std::uint32_t leaf : found_->others()) keep(leaf);
    return MapPlan::merged(std::move(plan_));
  }

 private:
  // A target's weight while its factors are made.
  struct Following {
    const MapTarget& weight;
    std::vector<AdapterRole> roles;
    // By the position along stacked axes.
    std::map<AxisPosition, std::vector<RankBlock>> stacks;
    std::uint64_t rank = 0;
  };

  const MapLeaf& leaf(std::uint32_t number) const { return plan_.leaves_[number]; }

  const AdapterModule& module_at(std::uint32_t number) const { return found_->modules()[number]; }

  // Makes the factors of all that the map makes of the weights.
  Result<void> follow(const MapPlan& made) {
    for (const MapTarget& weight : made.targets_) {
      if (auto ok = follow(weight); !ok) return ok;
    }
    for (const MapPlan::Dropped& dropped : made.dropped_) {
      for (const auto& part : module_at(dropped.leaf).leaves) {
        if (part) plan_.dropped_.push_back({*part, dropped.rule});
      }
      if (dropped.rule != MapTarget::kKept) count_sources(dropped.leaf, dropped.rule);
    }
    for (const MapEqual& equal : made.equals_) {
      if (auto ok = follow(equal); !ok) return ok;
    }
    for (const MapLost& lost : made.losses_) {
      if (auto ok = follow(lost); !ok) return ok;
    }
    return {};
  }

  void count_sources(std::uint32_t module, std::uint32_t rule) {
    if (are_counted_[module] || rule == MapTarget::kKept) return;
    are_counted_[module] = true;
    for (const auto& part : module_at(module).leaves) plan_.rules_[rule].sources += part ? 1 : 0;
  }

  // A weight under several names has its factors under all of them.
  Result<void> follow(const MapEqual& equal) {
    const AdapterModule& first = module_at(equal.first);
    const AdapterModule& second = module_at(equal.second);
    count_sources(equal.second, equal.rule);
    for (const AdapterPart part : kAdapterParts) {
      const auto& one = first.leaves[slot_of(part)];
      const auto& other = second.leaves[slot_of(part)];
      if (!one && !other) continue;
      if (!one || !other || equal.piece || leaf(*one).shape != leaf(*other).shape ||
          leaf(*one).dtype != leaf(*other).dtype || first.alpha != second.alpha) {
        return failed(equal.rule, ErrorCode::kMapShape,
                      found_->quoted(first, AdapterPart::kB) + " and " +
                          found_->quoted(second, AdapterPart::kB) +
                          " are of one weight under two names, and their modules' factors " +
                          (first.alpha == second.alpha ? "" : "or alphas ") +
                          "are not alike; leave the factors of one of them");
      }
      plan_.equals_.push_back({equal.rule, *one, *other});
    }
    return {};
  }

  // What is lost of a weight are rows of B or columns of A.
  Result<void> follow(const MapLost& lost) {
    const AdapterModule& module = module_at(lost.source);
    const auto strides = strides_of(module.shape);
    std::uint64_t rows = 1;
    std::uint64_t columns = 1;
    for (std::size_t i = 0; i < lost.piece.axes.size(); ++i) {
      const AdapterRole role = module.roles[lost.piece.axes[i].first];
      if (role == AdapterRole::kOut) rows *= lost.piece.loops[i].count;
      if (role == AdapterRole::kIn) columns *= lost.piece.loops[i].count;
    }
    AdapterPart part = AdapterPart::kB;
    if (columns != size_along(module.shape, module.roles, AdapterRole::kIn)) {
      part = AdapterPart::kA;
      if (rows != size_along(module.shape, module.roles, AdapterRole::kOut)) {
        return failed(lost.rule, ErrorCode::kMapNotInvertible,
                      "it leaves out a part of both rows and columns of the product of " +
                          found_->quoted(module, AdapterPart::kA) + " and " +
                          found_->quoted(module, AdapterPart::kB) +
                          ", which no factors have; merge the adapter into its base, and map that");
      }
    }
    const FactorLayout& layout = module.layouts[slot_of(part)];
    const AxisPosition from = position_of(lost.piece.from, module.shape);
    MapLost own{lost.rule, *module.leaves[slot_of(part)], lost.must_be_zero, {}};
    own.piece.source = own.source;
    own.piece.from = element_at(from, layout);
    own.piece.loops.push_back({module.rank, layout.rank_stride, layout.rank_stride});
    for (std::size_t i = 0; i < lost.piece.axes.size(); ++i) {
      const std::size_t axis = lost.piece.axes[i].first;
      if (layout.strides[axis] == 0) continue;
      const std::int64_t step = lost.piece.loops[i].from / strides[axis] * layout.strides[axis];
      own.piece.loops.push_back({lost.piece.loops[i].count, step, step});
    }
    if (settle(own.piece.loops)) plan_.losses_.push_back(std::move(own));
    return {};
  }

  static const std::vector<MapStep>& no_steps() {
    static const std::vector<MapStep> none;
    return none;
  }

  // The whole of a weight, as it is.
  AdapterPatch whole(std::uint32_t number, const std::vector<MapStep>& steps) const {
    const AdapterModule& module = module_at(number);
    AdapterPatch patch{number,
                       &steps,
                       AxisPosition(module.shape.size(), 0),
                       AxisPosition(module.shape.size(), 0),
                       {}};
    for (std::uint32_t i = 0; i < module.shape.size(); ++i) {
      patch.runs.push_back({module.shape[i], i, 1, i, 1});
    }
    return patch;
  }

  std::vector<AdapterPatch> patches_of(const MapTarget& weight) const {
    std::vector<AdapterPatch> patches;
    if (weight.source != MapPiece::kZeros) {
      patches.push_back(whole(weight.source, no_steps()));
      return patches;
    }
    const auto to_strides = strides_of(weight.shape);
    for (const MapPiece& piece : weight.pieces) {
      if (piece.source == MapPiece::kZeros) continue;
      const AdapterModule& module = module_at(piece.source);
      if (piece.axes.empty() && weight.shape == module.shape) {
        patches.push_back(whole(piece.source, piece.steps));
        continue;
      }
      const auto from_strides = strides_of(module.shape);
      AdapterPatch patch{piece.source,
                         &piece.steps,
                         position_of(piece.from, module.shape),
                         position_of(piece.to, weight.shape),
                         {}};
      for (std::size_t i = 0; i < piece.axes.size(); ++i) {
        const auto [from_axis, to_axis] = piece.axes[i];
        const MapLoop& loop = piece.loops[i];
        patch.runs.push_back({loop.count, from_axis, loop.from / from_strides[from_axis], to_axis,
                              loop.to / to_strides[to_axis]});
      }
      patches.push_back(std::move(patch));
    }
    return patches;
  }

  Result<void> follow(const MapTarget& weight) {
    Following following{
        weight, std::vector<AdapterRole>(weight.shape.size(), AdapterRole::kNone), {}, 0};
    const std::vector<AdapterPatch> patches = patches_of(weight);
    if (auto ok = find_roles(patches, following); !ok) return ok;
    auto stacks = rank_blocks(
        patches, following.roles,
        [&](std::uint32_t module) -> std::span<const AdapterRole> {
          return module_at(module).roles;
        },
        kMaxPieces - pieces_);
    if (!stacks) {
      return failed(weight.rule, ErrorCode::kLimitExceeded,
                    "it makes more than 16,777,216 pieces of factors");
    }
    following.stacks = std::move(*stacks);
    for (const auto& [stack, blocks] : following.stacks) {
      for (const RankBlock& block : blocks) pieces_ += block.rows.size() * block.columns.size();
    }
    if (auto ok = find_rank(following); !ok) return ok;
    auto scales = scales_of(*found_, weight, following.stacks, following.rank);
    if (!scales) return propagate(scales);
    for (const AdapterPart part : kAdapterParts) {
      if (auto ok = make_part(following, part, *scales); !ok) return ok;
    }
    for (const auto& [stack, blocks] : following.stacks) {
      for (const RankBlock& block : blocks) count_sources(block.module, weight.rule);
    }
    return {};
  }

  // An axis of the target is of rows or of columns, as its words are; or it numbers weights.
  Result<void> find_roles(const std::vector<AdapterPatch>& patches, Following& following) const {
    const MapTarget& weight = following.weight;
    for (const AdapterPatch& patch : patches) {
      const AdapterModule& module = module_at(patch.module);
      if (!module.has_axes && module.shape.size() > 2 && changes_layout(module)) {
        return failed(weight.rule, ErrorCode::kMapUndetermined,
                      "the rule says nothing of the axes of " +
                          found_->quoted(module, AdapterPart::kA) + ' ' +
                          printed(leaf(*module.leaves[0]).shape) + " and " +
                          found_->quoted(module, AdapterPart::kB) +
                          ", which are transposed; write the axes of " + in_quotes(weight.name) +
                          " in the rule");
      }
      for (const WordRun& run : patch.runs) {
        const AdapterRole role = module.roles[run.from_axis];
        if (role == AdapterRole::kStack) continue;
        AdapterRole& own = following.roles[run.to_axis];
        if (own != AdapterRole::kNone && own != role) {
          return failed(weight.rule, ErrorCode::kMapNotInvertible,
                        "axis " + std::to_string(run.to_axis) + " of " + in_quotes(weight.name) +
                            ' ' + printed(weight.shape) +
                            " has rows and columns of the weight of " +
                            found_->quoted(module, AdapterPart::kA) + " and " +
                            found_->quoted(module, AdapterPart::kB) +
                            ", which no factors have; merge the adapter into its base, and map "
                            "that");
        }
        own = role;
      }
    }
    const auto has_role = [&](AdapterRole role) {
      return std::find(following.roles.begin(), following.roles.end(), role) !=
             following.roles.end();
    };
    bool is_matrix = has_role(AdapterRole::kOut) && has_role(AdapterRole::kIn);
    for (std::size_t i = 0; i < following.roles.size(); ++i) {
      if (following.roles[i] != AdapterRole::kNone) continue;
      following.roles[i] = AdapterRole::kStack;
      // An axis that is written as 1, such as those of a convolution of 1 x 1.
      const bool is_number = i >= weight.words.size() || weight.words[i].empty();
      is_matrix = is_matrix && !(is_number && weight.shape[i] == 1);
    }
    if (is_matrix) return {};
    const AdapterModule& first = module_at(patches.front().module);
    return failed(
        weight.rule, ErrorCode::kMapNotInvertible,
        in_quotes(weight.name) + ' ' + printed(weight.shape) +
            " has other axes than rows, columns and stacked ones, which factors such as " +
            found_->quoted(first, AdapterPart::kA) + " and " +
            found_->quoted(first, AdapterPart::kB) +
            " do not have; merge the adapter into its base, and map that");
  }

  bool changes_layout(const AdapterModule& module) const {
    const AdapterPlace& place = found_->place_of(module, AdapterPart::kA);
    return place.read.is_a_transposed != place.write->is_a_transposed ||
           place.read.is_b_transposed != place.write->is_b_transposed;
  }

  Result<void> find_rank(Following& following) const {
    const MapTarget& weight = following.weight;
    const RankBlock* first = nullptr;
    for (const auto& [stack, blocks] : following.stacks) {
      std::uint64_t rank = 0;
      for (const RankBlock& block : blocks) {
        const auto sum = checked_add(rank, module_at(block.module).rank);
        if (!sum) {
          return failed(
              weight.rule, ErrorCode::kLimitExceeded,
              "the factors of " + in_quotes(weight.name) + " would have too large a rank");
        }
        rank = *sum;
      }
      if (first != nullptr && rank != following.rank) {
        const AdapterModule& one = module_at(first->module);
        const AdapterModule& other = module_at(blocks.front().module);
        return failed(weight.rule, ErrorCode::kMapShape,
                      found_->quoted(one, AdapterPart::kA) + ' ' +
                          printed(leaf(*one.leaves[0]).shape) + " and " +
                          found_->quoted(other, AdapterPart::kA) + ' ' +
                          printed(leaf(*other.leaves[0]).shape) + " have different ranks, and " +
                          in_quotes(weight.name) + " stacks them; stacked factors have one rank");
      }
      following.rank = rank;
      if (first == nullptr) first = &blocks.front();
    }
    return {};
  }

  // Makes one factor of a target, or its vector.
  Result<void> make_part(const Following& following, AdapterPart part,
                         const AdapterScales& scales) {
    const MapTarget& weight = following.weight;
    const AdapterModule& first = module_at(following.stacks.begin()->second.front().module);
    if (part == AdapterPart::kVector) {
      const auto has_vector = check_vectors(following);
      if (!has_vector) return propagate(has_vector);
      if (!*has_vector) return {};
    }
    const AdapterPlace& place = found_->place_of(first, part);
    const auto layout =
        layout_for(*place.write, part, weight.shape, following.roles, following.rank);
    if (!layout) {
      return failed(weight.rule, ErrorCode::kMapShape,
                    "a factor of " + in_quotes(weight.name) + ", of rank " +
                        std::to_string(following.rank) + ", would be too large");
    }
    MapTarget target;
    target.rule = weight.rule;
    target.shape = layout->shape;
    const auto filled = add_pieces(following, part, scales, *layout, target);
    if (!filled) return propagate(filled);
    const std::uint64_t elements = elements_of(target.shape);
    // A small file would otherwise ask for terabytes of zeros.
    if (elements > kFewElements && elements / kMaxSpread > *filled) {
      return failed(weight.rule, ErrorCode::kLimitExceeded,
                    "a factor of " + in_quotes(weight.name) + " would be " + printed(target.shape) +
                        " and almost all zeros, beside " + std::to_string(*filled) +
                        " elements of factors such as " + found_->quoted(first, part) +
                        "; merge the adapter into its base, and map that");
    }
    if (*filled < elements) {
      MapPiece zeros;
      zeros.loops.push_back({elements, 0, 1});
      target.pieces.insert(target.pieces.begin(), std::move(zeros));
    }
    for (const auto& axis : layout->axes) {
      target.words.push_back(!axis                         ? "rank"
                             : *axis < weight.words.size() ? weight.words[*axis]
                                                           : std::string());
    }
    if (part == AdapterPart::kB) {
      add_modules(following, scales.alpha);
      note_stacks(following, *place.write);
    }
    return finish(std::move(target), *place.write, part, weight);
  }

  // Adds the pieces of a factor or a vector, and returns how many elements they have.
  Result<std::uint64_t> add_pieces(const Following& following, AdapterPart part,
                                   const AdapterScales& scales, const FactorLayout& layout,
                                   MapTarget& target) const {
    const MapTarget& weight = following.weight;
    const AdapterModule& first = module_at(following.stacks.begin()->second.front().module);
    std::uint64_t filled = 0;
    for (const auto& [stack, blocks] : following.stacks) {
      std::int64_t rank = 0;
      for (const RankBlock& block : blocks) {
        const AdapterModule& module = module_at(block.module);
        if (&found_->place_of(module, part) != &found_->place_of(first, part)) {
          return failed(weight.rule, ErrorCode::kMapNotInvertible,
                        found_->quoted(first, part) + " and " + found_->quoted(module, part) +
                            " have names of two kinds, and " + in_quotes(weight.name) +
                            " joins them; merge the adapter into its base, and map that");
        }
        auto steps = steps_of(part, *block.steps, scales.by_module.at(block.module));
        for (const Stretch& stretch : part == AdapterPart::kA ? block.columns : block.rows) {
          MapPiece piece = piece_of(module, part, block.stack, stretch, layout);
          piece.to += element_at(stack, layout) + rank * layout.rank_stride;
          filled += stretch.size() * (part == AdapterPart::kVector ? 1 : module.rank);
          piece.steps = steps;
          if (!settle(piece.loops)) continue;
          if (auto ok = add_piece(target, std::move(piece), weight); !ok) return propagate(ok);
        }
        rank += static_cast<std::int64_t>(module.rank);
      }
    }
    return filled;
  }

  // The first rank of a stretch of a module, at the beginning of a target.
  static MapPiece piece_of(const AdapterModule& module, AdapterPart part, const AxisPosition& stack,
                           const Stretch& stretch, const FactorLayout& layout) {
    MapPiece piece;
    piece.source = *module.leaves[slot_of(part)];
    const FactorLayout& own = module.layouts[slot_of(part)];
    piece.from = element_at(stack, own) + element_at(stretch.from, own);
    piece.to = element_at(stretch.to, layout);
    if (part != AdapterPart::kVector) {
      piece.loops.push_back({module.rank, own.rank_stride, layout.rank_stride});
    }
    for (const WordRun& run : stretch.runs) {
      piece.loops.push_back({run.count, run.from_step * own.strides[run.from_axis],
                             run.to_step * layout.strides[run.to_axis]});
    }
    return piece;
  }

  void note_stacks(const Following& following, const AdapterNames& names) {
    const auto& roles = following.roles;
    const bool has_stacks =
        std::find(roles.begin(), roles.end(), AdapterRole::kStack) != roles.end();
    if (!has_stacks || !names.are_peft || std::exchange(has_noted_stacks_, true)) return;
    plan_.notes_.push_back(in_quotes(following.weight.name) +
                           " has stacked factors, which PEFT does not read");
  }

  // Of the names of a weight, which share the factors.
  void add_modules(const Following& following, std::optional<double> alpha) {
    const MapTarget& weight = following.weight;
    MapAdapted made{module_of(weight.name, write_separator_), following.rank, alpha, {}};
    for (const AdapterRole role : following.roles) {
      if (role != AdapterRole::kStack) made.are_columns.push_back(role == AdapterRole::kIn);
    }
    made.is_joined = std::any_of(following.stacks.begin(), following.stacks.end(),
                                 [](const auto& stack) { return stack.second.size() > 1; });
    plan_.adapter_->modules.push_back(made);
    for (const std::string& tied : weight.tied) {
      made.module = module_of(tied, write_separator_);
      plan_.adapter_->modules.push_back(made);
    }
  }

  // Of DoRA: each row of a target is a row of one module, with all of its columns.
  Result<bool> check_vectors(const Following& following) const {
    const MapTarget& weight = following.weight;
    const AdapterModule* with = nullptr;
    const AdapterModule* without = nullptr;
    for (const auto& [stack, blocks] : following.stacks) {
      for (const RankBlock& block : blocks) {
        const AdapterModule& module = module_at(block.module);
        (module.leaves[slot_of(AdapterPart::kVector)] ? with : without) = &module;
      }
    }
    if (with == nullptr) return false;
    const std::string name = found_->quoted(*with, AdapterPart::kVector);
    if (without != nullptr) {
      return failed(weight.rule, ErrorCode::kMapIncomplete,
                    "found " + name + ", but no such vector beside " +
                        found_->quoted(*without, AdapterPart::kB) + ", and " +
                        in_quotes(weight.name) + " joins them");
    }
    for (const auto& [stack, blocks] : following.stacks) {
      for (const RankBlock& block : blocks) {
        for (const MapStep& step : *block.steps) {
          if (step.kind == NumberStep::Kind::kMultiply || step.kind == NumberStep::Kind::kDivide) {
            continue;
          }
          return failed(weight.rule, ErrorCode::kMapNotInvertible,
                        name + " has the length of each row of its weight, and the rule adds to " +
                            in_quotes(weight.name) +
                            ", whose rows then have others; merge the adapter into its base, and "
                            "map that");
        }
      }
    }
    const std::uint64_t rows = size_along(weight.shape, following.roles, AdapterRole::kOut);
    const std::uint64_t stacks = size_along(weight.shape, following.roles, AdapterRole::kStack);
    bool is_whole = following.stacks.size() == stacks;
    for (const auto& [stack, blocks] : following.stacks) {
      std::uint64_t filled = 0;
      std::set<std::pair<AxisPosition, std::vector<std::pair<std::uint32_t, std::int64_t>>>> places;
      for (const RankBlock& block : blocks) {
        const AdapterModule& module = module_at(block.module);
        std::uint64_t columns = 0;
        for (const Stretch& stretch : block.columns) columns += stretch.size();
        is_whole = is_whole && columns == size_along(module.shape, module.roles, AdapterRole::kIn);
        for (const Stretch& stretch : block.rows) {
          filled += stretch.size();
          std::vector<std::pair<std::uint32_t, std::int64_t>> words;
          for (const WordRun& run : stretch.runs) words.emplace_back(run.to_axis, run.to_step);
          is_whole = is_whole && places.emplace(stretch.to, std::move(words)).second;
        }
      }
      is_whole = is_whole && filled == rows;
    }
    if (is_whole) return true;
    return failed(weight.rule, ErrorCode::kMapNotInvertible,
                  name + " has the length of each row of its weight, and rows of " +
                      in_quotes(weight.name) +
                      " are put together from several, or taken apart, or have none; merge the "
                      "adapter into its base, and map that");
  }

  // A product follows a factor of its weight, and what is added to the weight stays there.
  static std::vector<MapStep> steps_of(AdapterPart part, const std::vector<MapStep>& steps,
                                       double scale) {
    std::vector<MapStep> own;
    if (part == AdapterPart::kA) return own;
    for (const MapStep& step : steps) {
      if (step.kind != NumberStep::Kind::kMultiply && step.kind != NumberStep::Kind::kDivide) {
        continue;
      }
      own.push_back({step.kind, part == AdapterPart::kVector ? std::fabs(step.value) : step.value});
    }
    if (part == AdapterPart::kB && scale != 1) {
      own.push_back({NumberStep::Kind::kMultiply, scale});
    }
    return own;
  }

  Result<void> add_piece(MapTarget& target, MapPiece piece, const MapTarget& weight) const {
    const MapLeaf& source = leaf(piece.source);
    if (!target.pieces.empty()) {
      const MapLeaf& before = leaf(target.pieces.front().source);
      if (!is_stored_alike(before, source)) {
        return failed(weight.rule, ErrorCode::kMapShape,
                      of_two_dtypes(before, source) + "a factor of " + in_quotes(weight.name) +
                          ", which has one dtype");
      }
    }
    target.dtype = source.dtype;
    target.pieces.push_back(std::move(piece));
    return {};
  }

  Result<void> finish(MapTarget target, const AdapterNames& names, AdapterPart part,
                      const MapTarget& weight) {
    const auto written = [&](const std::string& of_weight) {
      const std::string module = module_of(without_label(of_weight), write_separator_);
      return label_with_end(of_weight) + names.write(module, part);
    };
    set_name(target, written(weight.name));
    for (const std::string& tied : weight.tied) add_tied(target, written(tied));
    const MapLeaf& source = leaf(target.pieces.back().source);
    const MapUnit unit = unit_of(source);
    bool has_steps = false;
    for (const MapPiece& piece : target.pieces) {
      has_steps = has_steps || !piece.steps.empty();
      if (is_identity(target, piece, plan_.leaves_) || piece.loops.empty() ||
          is_whole_units(piece, unit)) {
        continue;
      }
      return failed(weight.rule, ErrorCode::kMapShape,
                    in_quotes(source.name) + " is " + std::string(dtype_name(source.dtype)) +
                        ", whose elements come in blocks of " + std::to_string(unit.elements) +
                        "; the map would take one apart");
    }
    target.work = work_of(target, plan_.leaves_);
    if (has_steps) {
      if (!can_compute(target.dtype)) {
        return failed(weight.rule, ErrorCode::kMapShape,
                      in_quotes(source.name) + " is " + std::string(dtype_name(source.dtype)) +
                          ", and is scaled for " + in_quotes(target.name) +
                          "; arithmetic is for f16, bf16, f32 and f64");
      }
      target.work = MapWork::kArithmetic;
    }
    if (target.work == MapWork::kRename) {
      target.source = target.pieces.front().source;
      target.pieces.clear();
      // Parts of what was one module are trained apart.
      target.is_copy = !renamed_.insert(target.source).second;
    }
    if (weight.rule != MapTarget::kKept) {
      MapRuleCount& count = plan_.rules_[weight.rule];
      ++count.targets;
      count.work = std::max(count.work, target.work);
    } else {
      ++plan_.kept_;
    }
    plan_.targets_.push_back(std::move(target));
    if (plan_.targets_.size() > kMaxTargets) {
      return failed(weight.rule, ErrorCode::kLimitExceeded, "it makes more than 1,048,576 tensors");
    }
    return {};
  }

  // The name below --at, and its keys where it is one of them.
  std::pair<std::string, KeyPath> placed(const std::string& name) const {
    KeyPath path;
    if (options_.at.empty()) return {name, KeyPath{Key(name)}};
    for (std::string_view rest = options_.at;;) {
      const std::size_t end = rest.find(write_separator_);
      path.push_back(Key(rest.substr(0, end)));
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
    path.push_back(Key(name));
    return {options_.at + write_separator_ + name, std::move(path)};
  }

  void set_name(MapTarget& target, const std::string& name) const {
    auto [text, path] = placed(name);
    target.name = std::move(text);
    target.paths.push_back(std::move(path));
  }

  void add_tied(MapTarget& target, const std::string& name) const {
    auto [text, path] = placed(name);
    target.tied.push_back(std::move(text));
    target.paths.push_back(std::move(path));
  }

  // What is no factor was trained itself: it is a parameter of the base.
  Result<void> plan_parameters() {
    if (found_->parameters().empty()) return {};
    AdapterParameters parameters(*found_, plan_.leaves_, plan_.adapter_->modules);
    auto leaves = parameters.read();
    if (!leaves) return propagate(leaves);
    MapPlanOptions own = options_.plan;
    own.parameters = MapParameters::kSome;
    auto made = MapPlan::make(map_, std::move(*leaves), own);
    if (!made) {
      made.error().message = "what is no factor of the adapter: " + made.error().message;
      return propagate(made);
    }
    for (MapTarget& target : made->targets_) {
      parameters.rewrite(target);
      set_name(target, target.name);
      for (const std::string& name : std::exchange(target.tied, {})) add_tied(target, name);
      plan_.targets_.push_back(std::move(target));
    }
    add_rest(*made, parameters);
    return {};
  }

  // What else a plan of parameters has.
  void add_rest(MapPlan& made, const AdapterParameters& parameters) {
    for (MapEqual& equal : made.equals_) {
      parameters.renumber(equal.first);
      parameters.renumber(equal.second);
      if (equal.piece) parameters.renumber(equal.piece->source);
      plan_.equals_.push_back(std::move(equal));
    }
    for (MapLost& lost : made.losses_) {
      parameters.renumber(lost.source);
      parameters.renumber(lost.piece.source);
      plan_.losses_.push_back(std::move(lost));
    }
    for (MapPlan::Dropped& dropped : made.dropped_) {
      parameters.renumber(dropped.leaf);
      plan_.dropped_.push_back(dropped);
    }
    for (std::size_t i = 0; i < plan_.rules_.size(); ++i) {
      plan_.rules_[i].sources += made.rules_[i].sources;
      plan_.rules_[i].targets += made.rules_[i].targets;
      plan_.rules_[i].work = std::max(plan_.rules_[i].work, made.rules_[i].work);
    }
    plan_.kept_ += made.kept_;
  }

  // What stands outside of the map stays as it is.
  void keep(std::uint32_t number) {
    MapTarget target;
    target.name = leaf(number).name;
    target.rule = MapTarget::kKept;
    target.source = number;
    target.dtype = leaf(number).dtype;
    target.shape = leaf(number).shape;
    ++plan_.kept_;
    plan_.targets_.push_back(std::move(target));
  }

  const KeyMap& map_;
  const LiftOptions& options_;
  const char write_separator_;
  MapPlan plan_;
  std::optional<AdapterModules> found_;
  std::vector<bool> are_counted_;  // by module
  std::unordered_set<std::uint32_t> renamed_;
  std::size_t pieces_ = 0;
  bool has_noted_stacks_ = false;
};

Result<MapPlan> plan_with_adapter(const KeyMap& map, std::vector<MapLeaf> leaves,
                                  const LiftOptions& options) {
  return AdapterPlanner(map, std::move(leaves), options).plan();
}

}  // namespace espalier
