// The part of abi.h that reads checkpoints through key maps.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"
#include "tree_handle.h"

#include "espalier/base/json_text.h"
#include "espalier/base/json_tree.h"
#include "espalier/key_map.h"
#include "espalier/map/adapter.h"
#include "espalier/map/mapped_trees.h"
#include "espalier/map/plan.h"
#include "espalier/map/target_maker.h"
#include "espalier/read/to_value.h"
#include "espalier/write/value_catalog.h"

namespace espalier::abi {

// wasm/src/core/mapping.ts reads these bytes.
static_assert(sizeof(MapNeed) == 24 && offsetof(MapNeed, offset) == 8);

namespace {

// Of one tensor that is computed from several, in a memory of at most 1 GiB.
constexpr std::uint64_t kOperandBytes = std::uint64_t{256} << 20;

std::string_view text_at(const char* text, std::uint32_t length) { return {text, length}; }

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, Error::kNoOffset, {}, std::move(message)};
}

bool flag(const JsonRef& options, std::string_view name) {
  const auto member = options.member(name);
  return member && member->boolean().value_or(false);
}

std::string text_in(const JsonRef& options, std::string_view name) {
  const auto member = options.member(name);
  return std::string(member ? member->text().value_or("") : "");
}

std::vector<std::string> texts_in(const JsonRef& options, std::string_view name) {
  std::vector<std::string> texts;
  const auto member = options.member(name);
  if (!member || !member->is_array()) return texts;
  for (const JsonRef each : *member) texts.emplace_back(each.text().value_or(""));
  return texts;
}

Result<LiftOptions> options_of(std::string_view json) {
  constexpr std::uint32_t kMaxDepth = 32;
  const auto tree = JsonTree::parse(json, kMaxDepth);
  if (!tree) return propagate(tree);
  const JsonRef root = tree->root();
  LiftOptions options;
  options.plan.reverse = flag(root, "reverse");
  options.plan.partial = flag(root, "partial");
  options.scales_moments = flag(root, "along_scaled");
  options.at = text_in(root, "at");
  const std::string rest = text_in(root, "rest");
  if (rest == "error") options.plan.rest = MapRest::kError;
  if (rest == "keep") options.plan.rest = MapRest::kKeep;
  if (rest == "drop") options.plan.rest = MapRest::kDrop;
  options.along = texts_in(root, "along");
  options.param_order = texts_in(root, "param_order");
  options.lora = texts_in(root, "lora");
  auto numbers = numbers_of(std::string(json));
  if (!numbers) return propagate(numbers);
  options.plan.config = [numbers = std::move(*numbers)](const std::string& word) {
    return numbers("config." + word);
  };
  if (const auto config = root.member("config")) options.adapter = adapter_settings_in(*config);
  std::map<std::string, double> given;
  if (const auto all = root.member("numbers"); all && all->is_object()) {
    for (const auto& [name, value] : all->members()) {
      const auto integer = value.int64();
      const auto real = integer ? std::optional(static_cast<double>(*integer)) : value.real();
      if (real) given[std::string(name)] = *real;
    }
  }
  if (auto ok = set_numbers(given, options.plan); !ok) return propagate(ok);
  return options;
}

void append_texts(std::string& json, const std::vector<std::string>& texts) {
  json += '[';
  for (const std::string& text : texts) {
    if (json.back() != '[') json += ',';
    append_json_string(json, text);
  }
  json += ']';
}

std::string rule_text(std::uint32_t rule) {
  return rule == MapTarget::kKept ? "null" : std::to_string(rule + 1);
}

std::string plan_text(const MapPlan& plan) {
  std::string json = "{\"targets\":[";
  for (const MapTarget& target : plan.targets()) {
    if (json.back() != '[') json += ',';
    json += "{\"name\":";
    append_json_string(json, target.name);
    json += ",\"tied\":";
    append_texts(json, target.tied);
    json += ",\"rule\":" + rule_text(target.rule) + ",\"work\":";
    append_json_string(json, work_name(target.work));
    json += ",\"sources\":";
    std::vector<std::string> sources;
    for (const std::uint32_t leaf : target.sources()) sources.push_back(plan.leaves()[leaf].name);
    append_texts(json, sources);
    json += '}';
  }
  json += "],\"dropped\":[";
  for (const auto& [leaf, rule] : plan.dropped()) {
    if (json.back() != '[') json += ',';
    json += "{\"name\":";
    append_json_string(json, plan.leaves()[leaf].name);
    json += ",\"rule\":" + rule_text(rule) + '}';
  }
  json += ']';
  if (plan.adapter()) json += ",\"lora\":" + adapter_config(*plan.adapter());
  return json + '}';
}

}  // namespace

class Mapping {
 public:
  std::vector<MappedTrees::Input> inputs;

  Status plan(std::string_view map_text, std::string_view options_text) {
    const auto map = KeyMap::parse(map_text);
    if (!map) return set_failure(map.error());
    const auto options = options_of(options_text);
    if (!options) return set_failure(options.error());
    auto trees = MappedTrees::make(*map, inputs, *options);
    if (!trees) return set_failure(std::move(trees.error()));
    if (auto ok = trees->check_scalars(); !ok) return set_failure(std::move(ok.error()));
    trees_ = std::move(*trees);
    text_ = plan_text(*trees_->plan());
    return 0;
  }

  Tree* tree() {
    if (!trees_) return set_failure(not_planned()), nullptr;
    auto outputs =
        trees_->outputs({[this](std::size_t input, const NodeRef& node) {
                           return loaded(static_cast<std::uint32_t>(input), node);
                         },
                         [this](std::size_t target) { return telling({.target = target}); }});
    if (!outputs) return set_failure(std::move(outputs.error())), nullptr;
    auto metadata = trees_->metadata([this](std::size_t input) {
      return Result<Value>(to_value(inputs[input].checkpoint.metadata()));
    });
    if (!metadata) return set_failure(std::move(metadata.error())), nullptr;
    auto catalog = make_catalog(MappedTrees::joined(std::move(*outputs)), *metadata, false, {});
    if (!catalog) return set_failure(std::move(catalog.error())), nullptr;
    file_ = std::move(*catalog);
    return new Tree(Checkpoint(file_.catalog));
  }

  std::string_view text() const { return text_; }

  Status begin(std::uint64_t offset, std::uint32_t length, std::uint32_t* out) {
    maker_.reset();
    renamed_.reset();
    made_.clear();
    if (offset >= file_.size || length > file_.size - offset || length == 0) {
      return set_failure(invalid("the file of the mapped tree has no such bytes"));
    }
    const ValueCatalog::Placed& placed = file_.at(offset);
    // The data tell what they are of.
    if (auto ok = placed.tensor->data.read(0, {}); !ok) return set_failure(std::move(ok.error()));
    const std::uint64_t begin = offset - placed.begin;
    const std::uint64_t bytes = bytes_of(asked_);
    if (begin >= bytes) {  // between two tensors
      const bool is_last = &placed == &file_.placed.back();
      const std::uint64_t next = is_last ? file_.size : (&placed)[1].begin;
      *out = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, next - offset));
      made_.resize(*out);
      return 0;
    }
    *out = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, bytes - begin));
    if (!asked_.target) {
      renamed_ = MapNeed{asked_.input, asked_.tensor, begin, *out};
      return 0;
    }
    auto maker =
        TargetMaker::make(*trees_->plan(), *asked_.target, begin, begin + *out, kOperandBytes);
    if (!maker) return set_failure(std::move(maker.error()));
    maker_ = std::move(*maker);
    return 0;
  }

  std::optional<MapNeed> need() const {
    if (renamed_) return made_.empty() ? renamed_ : std::nullopt;
    const auto next = maker_ ? maker_->need() : std::nullopt;
    if (!next) return std::nullopt;
    const auto input = static_cast<std::uint32_t>(trees_->input_of(next->leaf));
    return MapNeed{input, trees_->node(next->leaf).tensor()->number(), next->begin,
                   next->end - next->begin};
  }

  Status feed(ByteSpan bytes) {
    const auto next = need();
    if (!next || next->length != bytes.size()) {
      return set_failure(invalid("these are not the bytes that come next"));
    }
    if (renamed_) {
      made_.assign(bytes.begin(), bytes.end());
    } else {
      maker_->feed(bytes);
    }
    return 0;
  }

  Status take(Text* out) {
    if (need()) return set_failure(invalid("bytes are missing"));
    if (maker_) made_ = std::move(*maker_).take();
    maker_.reset();
    *out = text_of(made_);
    return 0;
  }

 private:
  // What a placed tensor is of: a target, or a tensor of an input as it is.
  struct Asked {
    std::optional<std::size_t> target = std::nullopt;
    std::uint32_t input = 0;
    std::uint32_t tensor = 0;
  };

  static Error not_planned() { return invalid("the map was not planned"); }

  std::uint64_t bytes_of(const Asked& what) const {
    if (!what.target) {
      return TensorRef(&inputs[what.input].checkpoint.catalog(), what.tensor).bytes();
    }
    const MapTarget& target = trees_->plan()->targets()[*what.target];
    if (target.dtype != DType::kOpaque && dtype_bits(target.dtype) % 8 == 0) {
      return dtype_bits(target.dtype) / 8 * elements_of(target.shape);
    }
    return TargetRecipe::of(*trees_->plan(), target).bytes();
  }

  TensorData telling(const Asked& what) {
    return TensorData::produced([this, what](std::uint64_t, MutableByteSpan) -> Result<void> {
      asked_ = what;
      return {};
    });
  }

  Result<Value> loaded(std::uint32_t input, const NodeRef& node) {
    return to_value(node, [&](const TensorRef& tensor) {
      return Result<TensorData>(telling({.input = input, .tensor = tensor.number()}));
    });
  }

  std::optional<MappedTrees> trees_;
  std::string text_;
  ValueCatalog file_;
  Asked asked_;
  std::optional<TargetMaker> maker_;
  std::optional<MapNeed> renamed_;
  std::vector<std::byte> made_;
};

void espalier_key_maps(Text* out) {
  static const std::string json = [] {
    std::string all = "{";
    for (const KnownMap& map : known_maps()) {
      if (all.back() != '{') all += ',';
      append_json_string(all, map.name);
      all += ':';
      append_json_string(all, map.text);
    }
    return all + '}';
  }();
  *out = text_of(json);
}

Mapping* espalier_mapping() { return new Mapping; }

void espalier_mapping_add(Mapping* mapping, Tree* tree, const char* label, std::uint32_t length) {
  mapping->inputs.push_back({tree->checkpoint, std::string(text_at(label, length))});
}

Status espalier_mapping_plan(Mapping* mapping, const Text* texts) {
  return mapping->plan(text_at(texts[0].data, texts[0].length),
                       text_at(texts[1].data, texts[1].length));
}

Tree* espalier_mapping_tree(Mapping* mapping) { return mapping->tree(); }

void espalier_mapping_text(Mapping* mapping, Text* out) { *out = text_of(mapping->text()); }

Status espalier_mapping_begin(Mapping* mapping, std::uint64_t offset, std::uint32_t length,
                              std::uint32_t* out) {
  return mapping->begin(offset, length, out);
}

std::uint32_t espalier_mapping_need(Mapping* mapping, MapNeed* out) {
  const auto need = mapping->need();
  if (need) *out = *need;
  return need ? 1 : 0;
}

Status espalier_mapping_feed(Mapping* mapping, const std::uint8_t* bytes, std::uint32_t length) {
  return mapping->feed({reinterpret_cast<const std::byte*>(bytes), length});
}

Status espalier_mapping_take(Mapping* mapping, Text* out) { return mapping->take(out); }

void espalier_mapping_free(Mapping* mapping) { delete mapping; }

}  // namespace espalier::abi
