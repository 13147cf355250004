#include "espalier/map/adapter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "espalier/base/ascii.h"
#include "espalier/base/checked.h"
#include "espalier/base/real_text.h"
#include "espalier/map/adapter_layout.h"
#include "espalier/map/adapter_names.h"
#include "espalier/map/blocks.h"
#include "espalier/map/compute.h"
#include "espalier/map/map_error.h"
#include "espalier/map/pieces.h"

namespace espalier {
namespace {

constexpr std::string_view kLabelEnd = "::";
// The last segments of weights' names, which those of their modules lack.
constexpr std::string_view kWeightNames[] = {"weight", "kernel", "embedding"};

constexpr std::size_t kPartCount = 3;
constexpr AdapterPart kParts[] = {AdapterPart::kA, AdapterPart::kB, AdapterPart::kVector};

std::size_t slot_of(AdapterPart part) { return static_cast<std::size_t>(part); }

AdapterRole role_of(AdapterPart part) {
  return part == AdapterPart::kA ? AdapterRole::kIn : AdapterRole::kOut;
}

// Whether multiplying by it only changes exponents.
bool is_power_of_two(double number) {
  int exponent = 0;
  return std::isfinite(number) && std::fabs(std::frexp(number, &exponent)) == 0.5;
}

std::string_view without_label(std::string_view name) {
  const std::size_t end = name.find(kLabelEnd);
  return end == std::string_view::npos ? name : name.substr(end + kLabelEnd.size());
}

std::string label_with_end(std::string_view name) {
  return std::string(name.substr(0, name.size() - without_label(name).size()));
}

// "a.b" of "a.b.weight".
std::string module_of(std::string_view weight, char separator) {
  for (const std::string_view last : kWeightNames) {
    if (weight.size() > last.size() + 1 && weight.ends_with(last) &&
        weight[weight.size() - last.size() - 1] == separator) {
      return std::string(weight.substr(0, weight.size() - last.size() - 1));
    }
  }
  return std::string(weight);
}

bool mentions_lora(std::string_view name) {
  constexpr std::string_view kLora = "lora";
  return std::search(name.begin(), name.end(), kLora.begin(), kLora.end(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         }) != name.end();
}

std::vector<std::string> texts_of(const KeyMap& map, const LiftOptions& options) {
  if (!options.lora.empty()) return options.lora;
  const MapLora& lora = map.lora();
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < lora.left.size(); ++i) {
    std::string& text = texts.emplace_back(lora.left[i]);
    text.append(kAlongArrow).append(lora.right[i]);
  }
  return texts;
}

// The factor that a name is of.
struct FoundPart {
  std::size_t place = 0;
  AdapterPart part = AdapterPart::kVector;
  std::string module;
};

std::optional<FoundPart> find_part(const std::vector<AdapterPlace>& places, std::string_view name,
                                   char separator) {
  const std::string_view own = without_label(name);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const AdapterNames& names = places[i].read;
    CaptureValues values(names.words);
    if (!names.pattern.match(own, separator, values)) continue;
    FoundPart found{i, AdapterPart::kVector, label_with_end(name) + values[names.module]->text};
    if (names.factor) {
      found.part = values[*names.factor]->number == 0 ? AdapterPart::kA : AdapterPart::kB;
    }
    return found;
  }
  return std::nullopt;
}

}  // namespace

class AdapterPlanner {
 public:
  AdapterPlanner(const KeyMap& map, std::vector<MapLeaf> leaves, const LiftOptions& options)
      : map_(map),
        options_(options),
        read_separator_(map.side(!options.plan.reverse).separator()),
        write_separator_(map.side(options.plan.reverse).separator()) {
    plan_.leaves_ = std::move(leaves);
    plan_.rules_.resize(map.rules().size());
    plan_.adapter_.emplace();
  }

  Result<MapPlan> plan() {
    if (!options_.along.empty()) {
      return invalid_map(
          "\"along\": the state of an adapter's optimizer does not follow its factors; leave out "
          "--along, and map the adapter alone");
    }
    auto places = parse_adapter_places(texts_of(map_, options_), options_.plan.reverse,
                                       read_separator_, write_separator_);
    if (!places) return propagate(places);
    places_ = std::move(*places);
    if (auto ok = part_leaves(); !ok) return propagate(ok);
    if (auto ok = check_parts(); !ok) return propagate(ok);
    find_alphas();
    auto weights = weights_of();
    if (!weights) return propagate(weights);
    MapPlanOptions own = options_.plan;
    own.parameters = MapParameters::kAdapted;
    const auto made = MapPlan::make(map_, std::move(*weights), own);
    if (!made) {
      Error error = made.error();
      error.message = "weights that the adapter changes: " + error.message;
      return tl::unexpected<Error>(std::move(error));
    }
    if (auto ok = follow(*made); !ok) return propagate(ok);
    if (auto ok = plan_parameters(); !ok) return propagate(ok);
    for (const std::uint32_t leaf : others_) keep(leaf);
    return MapPlan::merged(std::move(plan_));
  }

 private:
  // A module with factors, and the weight that they are for.
  struct Module {
    std::string name;
    std::size_t place = 0;
    std::size_t vector_place = 0;
    std::array<std::optional<std::uint32_t>, kPartCount> leaves = {};
    std::uint64_t rank = 0;
    std::optional<double> alpha = std::nullopt;
    std::vector<std::uint64_t> shape = {};
    std::vector<AdapterRole> roles = {};
    std::array<FactorLayout, kPartCount> layouts = {};
    // Whether a rule says what the axes are.
    bool has_axes = false;
    bool is_counted = false;
  };

  // A target's weight while its factors are made.
  struct Following {
    const MapTarget& weight;
    std::vector<AdapterRole> roles;
    // By the position along stacked axes.
    std::map<AxisPosition, std::vector<RankBlock>> stacks;
    std::uint64_t rank = 0;
  };

  const MapLeaf& leaf(std::uint32_t number) const { return plan_.leaves_[number]; }

  std::string quoted(const Module& module, AdapterPart part) const {
    return in_quotes(leaf(*module.leaves[slot_of(part)]).name);
  }

  static tl::unexpected<Error> failed(std::uint32_t rule, ErrorCode code,
                                      const std::string& message) {
    const std::string prefix =
        rule == MapTarget::kKept ? std::string() : "rule " + std::to_string(rule + 1) + ": ";
    return fail(code, prefix + message);
  }

  // Finds the factors among the leaves.
  Result<void> part_leaves() {
    if (!options_.at.empty()) prefix_ = options_.at + read_separator_;
    std::map<std::string, std::uint32_t, std::less<>> numbers;
    std::vector<std::pair<std::uint32_t, FoundPart>> vectors;
    for (std::uint32_t i = 0; i < plan_.leaves_.size(); ++i) {
      const std::string& name = leaf(i).name;
      if (!name.starts_with(prefix_)) {
        others_.push_back(i);
        continue;
      }
      auto found =
          find_part(places_, std::string_view(name).substr(prefix_.size()), read_separator_);
      if (!found) {
        if (mentions_lora(name)) {
          return fail(ErrorCode::kMapUnmatched,
                      in_quotes(name) + " belongs to the adapter, and is no factor as " +
                          in_quotes(places_.front().text) + " says; name it with --lora, too");
        }
        parameters_.push_back(i);
        continue;
      }
      if (!leaf(i).is_tensor || leaf(i).is_placeholder) {
        return fail(ErrorCode::kMapShape, in_quotes(name) + " is no tensor with data");
      }
      if (found->part == AdapterPart::kVector) {
        vectors.emplace_back(i, std::move(*found));
        continue;
      }
      const auto [at, is_new] =
          numbers.emplace(found->module, static_cast<std::uint32_t>(modules_.size()));
      if (is_new) modules_.push_back({found->module, found->place});
      Module& module = modules_[at->second];
      auto& own = module.leaves[slot_of(found->part)];
      if (own || module.place != found->place) {
        std::uint32_t other = own.value_or(0);
        for (const auto& each : module.leaves) {
          if (!own && each) other = *each;
        }
        return fail(ErrorCode::kMapAmbiguous, in_quotes(leaf(other).name) + " and " +
                                                  in_quotes(name) +
                                                  " are factors of one module; map one adapter "
                                                  "after the other");
      }
      own = i;
    }
    for (auto& [i, found] : vectors) {
      const auto at = numbers.find(found.module);
      if (at == numbers.end()) {
        return fail(
            ErrorCode::kMapIncomplete,
            "found " + in_quotes(leaf(i).name) + ", but no factors of " + in_quotes(found.module));
      }
      modules_[at->second].vector_place = found.place;
      modules_[at->second].leaves[slot_of(AdapterPart::kVector)] = i;
    }
    if (!modules_.empty()) return {};
    return fail(ErrorCode::kMapUnmatched,
                "nothing is called as " + in_quotes(places_.front().text) +
                    " says; check the names" +
                    (options_.at.empty() ? ", and --at if they stand below another one"
                                         : ", which stand below " + in_quotes(options_.at)));
  }

  Result<void> check_parts() const {
    for (const Module& module : modules_) {
      const bool has_a = module.leaves[slot_of(AdapterPart::kA)].has_value();
      const bool has_b = module.leaves[slot_of(AdapterPart::kB)].has_value();
      if (!has_a || !has_b) {
        const AdapterNames& names = places_[module.place].read;
        const std::string missing = prefix_ + label_with_end(module.name) +
                                    names.write(std::string(without_label(module.name)),
                                                has_a ? AdapterPart::kB : AdapterPart::kA);
        return fail(ErrorCode::kMapIncomplete,
                    "found " + quoted(module, has_a ? AdapterPart::kA : AdapterPart::kB) +
                        " but not " + in_quotes(missing));
      }
      for (const AdapterPart part : kParts) {
        if (!module.leaves[slot_of(part)] || place_of(module, part).write) continue;
        return fail(ErrorCode::kMapUnmatched,
                    quoted(module, part) + " has no name on the other side as " +
                        in_quotes(place_of(module, part).text) + " says; give one with --lora");
      }
    }
    return {};
  }

  const AdapterPlace& place_of(const Module& module, AdapterPart part) const {
    return places_[part == AdapterPart::kVector ? module.vector_place : module.place];
  }

  std::optional<double> configured(const std::string& word) const {
    return options_.plan.config ? options_.plan.config(word) : std::nullopt;
  }

  std::optional<double> number(const std::string& word) const {
    const MapPlanOptions& plan = options_.plan;
    if (const auto size = plan.sizes.find(word); size != plan.sizes.end()) {
      return static_cast<double>(size->second);
    }
    if (const auto set = plan.numbers.find(word); set != plan.numbers.end()) return set->second;
    return configured(word);
  }

  // As PEFT finds them: a pattern is the name of a module, or the end of one.
  void find_alphas() {
    const auto common = number("lora_alpha");
    plan_.adapter_->is_rank_stabilized = number("use_rslora").value_or(0) != 0;
    std::set<std::string> used;
    for (Module& module : modules_) {
      module.alpha = common;
      std::optional<double> own;
      for (std::string_view name = without_label(module.name);;) {
        std::string end(name);
        if (const auto alpha = configured("alpha_pattern." + end)) {
          if (own && *own != *alpha) {
            why_no_alpha_ = "\"alpha_pattern\" has two alphas for " + in_quotes(module.name) +
                            "; leave one of them";
          }
          own = alpha;
          used.insert(std::move(end));
        }
        const std::size_t next = name.find(read_separator_);
        if (next == std::string_view::npos) break;
        name.remove_prefix(next + 1);
      }
      if (own) module.alpha = own;
    }
    if (!common) {
      why_no_alpha_ =
          "pass adapter_config.json as --config, or --set lora_alpha=..., so that the product "
          "stays";
    }
    if (configured("alpha_pattern").value_or(0) > static_cast<double>(used.size())) {
      why_no_alpha_ =
          "\"alpha_pattern\" has a pattern that is the end of no module's name; write out the "
          "names";
    }
    if (why_no_alpha_.empty()) return;
    for (Module& module : modules_) module.alpha.reset();
  }

  // The weights that the factors are for.
  Result<std::vector<MapLeaf>> weights_of() {
    std::vector<MapLeaf> weights;
    weights.reserve(modules_.size());
    for (Module& module : modules_) {
      auto weight = weight_of(module);
      if (!weight) return propagate(weight);
      weights.push_back(std::move(*weight));
    }
    return weights;
  }

  // The tensor of a rule that has a name.
  struct TakenBy {
    std::uint32_t rule = MapTarget::kKept;
    const std::optional<Axes>* axes = nullptr;
    // Words that number tensors on the other side.
    std::set<std::string> stacked = {};
  };

  std::optional<TakenBy> find_rule(const std::string& name) const {
    for (std::size_t i = 0; i < map_.rules().size(); ++i) {
      const Rule& rule = map_.rules()[i];
      const auto& read = rule.side(!options_.plan.reverse);
      const auto& written = rule.side(options_.plan.reverse);
      for (const TensorTerm* tensor : tensors_of(read)) {
        if (tensor->kind != TensorTerm::Kind::kTensor) continue;
        for (const TensorName& each : tensor->names) {
          CaptureValues values(rule.words.size());
          if (!each.pattern.match(name, read_separator_, values)) continue;
          TakenBy taken{static_cast<std::uint32_t>(i), &each.axes};
          for (const TensorTerm* other : tensors_of(written)) {
            if (other->kind != TensorTerm::Kind::kTensor) continue;
            for (const std::size_t word : stacked_words(rule, *other, read)) {
              taken.stacked.insert(rule.words[word]);
            }
          }
          return taken;
        }
      }
    }
    return std::nullopt;
  }

  Result<MapLeaf> weight_of(Module& module) const {
    std::string name;
    std::optional<TakenBy> taken;
    for (const std::string_view last : kWeightNames) {
      if (taken) break;
      name = module.name + read_separator_ + std::string(last);
      taken = find_rule(name);
    }
    if (!taken) taken = find_rule(name = module.name);
    if (!taken) {
      if (options_.plan.rest.value_or(map_.rest()) == MapRest::kError) {
        return fail(ErrorCode::kMapUnmatched,
                    "no rule takes " +
                        in_quotes(module.name + read_separator_ + std::string(kWeightNames[0])) +
                        ", the weight of " + quoted(module, AdapterPart::kA) +
                        "; add a rule, or \"rest\": \"keep\" or \"drop\"");
      }
      name = module.name + read_separator_ + std::string(kWeightNames[0]);
      taken.emplace();
    }
    if (auto ok = find_shape(module, name, *taken); !ok) return propagate(ok);
    // Numbers of any kind may change; those of the factors are checked when they are made.
    return MapLeaf{.name = std::move(name), .is_tensor = true, .shape = module.shape};
  }

  bool is_transposed(const Module& module, std::string_view weight) const {
    const AdapterNames& names = places_[module.place].read;
    if (names.is_weight_transposed) return *names.is_weight_transposed;
    return weight.ends_with("kernel") || configured("fan_in_fan_out").value_or(0) != 0;
  }

  // Puts the shape of the weight together from those of the factors.
  Result<void> find_shape(Module& module, std::string_view weight, const TakenBy& taken) const {
    const auto& a = leaf(*module.leaves[slot_of(AdapterPart::kA)]).shape;
    const auto& b = leaf(*module.leaves[slot_of(AdapterPart::kB)]).shape;
    const std::string both = quoted(module, AdapterPart::kA) + ' ' + printed(a) + " and " +
                             quoted(module, AdapterPart::kB) + ' ' + printed(b);
    const auto misfit = [&](const std::string& why) {
      return failed(taken.rule, ErrorCode::kMapShape, both + ' ' + why);
    };
    module.has_axes = taken.axes != nullptr && taken.axes->has_value();
    std::size_t stacked = 0;
    std::vector<bool> is_stacked;
    if (module.has_axes) {
      for (const Axis& axis : **taken.axes) {
        const AxisTerm& term = axis.terms.front();
        is_stacked.push_back(axis.terms.size() == 1 && term.kind == AxisTerm::Kind::kWord &&
                             taken.stacked.contains(term.word));
        if (is_stacked.back()) ++stacked;
      }
    }
    if (a.size() < stacked + 2 || b.size() < stacked + 2) {
      return misfit("have too few axes for factors" +
                    (stacked > 0 ? " of stacked weights" : std::string()));
    }
    const std::size_t ins = a.size() - stacked - 1;
    const std::size_t outs = b.size() - stacked - 1;
    const std::size_t rank = ins + outs + stacked;
    if (module.has_axes) {
      const Axes& axes = **taken.axes;
      const auto all = with_rank(axes, rank);
      if (!all) {
        return misfit("are factors of a weight of " + std::to_string(rank) + " axes, and [" +
                      to_string(axes) + "] are " + std::to_string(axes.size()));
      }
      for (std::size_t i = 0; has_rest(axes) && i < axes.size(); ++i) {
        if (axes[i].terms.front().kind != AxisTerm::Kind::kRest) continue;
        is_stacked.erase(is_stacked.begin() + static_cast<std::ptrdiff_t>(i));
        is_stacked.insert(is_stacked.begin() + static_cast<std::ptrdiff_t>(i),
                          rank + 1 - axes.size(), false);
        break;
      }
    } else {
      is_stacked.assign(rank, false);
    }
    const AdapterNames& names = places_[module.place].read;
    const std::size_t a_rank = names.is_a_transposed ? a.size() - 1 : stacked;
    const std::size_t b_rank = names.is_b_transposed ? stacked : b.size() - 1;
    if (a[a_rank] != b[b_rank]) return misfit("have different ranks");
    module.rank = a[a_rank];
    if (!std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(stacked), b.begin())) {
      return misfit("are stacked from different numbers");
    }
    const auto is_empty = [](std::uint64_t size) { return size == 0; };
    if (std::any_of(a.begin(), a.end(), is_empty) || std::any_of(b.begin(), b.end(), is_empty)) {
      return misfit("have no elements");
    }
    // The axes of each factor without the stacked ones and the rank.
    const auto own_axes = [&](const std::vector<std::uint64_t>& shape, std::size_t rank_axis) {
      std::vector<std::uint64_t> own = shape;
      own.erase(own.begin() + static_cast<std::ptrdiff_t>(rank_axis));
      own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(stacked));
      return own;
    };
    std::vector<std::pair<AdapterRole, std::uint64_t>> rows;
    std::vector<std::pair<AdapterRole, std::uint64_t>> columns;
    for (const std::uint64_t size : own_axes(b, b_rank)) rows.emplace_back(AdapterRole::kOut, size);
    for (const std::uint64_t size : own_axes(a, a_rank))
      columns.emplace_back(AdapterRole::kIn, size);
    if (is_transposed(module, weight)) rows.swap(columns);
    rows.insert(rows.end(), columns.begin(), columns.end());
    std::size_t next = 0;
    std::size_t next_stacked = 0;
    std::uint64_t elements = 1;
    for (const bool is_stack : is_stacked) {
      const auto [role, size] =
          is_stack ? std::pair(AdapterRole::kStack, a[next_stacked++]) : rows[next++];
      module.roles.push_back(role);
      module.shape.push_back(size);
      const auto product = checked_mul(elements, size);
      if (!product || *product > kMaxFactorElements)
        return misfit("are factors of too large a weight");
      elements = *product;
    }
    return find_layouts(module, misfit);
  }

  template <class Misfit>
  Result<void> find_layouts(Module& module, const Misfit& misfit) const {
    for (const AdapterPart part : kParts) {
      const auto& own = module.leaves[slot_of(part)];
      if (!own) continue;
      auto layout =
          layout_for(place_of(module, part).read, part, module.shape, module.roles, module.rank);
      if (!layout || layout->shape != leaf(*own).shape) {
        return misfit("do not fit " + in_quotes(leaf(*own).name) + ' ' + printed(leaf(*own).shape));
      }
      module.layouts[slot_of(part)] = std::move(*layout);
    }
    return {};
  }

  static std::optional<FactorLayout> layout_for(const AdapterNames& names, AdapterPart part,
                                                std::span<const std::uint64_t> shape,
                                                std::span<const AdapterRole> roles,
                                                std::uint64_t rank) {
    if (part == AdapterPart::kVector) return layout_of(shape, roles, AdapterRole::kOut, {}, false);
    const bool is_rank_first =
        part == AdapterPart::kA ? !names.is_a_transposed : names.is_b_transposed;
    return layout_of(shape, roles, role_of(part), rank, is_rank_first);
  }

  // Makes the factors of all that the map makes of the weights.
  Result<void> follow(const MapPlan& made) {
    for (const MapTarget& weight : made.targets_) {
      if (auto ok = follow(weight); !ok) return ok;
    }
    for (const MapPlan::Dropped& dropped : made.dropped_) {
      for (const auto& part : modules_[dropped.leaf].leaves) {
        if (part) plan_.dropped_.push_back({*part, dropped.rule});
      }
      if (dropped.rule != MapTarget::kKept) count_sources(modules_[dropped.leaf], dropped.rule);
    }
    for (const MapEqual& equal : made.equals_) {
      if (auto ok = follow(equal); !ok) return ok;
    }
    for (const MapLost& lost : made.losses_) {
      if (auto ok = follow(lost); !ok) return ok;
    }
    return {};
  }

  void count_sources(Module& module, std::uint32_t rule) {
    if (module.is_counted || rule == MapTarget::kKept) return;
    module.is_counted = true;
    for (const auto& part : module.leaves) plan_.rules_[rule].sources += part ? 1 : 0;
  }

  // A weight under several names has its factors under all of them.
  Result<void> follow(const MapEqual& equal) {
    const Module& first = modules_[equal.first];
    const Module& second = modules_[equal.second];
    count_sources(modules_[equal.second], equal.rule);
    for (const AdapterPart part : kParts) {
      const auto& one = first.leaves[slot_of(part)];
      const auto& other = second.leaves[slot_of(part)];
      if (!one && !other) continue;
      if (!one || !other || equal.piece || leaf(*one).shape != leaf(*other).shape ||
          leaf(*one).dtype != leaf(*other).dtype) {
        return failed(equal.rule, ErrorCode::kMapShape,
                      quoted(first, AdapterPart::kB) + " and " + quoted(second, AdapterPart::kB) +
                          " are of one weight under two names, and their modules' factors are not "
                          "alike; leave the factors of one of them");
      }
      plan_.equals_.push_back({equal.rule, *one, *other});
    }
    return {};
  }

  // What is lost of a weight are rows of B or columns of A.
  Result<void> follow(const MapLost& lost) {
    const Module& module = modules_[lost.source];
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
                          quoted(module, AdapterPart::kA) + " and " +
                          quoted(module, AdapterPart::kB) +
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
    const Module& module = modules_[number];
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
      const Module& module = modules_[piece.source];
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
          return modules_[module].roles;
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
    auto scales = scales_of(following);
    if (!scales) return propagate(scales);
    for (const AdapterPart part : kParts) {
      if (auto ok = make_part(following, part, *scales); !ok) return ok;
    }
    for (const auto& [stack, blocks] : following.stacks) {
      for (const RankBlock& block : blocks) count_sources(modules_[block.module], weight.rule);
    }
    return {};
  }

  // An axis of the target is of rows or of columns, as its words are; or it numbers weights.
  Result<void> find_roles(const std::vector<AdapterPatch>& patches, Following& following) const {
    const MapTarget& weight = following.weight;
    for (const AdapterPatch& patch : patches) {
      const Module& module = modules_[patch.module];
      if (!module.has_axes && module.shape.size() > 2 && changes_layout(module)) {
        return failed(weight.rule, ErrorCode::kMapUndetermined,
                      "the rule says nothing of the axes of " + quoted(module, AdapterPart::kA) +
                          ' ' + printed(leaf(*module.leaves[0]).shape) + " and " +
                          quoted(module, AdapterPart::kB) +
                          ", which are transposed; write the axes of " + in_quotes(weight.name) +
                          " in the rule");
      }
      for (const WordRun& run : patch.runs) {
        const AdapterRole role = module.roles[run.from_axis];
        if (role == AdapterRole::kStack) continue;
        AdapterRole& own = following.roles[run.to_axis];
        if (own != AdapterRole::kNone && own != role) {
          return failed(
              weight.rule, ErrorCode::kMapNotInvertible,
              "axis " + std::to_string(run.to_axis) + " of " + in_quotes(weight.name) + ' ' +
                  printed(weight.shape) + " has rows and columns of the weight of " +
                  quoted(module, AdapterPart::kA) + " and " + quoted(module, AdapterPart::kB) +
                  ", which no factors have; merge the adapter into its base, and map "
                  "that");
        }
        own = role;
      }
    }
    for (AdapterRole& role : following.roles) {
      if (role == AdapterRole::kNone) role = AdapterRole::kStack;
    }
    return {};
  }

  bool changes_layout(const Module& module) const {
    const AdapterPlace& place = places_[module.place];
    return place.read.is_a_transposed != place.write->is_a_transposed ||
           place.read.is_b_transposed != place.write->is_b_transposed;
  }

  Result<void> find_rank(Following& following) const {
    const MapTarget& weight = following.weight;
    const RankBlock* first = nullptr;
    for (const auto& [stack, blocks] : following.stacks) {
      std::uint64_t rank = 0;
      for (const RankBlock& block : blocks) {
        const auto sum = checked_add(rank, modules_[block.module].rank);
        if (!sum || (blocks.size() > 1 && *sum > kMaxJoinedRank)) {
          return failed(weight.rule, ErrorCode::kLimitExceeded,
                        "the factors of " + in_quotes(weight.name) +
                            " would have a joined rank above " + std::to_string(kMaxJoinedRank));
        }
        rank = *sum;
      }
      if (first != nullptr && rank != following.rank) {
        const Module& one = modules_[first->module];
        const Module& other = modules_[blocks.front().module];
        return failed(weight.rule, ErrorCode::kMapShape,
                      quoted(one, AdapterPart::kA) + ' ' + printed(leaf(*one.leaves[0]).shape) +
                          " and " + quoted(other, AdapterPart::kA) + ' ' +
                          printed(leaf(*other.leaves[0]).shape) + " have different ranks, and " +
                          in_quotes(weight.name) + " stacks them; stacked factors have one rank");
      }
      following.rank = rank;
      if (first == nullptr) first = &blocks.front();
    }
    return {};
  }

  // What B of each module is scaled by so that one alpha is right for all, and that alpha.
  struct Scales {
    std::map<std::uint32_t, double> by_module;
    std::optional<double> alpha;
  };

  Result<Scales> scales_of(const Following& following) const {
    const MapTarget& weight = following.weight;
    Scales scales;
    std::vector<std::uint32_t> modules;
    for (const auto& [stack, blocks] : following.stacks) {
      for (const RankBlock& block : blocks) {
        if (scales.by_module.emplace(block.module, 1.0).second) modules.push_back(block.module);
      }
    }
    const Module& first = modules_[modules.front()];
    if (modules.size() == 1 && first.rank == following.rank) {
      scales.alpha = first.alpha;
      return scales;
    }
    const bool is_stabilized = plan_.adapter_->is_rank_stabilized;
    const Module* least = nullptr;
    // Of a module beside the least, of alpha/rank, or of the square of alpha/sqrt(rank). Products
    // of whole numbers are exact.
    const auto ratio = [&](const Module& module) {
      double own = *module.alpha * static_cast<double>(least->rank);
      double other = *least->alpha * static_cast<double>(module.rank);
      if (is_stabilized) {
        own *= *module.alpha;
        other *= *least->alpha;
      }
      return own / other;
    };
    for (const std::uint32_t number : modules) {
      const Module& module = modules_[number];
      if (!module.alpha || !std::isfinite(*module.alpha) || *module.alpha == 0) {
        return failed(
            weight.rule, ErrorCode::kMapUndetermined,
            "the factors of " + in_quotes(weight.name) + " are joined from " +
                joined_names(modules) +
                ", and their alpha follows from those of the parts, which are not known; " +
                (why_no_alpha_.empty() ? "alpha is a number other than 0" : why_no_alpha_));
      }
      // The others grow, so that no small number is lost.
      if (least == nullptr || std::fabs(ratio(module)) < 1) least = &module;
    }
    for (const std::uint32_t number : modules) {
      double factor = ratio(modules_[number]);
      if (is_stabilized) {
        factor = std::sqrt(factor);
        if (*modules_[number].alpha / *least->alpha < 0) factor = -factor;
      }
      if (factor != 1 && !is_power_of_two(factor)) {
        return failed(
            weight.rule, ErrorCode::kMapNotInvertible,
            quoted(*least, AdapterPart::kB) + " and " + quoted(modules_[number], AdapterPart::kB) +
                " are scaled by numbers whose ratio " + print_real(factor) +
                " is no power of 2, so that no alpha is exact for " + in_quotes(weight.name) +
                "; train them with one alpha/r, or merge the adapter into its base, and "
                "map that");
      }
      scales.by_module[number] = factor;
    }
    const auto rank = static_cast<double>(following.rank);
    const auto old_rank = static_cast<double>(least->rank);
    scales.alpha = is_stabilized ? *least->alpha * std::sqrt(rank / old_rank)
                                 : *least->alpha * rank / old_rank;
    return scales;
  }

  std::string joined_names(const std::vector<std::uint32_t>& modules) const {
    std::string text = quoted(modules_[modules.front()], AdapterPart::kB);
    if (modules.size() > 1) text += " and " + quoted(modules_[modules[1]], AdapterPart::kB);
    if (modules.size() > 2) text += " (and " + std::to_string(modules.size() - 2) + " more)";
    return text;
  }

  // Makes one factor of a target, or its vector.
  Result<void> make_part(const Following& following, AdapterPart part, const Scales& scales) {
    const MapTarget& weight = following.weight;
    const Module& first = modules_[following.stacks.begin()->second.front().module];
    if (part == AdapterPart::kVector) {
      const auto has_vector = check_vectors(following);
      if (!has_vector) return propagate(has_vector);
      if (!*has_vector) return {};
    }
    const AdapterPlace& place = place_of(first, part);
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
    std::uint64_t filled = 0;
    for (const auto& [stack, blocks] : following.stacks) {
      std::int64_t rank = 0;
      for (const RankBlock& block : blocks) {
        const Module& module = modules_[block.module];
        if (&place_of(module, part) != &place) {
          return failed(weight.rule, ErrorCode::kMapNotInvertible,
                        quoted(first, part) + " and " + quoted(module, part) +
                            " have names of two kinds, and " + in_quotes(weight.name) +
                            " joins them; merge the adapter into its base, and map that");
        }
        auto steps = steps_of(part, *block.steps, scales.by_module.at(block.module));
        for (const Stretch& stretch : part == AdapterPart::kA ? block.columns : block.rows) {
          MapPiece piece;
          piece.source = *module.leaves[slot_of(part)];
          const FactorLayout& own = module.layouts[slot_of(part)];
          piece.from = element_at(block.stack, own) + element_at(stretch.from, own);
          piece.to = element_at(stack, *layout) + element_at(stretch.to, *layout) +
                     rank * layout->rank_stride;
          if (part != AdapterPart::kVector) {
            piece.loops.push_back({module.rank, own.rank_stride, layout->rank_stride});
          }
          for (const WordRun& run : stretch.runs) {
            piece.loops.push_back({run.count, run.from_step * own.strides[run.from_axis],
                                   run.to_step * layout->strides[run.to_axis]});
          }
          filled += stretch.size() * (part == AdapterPart::kVector ? 1 : module.rank);
          piece.steps = steps;
          if (!settle(piece.loops)) continue;
          if (auto ok = add_piece(target, std::move(piece), weight); !ok) return ok;
        }
        rank += static_cast<std::int64_t>(module.rank);
      }
    }
    if (filled < elements_of(target.shape)) {
      MapPiece zeros;
      zeros.loops.push_back({elements_of(target.shape), 0, 1});
      target.pieces.insert(target.pieces.begin(), std::move(zeros));
    }
    for (const auto& axis : layout->axes) {
      target.words.push_back(!axis                         ? "rank"
                             : *axis < weight.words.size() ? weight.words[*axis]
                                                           : std::string());
    }
    if (part == AdapterPart::kB) {
      plan_.adapter_->modules.push_back(
          {module_of(weight.name, write_separator_), following.rank, scales.alpha});
    }
    return finish(std::move(target), *place.write, part, weight);
  }

  // Of DoRA: each row of a target is a row of one module, with all of its columns.
  Result<bool> check_vectors(const Following& following) const {
    const MapTarget& weight = following.weight;
    const Module* with = nullptr;
    const Module* without = nullptr;
    for (const auto& [stack, blocks] : following.stacks) {
      for (const RankBlock& block : blocks) {
        const Module& module = modules_[block.module];
        (module.leaves[slot_of(AdapterPart::kVector)] ? with : without) = &module;
      }
    }
    if (with == nullptr) return false;
    const std::string name = quoted(*with, AdapterPart::kVector);
    if (without != nullptr) {
      return failed(weight.rule, ErrorCode::kMapIncomplete,
                    "found " + name + ", but no such vector beside " +
                        quoted(*without, AdapterPart::kB) + ", and " + in_quotes(weight.name) +
                        " joins them");
    }
    const std::uint64_t rows = size_along(weight.shape, following.roles, AdapterRole::kOut);
    const std::uint64_t stacks = size_along(weight.shape, following.roles, AdapterRole::kStack);
    bool is_whole = following.stacks.size() == stacks;
    for (const auto& [stack, blocks] : following.stacks) {
      std::uint64_t filled = 0;
      std::set<std::pair<AxisPosition, std::vector<std::pair<std::uint32_t, std::int64_t>>>> places;
      for (const RankBlock& block : blocks) {
        const Module& module = modules_[block.module];
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
      if (before.dtype != source.dtype || before.block_name != source.block_name ||
          before.block_elements != source.block_elements ||
          before.block_bytes != source.block_bytes) {
        return failed(weight.rule, ErrorCode::kMapShape,
                      in_quotes(before.name) + " is " + std::string(dtype_name(before.dtype)) +
                          ", and " + in_quotes(source.name) + " is " +
                          std::string(dtype_name(source.dtype)) + "; both go into a factor of " +
                          in_quotes(weight.name) + ", which has one dtype");
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
    if (parameters_.empty()) return {};
    const AdapterPlace& place = places_.front();
    const std::string& read_prefix = place.read.prefix;
    std::vector<MapLeaf> leaves;
    std::vector<bool> had_prefix;
    for (const std::uint32_t number : parameters_) {
      leaves.push_back(leaf(number));
      std::string& name = leaves.back().name;
      name.erase(0, prefix_.size());
      const std::string label = label_with_end(name);
      std::string_view rest = without_label(name);
      had_prefix.push_back(rest.starts_with(read_prefix));
      if (had_prefix.back()) rest.remove_prefix(read_prefix.size());
      name = label + std::string(rest);
    }
    MapPlanOptions own = options_.plan;
    own.parameters = MapParameters::kSome;
    auto made = MapPlan::make(map_, std::move(leaves), own);
    if (!made) {
      made.error().message = "what is no factor of the adapter: " + made.error().message;
      return propagate(made);
    }
    const auto renumber = [&](std::uint32_t& number) {
      if (number != MapPiece::kZeros) number = parameters_[number];
    };
    for (MapTarget& target : made->targets_) {
      const bool is_kept_so = target.rule == MapTarget::kKept &&
                              target.source != MapPiece::kZeros && !had_prefix[target.source];
      renumber(target.source);
      for (MapPiece& piece : target.pieces) renumber(piece.source);
      for (MapTerm& term : target.terms) {
        for (MapOperand& operand : term.operands) renumber(operand.source);
      }
      const auto written = [&](const std::string& name) {
        if (is_kept_so) return name;
        return label_with_end(name) + (place.write ? place.write->prefix : std::string()) +
               std::string(without_label(name));
      };
      std::vector<std::string> tied = std::exchange(target.tied, {});
      set_name(target, written(target.name));
      for (const std::string& name : tied) add_tied(target, written(name));
      plan_.targets_.push_back(std::move(target));
    }
    for (MapEqual& equal : made->equals_) {
      renumber(equal.first);
      renumber(equal.second);
      if (equal.piece) renumber(equal.piece->source);
      plan_.equals_.push_back(std::move(equal));
    }
    for (MapLost& lost : made->losses_) {
      renumber(lost.source);
      renumber(lost.piece.source);
      plan_.losses_.push_back(std::move(lost));
    }
    for (MapPlan::Dropped& dropped : made->dropped_) {
      renumber(dropped.leaf);
      plan_.dropped_.push_back(dropped);
    }
    for (std::size_t i = 0; i < plan_.rules_.size(); ++i) {
      plan_.rules_[i].sources += made->rules_[i].sources;
      plan_.rules_[i].targets += made->rules_[i].targets;
      plan_.rules_[i].work = std::max(plan_.rules_[i].work, made->rules_[i].work);
    }
    plan_.kept_ += made->kept_;
    return {};
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
  const char read_separator_;
  const char write_separator_;
  MapPlan plan_;
  std::vector<AdapterPlace> places_;
  std::string prefix_;
  std::vector<Module> modules_;
  std::vector<std::uint32_t> parameters_;
  std::vector<std::uint32_t> others_;
  std::string why_no_alpha_;
  std::unordered_set<std::uint32_t> renamed_;
  std::size_t pieces_ = 0;
};

bool has_factors(const KeyMap& map, const std::vector<MapLeaf>& leaves,
                 const LiftOptions& options) {
  if (map.lora().left.empty()) return false;
  const char separator = map.side(!options.plan.reverse).separator();
  const auto places = parse_adapter_places(texts_of(map, options), options.plan.reverse, separator,
                                           map.side(options.plan.reverse).separator());
  // Its error is that of the plan.
  if (!places) return true;
  const std::string prefix = options.at.empty() ? std::string() : options.at + separator;
  return std::any_of(leaves.begin(), leaves.end(), [&](const MapLeaf& leaf) {
    return leaf.name.starts_with(prefix) &&
           find_part(*places, std::string_view(leaf.name).substr(prefix.size()), separator);
  });
}

Result<MapPlan> plan_with_adapter(const KeyMap& map, std::vector<MapLeaf> leaves,
                                  const LiftOptions& options) {
  return AdapterPlanner(map, std::move(leaves), options).plan();
}

}  // namespace espalier
