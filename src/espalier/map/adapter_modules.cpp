#include "espalier/map/adapter_modules.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/real_text.h"
#include "espalier/map/adapter.h"
#include "espalier/map/adapter_settings.h"
#include "espalier/map/blocks.h"
#include "espalier/map/key_map_parts.h"
#include "espalier/map/map_error.h"

namespace espalier {
namespace {

constexpr std::string_view kLabelEnd = "::";
// The last segments of weights' names, which those of their modules lack.
constexpr std::string_view kWeightNames[] = {"weight", "kernel", "embedding"};

AdapterRole role_of(AdapterPart part) {
  return part == AdapterPart::kA ? AdapterRole::kIn : AdapterRole::kOut;
}

bool mentions_lora(std::string_view name) {
  constexpr std::string_view kLora = "lora";
  return std::search(name.begin(), name.end(), kLora.begin(), kLora.end(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         }) != name.end();
}

std::vector<std::string> texts_of(const KeyMap& map, const LiftOptions& options) {
  if (!options.lora.empty()) return options.lora;
  const MapLora& lora = map.parts().lora;
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

AdapterModules::AdapterModules(const KeyMap& map, std::span<const MapLeaf> leaves,
                               const LiftOptions& options)
    : map_(&map),
      leaves_(leaves),
      options_(&options),
      read_separator_(map.parts().side(!options.plan.reverse).separator()) {
  if (!options.at.empty()) prefix_ = options.at + read_separator_;
}

Result<AdapterModules> AdapterModules::find(const KeyMap& map, std::span<const MapLeaf> leaves,
                                            const LiftOptions& options) {
  AdapterModules found(map, leaves, options);
  auto places =
      parse_adapter_places(texts_of(map, options), options.plan.reverse, found.read_separator_,
                           map.parts().side(options.plan.reverse).separator());
  if (!places) return propagate(places);
  found.places_ = std::move(*places);
  if (auto ok = found.part_leaves(); !ok) return propagate(ok);
  if (auto ok = found.check_parts(); !ok) return propagate(ok);
  if (auto ok = found.find_alphas(); !ok) return propagate(ok);
  found.weights_.reserve(found.modules_.size());
  for (AdapterModule& module : found.modules_) {
    auto weight = found.weight_of(module);
    if (!weight) return propagate(weight);
    found.weights_.push_back(std::move(*weight));
  }
  return found;
}

std::string AdapterModules::quoted(const AdapterModule& module, AdapterPart part) const {
  return in_quotes(leaf(*module.leaves[slot_of(part)]).name);
}

// Finds the factors among the leaves.
Result<void> AdapterModules::part_leaves() {
  std::map<std::string, std::uint32_t, std::less<>> numbers;
  std::vector<std::pair<std::uint32_t, FoundPart>> vectors;
  for (std::uint32_t i = 0; i < leaves_.size(); ++i) {
    const std::string& name = leaf(i).name;
    if (!name.starts_with(prefix_)) {
      others_.push_back(i);
      continue;
    }
    auto found = find_part(places_, std::string_view(name).substr(prefix_.size()), read_separator_);
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
    AdapterModule& module = modules_[at->second];
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
      return fail(ErrorCode::kMapIncomplete, "found " + in_quotes(leaf(i).name) +
                                                 ", but no factors of " + in_quotes(found.module));
    }
    modules_[at->second].vector_place = found.place;
    modules_[at->second].leaves[slot_of(AdapterPart::kVector)] = i;
  }
  if (!modules_.empty()) return {};
  return fail(ErrorCode::kMapUnmatched,
              "nothing is called as " + in_quotes(places_.front().text) + " says; check the names" +
                  (options_->at.empty() ? ", and --at if they stand below another one"
                                        : ", which stand below " + in_quotes(options_->at)));
}

Result<void> AdapterModules::check_parts() const {
  for (const AdapterModule& module : modules_) {
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
    for (const AdapterPart part : kAdapterParts) {
      if (!module.leaves[slot_of(part)] || place_of(module, part).write) continue;
      return fail(ErrorCode::kMapUnmatched,
                  quoted(module, part) + " has no name on the other side as " +
                      in_quotes(place_of(module, part).text) + " says; give one with --lora");
    }
  }
  return {};
}

std::optional<double> AdapterModules::set_number(std::string_view word) const {
  const MapPlanOptions& plan = options_->plan;
  if (const auto size = plan.sizes.find(word); size != plan.sizes.end()) {
    return static_cast<double>(size->second);
  }
  const auto set = plan.numbers.find(word);
  return set == plan.numbers.end() ? std::nullopt : std::optional(set->second);
}

Result<void> AdapterModules::find_alphas() {
  const AdapterSettings& settings = options_->adapter;
  if (!settings.problem.empty()) return invalid_map(settings.problem);
  const auto set_alpha = set_number("lora_alpha");
  if (set_alpha && !(std::isfinite(*set_alpha) && *set_alpha > 0)) {
    return invalid_map("\"lora_alpha\" is set to " + print_number(*set_alpha) +
                       ", and not to a finite number above 0");
  }
  const auto set_stabilized = set_number("use_rslora");
  if (set_stabilized && *set_stabilized != 0 && *set_stabilized != 1) {
    return invalid_map("\"use_rslora\" is set to " + print_number(*set_stabilized) +
                       ", and not to 0 or 1");
  }
  is_rank_stabilized_ =
      set_stabilized ? *set_stabilized == 1 : settings.is_rank_stabilized.value_or(false);
  const auto common = set_alpha ? set_alpha : settings.alpha;
  for (AdapterModule& module : modules_) module.alpha = common;
  if (settings.made) {
    is_rank_stabilized_ = settings.made->is_rank_stabilized;
    for (const MapAdapted& each : settings.made->modules) made_.emplace(each.module, &each);
    for (AdapterModule& module : modules_) {
      const auto made = made_.find(module.name);
      module.alpha = made == made_.end() ? std::nullopt : made->second->alpha;
    }
  } else if (settings.alphas) {
    find_patterns();
  }
  const bool has_all = std::all_of(modules_.begin(), modules_.end(),
                                   [](const AdapterModule& module) { return !!module.alpha; });
  if (!has_all && why_no_alpha_.empty()) {
    why_no_alpha_ =
        "pass adapter_config.json as --config, or --set lora_alpha=..., so that the product "
        "stays";
  }
  return {};
}

// As PEFT finds them: a pattern is the name of a module, or the end of one, and the first that fits
// counts. Not all versions take the first one if it is only the end.
void AdapterModules::find_patterns() {
  const auto& alphas = *options_->adapter.alphas;
  NameEnds ends(read_separator_);
  for (std::size_t i = 0; i < alphas.size(); ++i) ends.add(alphas[i].first, i);
  std::vector<bool> are_used(alphas.size(), false);
  for (AdapterModule& module : modules_) {
    std::optional<std::size_t> first;
    bool is_first_whole = false;
    bool is_one = true;
    ends.visit(without_label(module.name), [&](std::size_t number, bool is_whole) {
      are_used[number] = true;
      is_one = is_one && (!first || alphas[*first].second == alphas[number].second);
      if (first && *first < number) return;
      first = number;
      is_first_whole = is_whole;
    });
    if (!first) continue;
    module.alpha = alphas[*first].second;
    if (is_one || is_first_whole) continue;
    module.alpha.reset();
    why_no_alpha_ =
        "\"alpha_pattern\" has two alphas for " + in_quotes(module.name) + "; leave one of them";
    notes_.push_back(why_no_alpha_);
  }
  std::string unused;
  std::size_t count = 0;
  for (std::size_t i = 0; i < alphas.size(); ++i) {
    if (are_used[i]) continue;
    const std::string& key = alphas[i].first;
    const bool is_name = std::all_of(key.begin(), key.end(), [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-' || c == '.' || c == read_separator_;
    });
    if (is_name) {
      if (count++ == 0) unused = in_quotes(key);
      continue;
    }
    why_no_alpha_ = in_quotes(key) +
                    " in \"alpha_pattern\" is the end of no module's name, and other regular "
                    "expressions are not read; write out the names";
    notes_.push_back("no alpha is known: " + why_no_alpha_);
    for (AdapterModule& module : modules_) module.alpha.reset();
    break;
  }
  if (count == 0) return;
  if (count > 1) unused += " (and " + std::to_string(count - 1) + " more)";
  notes_.push_back(unused + " in \"alpha_pattern\" is the end of no module's name");
}

// The tensor of a rule that has a name.
struct AdapterModules::TakenBy {
  std::uint32_t rule = MapTarget::kKept;
  const std::optional<Axes>* axes = nullptr;
  // Words that number tensors on the other side.
  std::set<std::string> stacked = {};
};

std::optional<AdapterModules::TakenBy> AdapterModules::find_rule(const std::string& name) const {
  for (std::size_t i = 0; i < map_->parts().rules.size(); ++i) {
    const Rule& rule = map_->parts().rules[i];
    const auto& read = rule.side(!options_->plan.reverse);
    const auto& written = rule.side(options_->plan.reverse);
    for (const TensorTerm* tensor : tensors_of(read)) {
      if (tensor->kind != TensorTerm::Kind::kTensor || tensor->is_looked_up) continue;
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

// Experts are parameters of one module: PEFT calls the factors of the first as if the module were
// the weight, and puts "base_layer" in between for the next.
std::optional<std::string> AdapterModules::parameter_within(const AdapterModule& module) const {
  if (!place_of(module, AdapterPart::kA).read.are_peft) return std::nullopt;
  std::string_view name = module.name;
  while (name.ends_with(kBaseLayer)) name.remove_suffix(kBaseLayer.size());
  for (const Rule& rule : map_->parts().rules) {
    for (const TensorTerm* tensor : tensors_of(rule.side(!options_->plan.reverse))) {
      for (const TensorName& each : tensor->names) {
        const std::string_view last = each.pattern.last_segment(read_separator_);
        if (last.empty() || last == "bias") continue;
        std::string inner(name);
        inner += read_separator_;
        inner += last;
        CaptureValues values(rule.words.size());
        if (each.pattern.match(inner, read_separator_, values)) return inner;
      }
    }
  }
  return std::nullopt;
}

Result<MapLeaf> AdapterModules::weight_of(AdapterModule& module) const {
  std::string name;
  std::optional<TakenBy> taken;
  for (const std::string_view last : kWeightNames) {
    if (taken) break;
    name = module.name + read_separator_ + std::string(last);
    taken = find_rule(name);
  }
  if (!taken) taken = find_rule(name = module.name);
  if (const auto inner = taken ? std::nullopt : parameter_within(module)) {
    return fail(ErrorCode::kMapUnmatched,
                quoted(module, AdapterPart::kA) + " and " + quoted(module, AdapterPart::kB) +
                    " are of a parameter of their module, such as " + in_quotes(*inner) +
                    "; PEFT lays the factors of \"target_parameters\" side by side along the "
                    "rank, which maps do not read; merge the adapter into its base, and map that");
  }
  if (!taken) {
    if (options_->plan.rest.value_or(map_->parts().rest) == MapRest::kError) {
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

bool AdapterModules::is_transposed(const AdapterModule& module, std::string_view weight) const {
  const AdapterNames& names = places_[module.place].read;
  if (names.is_weight_transposed) return *names.is_weight_transposed;
  if (names.are_peft && options_->adapter.is_weight_transposed.value_or(false)) return true;
  return weight.ends_with("kernel");
}

// Puts the shape of the weight together from those of the factors.
Result<void> AdapterModules::find_shape(AdapterModule& module, std::string_view weight,
                                        const TakenBy& taken) const {
  const auto& a = leaf(*module.leaves[slot_of(AdapterPart::kA)]).shape;
  const auto& b = leaf(*module.leaves[slot_of(AdapterPart::kB)]).shape;
  const std::string both = quoted(module, AdapterPart::kA) + ' ' + printed(a) + " and " +
                           quoted(module, AdapterPart::kB) + ' ' + printed(b);
  const auto misfit = [&](const std::string& why) {
    const std::string prefix = taken.rule == MapTarget::kKept
                                   ? std::string()
                                   : "rule " + std::to_string(taken.rule + 1) + ": ";
    return fail(ErrorCode::kMapShape, prefix + both + ' ' + why);
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
      is_stacked.insert(is_stacked.begin() + static_cast<std::ptrdiff_t>(i), rank + 1 - axes.size(),
                        false);
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
  for (const std::uint64_t size : own_axes(a, a_rank)) columns.emplace_back(AdapterRole::kIn, size);
  if (!options_->adapter.made) {
    if (is_transposed(module, weight)) rows.swap(columns);
    rows.insert(rows.end(), columns.begin(), columns.end());
  } else {
    // The map before this one laid the weight out.
    const auto made = made_.find(module.name);
    const auto count = made == made_.end() ? 0
                                           : std::count(made->second->are_columns.begin(),
                                                        made->second->are_columns.end(), true);
    if (made == made_.end() || made->second->are_columns.size() != rank - stacked ||
        static_cast<std::size_t>(count) != ins) {
      return misfit(
          "are of a weight that the map before laid out in another way; write one map of both");
    }
    std::vector<std::pair<AdapterRole, std::uint64_t>> all;
    std::size_t row = 0;
    std::size_t column = 0;
    for (const bool is_column : made->second->are_columns) {
      all.push_back(is_column ? columns[column++] : rows[row++]);
    }
    rows = std::move(all);
  }
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
Result<void> AdapterModules::find_layouts(AdapterModule& module, const Misfit& misfit) const {
  for (const AdapterPart part : kAdapterParts) {
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

tl::unexpected<Error> failed(std::uint32_t rule, ErrorCode code, const std::string& message) {
  return rule == MapTarget::kKept ? fail(code, message) : fail_rule(rule, code, message);
}

std::optional<FactorLayout> layout_for(const AdapterNames& names, AdapterPart part,
                                       std::span<const std::uint64_t> shape,
                                       std::span<const AdapterRole> roles, std::uint64_t rank) {
  if (part == AdapterPart::kVector) return layout_of(shape, roles, AdapterRole::kOut, {}, false);
  const bool is_rank_first =
      part == AdapterPart::kA ? !names.is_a_transposed : names.is_b_transposed;
  return layout_of(shape, roles, role_of(part), rank, is_rank_first);
}

bool has_factors(const KeyMap& map, const std::vector<MapLeaf>& leaves,
                 const LiftOptions& options) {
  if (map.parts().lora.left.empty()) return false;
  const char separator = map.parts().side(!options.plan.reverse).separator();
  const auto places = parse_adapter_places(texts_of(map, options), options.plan.reverse, separator,
                                           map.parts().side(options.plan.reverse).separator());
  // Its error is that of the plan.
  if (!places) return true;
  const std::string prefix = options.at.empty() ? std::string() : options.at + separator;
  return std::any_of(leaves.begin(), leaves.end(), [&](const MapLeaf& leaf) {
    return leaf.name.starts_with(prefix) &&
           find_part(*places, std::string_view(leaf.name).substr(prefix.size()), separator);
  });
}

}  // namespace espalier
