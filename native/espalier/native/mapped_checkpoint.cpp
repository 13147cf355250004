#include "espalier/native/mapped_checkpoint.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <map>
#include <new>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/base/json_text.h"
#include "espalier/map/map_error.h"
#include "espalier/native/map_leaves.h"
#include "espalier/native/open_value.h"
#include "espalier/native/out_of_memory.h"
#include "espalier/tree/key_path.h"

namespace espalier {
namespace {

// "lora" and "a.b" of "lora::a.b".
struct SplitName {
  std::string label;
  std::string name;
};

SplitName split_label(std::string_view name) {
  const std::size_t at = name.find("::");
  if (at == std::string_view::npos) return {{}, std::string(name)};
  return {std::string(name.substr(0, at)), std::string(name.substr(at + 2))};
}

std::string printed(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ' ';
    text += std::to_string(shape[i]);
  }
  return text + ']';
}

bool has_children(const NodeRef& node) {
  return is_container(node.kind()) && node.kind() != Kind::kSet && node.size() > 0;
}

// Numbers, texts and null.
bool is_same_scalar(const NodeRef& a, const NodeRef& b) {
  if (a.kind() != b.kind() || is_container(a.kind())) return false;
  return a.as_bool() == b.as_bool() && a.as_int64() == b.as_int64() &&
         a.as_double() == b.as_double() && a.as_string() == b.as_string() &&
         a.as_bigint() == b.as_bigint();
}

// Nested dicts while they are filled: unlike Value::set(), each step takes logarithmic time.
class Nest {
 public:
  // False if the place is taken, or on the way there is a value.
  bool put(const KeyPath& path, Value value) {
    Nest* at = this;
    for (const Key& key : path) {
      if (at->value_) return false;
      at->is_dict_ = true;
      const auto [found, is_new] = at->numbers_.emplace(key, at->children_.size());
      if (is_new) at->children_.emplace_back(key, Nest());
      at = &at->children_[found->second].second;
    }
    if (at->value_ || at->is_dict_) return false;
    at->value_ = std::move(value);
    return true;
  }

  // Recurses as deep as the longest name.
  Value take() && {
    if (value_) return std::move(*value_);
    std::vector<Value::Item> items;
    items.reserve(children_.size());
    for (auto& [key, child] : children_) {
      items.emplace_back(std::move(key), std::move(child).take());
    }
    return Value::dict(std::move(items));
  }

 private:
  std::optional<Value> value_;
  bool is_dict_ = false;
  std::map<Key, std::size_t> numbers_;
  std::vector<std::pair<Key, Nest>> children_;
};

}  // namespace

struct MappedCheckpoint::Shared {
  // What it takes of the map to write names.
  MapSide side;
  std::string map_name;
  std::string map_hash;
  bool reverse = false;
  bool unwraps = false;
  Sizes sizes;
  std::optional<CheckpointFile> like;

  std::vector<MapInput> inputs;
  std::shared_ptr<const MapPlan> plan;
  // By leaf:
  std::vector<NodeRef> nodes;
  std::vector<std::size_t> inputs_of;
  std::vector<std::optional<MapOrigin>> origins;
  std::optional<MapTargets> targets;

  // The key path of a name that the map writes.
  Result<KeyPath> path_of(const std::string& name, bool is_nested) const {
    if (side.names == MapSide::Names::kPaths) return KeyPath::parse(name);
    if (!is_nested) return KeyPath{Key(name)};
    KeyPath path;
    std::string_view rest = name;
    for (;;) {
      const std::size_t end = rest.find('.');
      path.push_back(Key(rest.substr(0, end)));
      if (end == std::string_view::npos) return path;
      rest.remove_prefix(end + 1);
    }
  }

  bool is_nested() const {
    if (side.tree != MapSide::Tree::kLikeInput) return side.tree == MapSide::Tree::kNested;
    return std::any_of(inputs.begin(), inputs.end(), [](const MapInput& input) {
      const NodeRef state = input.file.state();
      for (std::uint32_t i = 0; i < state.size(); ++i) {
        if (has_children(state.child(i))) return true;
      }
      return false;
    });
  }
};

// Makes the values of targets, and puts them into trees.
class MappedCheckpoint::Outputs {
 public:
  explicit Outputs(const Shared& shared) : shared_(shared), plan_(*shared.plan) {}

  Result<std::vector<Output>> make() {
    if (shared_.like) return make_like();
    const bool is_nested = shared_.is_nested();
    const bool keeps_places =
        is_nested && !shared_.unwraps && shared_.side.tree == MapSide::Tree::kLikeInput;
    std::map<std::string, Nest> nests;
    if (plan_.targets().empty()) nests[""];
    kept_.assign(plan_.leaves().size(), kTaken);
    for (std::size_t i = 0; i < plan_.targets().size(); ++i) {
      const MapTarget& made = plan_.targets()[i];
      auto value = value_of(i);
      if (!value) return propagate(value);
      if (keeps_places && made.rule == MapTarget::kKept) {
        // What lies along parameters may be kept under another name.
        const auto leaf = leaf_of(made);
        if (leaf && plan_.leaves()[*leaf].name == made.name) {
          kept_[*leaf] = i;
          continue;
        }
      }
      for (const std::string* name : names_of(made)) {
        const SplitName split = split_label(*name);
        auto path = shared_.path_of(split.name, is_nested);
        if (!path) return propagate(path);
        if (path->size() > Limits{}.depth) {
          return fail(ErrorCode::kLimitExceeded,
                      in_quotes(*name) + " has more than " + counted(Limits{}.depth, "part"));
        }
        if (!nests[split.label].put(*path, *value)) return collision(*name);
      }
    }
    std::vector<Output> outputs;
    outputs.reserve(nests.size());
    for (auto& [label, nest] : nests) outputs.push_back({label, std::move(nest).take()});
    if (keeps_places) return with_kept(std::move(outputs));
    return outputs;
  }

 private:
  static constexpr std::size_t kTaken = ~std::size_t{0};

  static tl::unexpected<Error> collision(const std::string& name) {
    return fail(ErrorCode::kNameCollision,
                in_quotes(name) +
                    " would be both a value and a part of another name; write a flat "
                    "state, with \"tree\": \"flat\" for this side");
  }

  // The leaf that a kept target is, converted or not.
  static std::optional<std::uint32_t> leaf_of(const MapTarget& made) {
    if (made.source != MapPiece::kZeros) return made.source;
    if (made.pieces.empty()) return std::nullopt;
    return made.pieces.front().source;
  }

  static std::vector<const std::string*> names_of(const MapTarget& made) {
    std::vector<const std::string*> names{&made.name};
    for (const std::string& tied : made.tied) names.push_back(&tied);
    return names;
  }

  Result<Value> value_of(std::size_t number) {
    const MapTarget& made = plan_.targets()[number];
    if (made.source != MapPiece::kZeros) {
      return made.is_copy ? loaded(made.source) : renamed(made.source);
    }
    // Targets that are made alike of tied sources stay tied.
    std::string likeness = likeness_of(made);
    const auto found = likeness.empty() ? made_.end() : made_.find(likeness);
    if (found != made_.end()) return found->second;
    Tensor tensor;
    tensor.dtype = made.dtype;
    tensor.shape = made.shape;
    for (const MapPiece& piece : made.pieces) {
      if (piece.source == MapPiece::kZeros || made.dtype != DType::kOpaque) continue;
      const MapLeaf& leaf = plan_.leaves()[piece.source];
      tensor.block_name = leaf.block_name;
      tensor.block_elements = leaf.block_elements;
      tensor.block_bytes = leaf.block_bytes;
      break;
    }
    tensor.data = TensorData::produced(
        [targets = *shared_.targets, number](std::uint64_t offset, MutableByteSpan out) {
          return targets.read(number, offset, out);
        });
    Value value = Value::tensor(std::move(tensor));
    if (!likeness.empty()) made_.emplace(std::move(likeness), value);
    return value;
  }

  Result<Value> loaded(std::uint32_t leaf) const {
    return shared_.inputs[shared_.inputs_of[leaf]].file.load_lazily(shared_.nodes[leaf]);
  }

  // Tied leaves give one value, which ties them again.
  Result<Value> renamed(std::uint32_t leaf) {
    const auto tensor = shared_.nodes[leaf].tensor();
    if (!tensor) return loaded(leaf);
    const std::pair identity(shared_.inputs_of[leaf], tensor->number());
    const auto found = renamed_.find(identity);
    if (found != renamed_.end()) return found->second;
    auto value = loaded(leaf);
    if (value) renamed_.emplace(identity, *value);
    return value;
  }

  // A text that is equal for targets with the same bytes; empty if their sources are not tied.
  std::string likeness_of(const MapTarget& made) {
    if (tied_.empty()) find_tied();
    std::string text = std::to_string(static_cast<int>(made.dtype)) + printed(made.shape);
    if (made.pieces.empty()) return {};
    for (const MapPiece& piece : made.pieces) {
      text += '|';
      if (piece.source != MapPiece::kZeros) {
        const auto& identity = tied_[piece.source];
        if (!identity) return {};
        text += std::to_string(identity->first) + ':' + std::to_string(identity->second);
      }
      text += '@' + std::to_string(piece.from) + '>' + std::to_string(piece.to);
      for (const MapLoop& loop : piece.loops) {
        text += ',' + std::to_string(loop.count) + ' ' + std::to_string(loop.from) + ' ' +
                std::to_string(loop.to);
      }
      for (const MapStep& step : piece.steps) {
        text += ';' + std::to_string(static_cast<int>(step.kind)) + ' ' +
                std::to_string(std::bit_cast<std::uint64_t>(step.value));
      }
    }
    return text;
  }

  // The tensors that several leaves share.
  void find_tied() {
    std::map<Identity, std::uint32_t> counts;
    tied_.resize(plan_.leaves().size());
    for (const bool counts_alone : {true, false}) {
      for (std::size_t i = 0; i < tied_.size(); ++i) {
        const auto tensor = shared_.nodes[i].tensor();
        if (!tensor) continue;
        const Identity identity(shared_.inputs_of[i], tensor->number());
        if (counts_alone) {
          ++counts[identity];
        } else if (counts[identity] > 1) {
          tied_[i] = identity;
        }
      }
    }
  }

  // What the map keeps, in the containers where it was.
  Result<std::vector<Output>> with_kept(std::vector<Output> outputs) {
    std::size_t leaf = 0;
    for (const MapInput& input : shared_.inputs) {
      auto value = kept_below(input.file.state(), leaf);
      if (!value) return propagate(value);
      if (!*value) continue;
      auto output = std::find_if(outputs.begin(), outputs.end(),
                                 [&](const Output& each) { return each.label == input.label; });
      if (output == outputs.end()) {
        output = outputs.insert(outputs.end(), Output{input.label, Value::dict()});
      }
      // What was there comes first.
      Value made = std::exchange(output->state, std::move(**value));
      if (auto ok = output->state.merge(std::move(made)); !ok) return propagate(ok);
    }
    return outputs;
  }

  // Leaves are numbered as named_leaves() meets them. Recurses as deep as the tree.
  Result<std::optional<Value>> kept_below(const NodeRef& node, std::size_t& leaf) {
    if (!has_children(node)) {
      const std::size_t target = kept_[leaf++];
      if (target == kTaken) return std::optional<Value>();
      auto value = value_of(target);
      if (!value) return propagate(value);
      return std::optional(std::move(*value));
    }
    std::vector<std::optional<Value>> children;
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      auto child = kept_below(node.child(i), leaf);
      if (!child) return child;
      children.push_back(std::move(*child));
    }
    if (std::none_of(children.begin(), children.end(), [](const auto& each) { return !!each; })) {
      return std::optional<Value>();
    }
    return std::optional(filled(node, std::move(children)));
  }

  // A container like `node`. Positions that are taken become null, so that the others stay.
  static Value filled(const NodeRef& node, std::vector<std::optional<Value>> children) {
    Value value = Value::container(node.kind());
    const bool is_keyed = has_keys(node.kind());
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      if (is_keyed) {
        if (children[i]) value.add(Key(node.key(i)), std::move(*children[i]));
      } else {
        value.add(children[i] ? std::move(*children[i]) : Value::null());
      }
    }
    if (const auto label = node.label()) return std::move(value).labelled(std::string(*label));
    return value;
  }

  // The tree of the template with the tensors that the map makes.
  Result<std::vector<Output>> make_like() {
    std::unordered_map<std::string_view, std::size_t> targets;
    for (std::size_t i = 0; i < plan_.targets().size(); ++i) {
      for (const std::string* name : names_of(plan_.targets()[i])) targets.emplace(*name, i);
    }
    const auto leaves = named_leaves(shared_.like->state(), shared_.side, {});
    std::size_t leaf = 0;
    auto value = like_below(shared_.like->state(), leaves, targets, leaf);
    if (!value) return propagate(value);
    std::vector<Output> outputs;
    outputs.push_back({{}, std::move(*value)});
    return outputs;
  }

  Result<Value> like_below(const NodeRef& node, const std::vector<NamedNode>& leaves,
                           const std::unordered_map<std::string_view, std::size_t>& targets,
                           std::size_t& leaf) {
    if (!has_children(node)) {
      if (leaves.empty()) return shared_.like->load_lazily(node);
      const auto found = targets.find(leaves[leaf++].name);
      // Scalars that the map does not make are the template's.
      return found == targets.end() ? shared_.like->load_lazily(node) : value_of(found->second);
    }
    std::vector<std::optional<Value>> children;
    for (std::uint32_t i = 0; i < node.size(); ++i) {
      auto child = like_below(node.child(i), leaves, targets, leaf);
      if (!child) return child;
      children.emplace_back(std::move(*child));
    }
    return filled(node, std::move(children));
  }

  using Identity = std::pair<std::size_t, std::uint32_t>;

  const Shared& shared_;
  const MapPlan& plan_;
  std::map<Identity, Value> renamed_;
  std::unordered_map<std::string, Value> made_;
  std::vector<std::optional<Identity>> tied_;  // by leaf
  std::vector<std::size_t> kept_;              // targets by leaf
};

namespace {

Error template_error(std::string message) {
  return {ErrorCode::kMapTemplate, Error::kNoOffset, {}, std::move(message)};
}

// Whether what the plan makes is what a template has.
Result<void> check_like(const MapPlan& plan, const CheckpointFile& like, const MapSide& side) {
  std::unordered_map<std::string, NodeRef> wanted;
  for (NamedNode& leaf : named_leaves(like.state(), side, {})) {
    if (!wanted.emplace(leaf.name, leaf.node).second) {
      return tl::unexpected<Error>(
          template_error("the template has two values called " + in_quotes(leaf.name)));
    }
  }
  std::vector<std::string_view> unexpected;
  for (const MapTarget& made : plan.targets()) {
    std::vector<std::string_view> names{made.name};
    names.insert(names.end(), made.tied.begin(), made.tied.end());
    for (const std::string_view name : names) {
      const auto found = wanted.find(std::string(name));
      if (found == wanted.end()) {
        unexpected.push_back(name);
        continue;
      }
      const auto tensor = found->second.tensor();
      const bool is_tensor =
          made.source == MapPiece::kZeros || plan.leaves()[made.source].is_tensor;
      wanted.erase(found);
      if (!tensor || !is_tensor) {
        if (tensor.has_value() == is_tensor) continue;
        return tl::unexpected<Error>(template_error(in_quotes(name) + " is " +
                                                    (is_tensor ? "a tensor" : "no tensor") +
                                                    ", unlike in the template"));
      }
      if (tensor->dtype() == made.dtype && std::ranges::equal(tensor->shape(), made.shape))
        continue;
      return tl::unexpected<Error>(template_error(
          in_quotes(name) + " would be " + std::string(dtype_name(made.dtype)) + ' ' +
          printed(made.shape) + ", and the template has " +
          std::string(dtype_name(tensor->dtype())) + ' ' + printed(tensor->shape()) +
          (tensor->dtype() == made.dtype ? "" : "; convert it with \"dtypes\" or 'as'")));
    }
  }
  if (!unexpected.empty()) {
    return tl::unexpected<Error>(template_error(
        "the map makes " + in_quotes(unexpected.front()) +
        (unexpected.size() > 1 ? " and " + std::to_string(unexpected.size() - 1) + " more" : "") +
        ", and the template has nothing of that name; drop it with a rule"));
  }
  std::string missing;
  std::size_t count = 0;
  for (const auto& [name, node] : wanted) {
    if (!node.tensor()) continue;
    if (count++ == 0 || name < missing) missing = name;
  }
  if (count == 0) return {};
  return tl::unexpected<Error>(template_error(
      "the template has " + in_quotes(missing) +
      (count > 1 ? " and " + std::to_string(count - 1) + " more" : "") + ", and no rule makes it"));
}

}  // namespace

Result<MappedCheckpoint> MappedCheckpoint::make(const KeyMap& map, std::vector<MapInput> inputs,
                                                const MappedOptions& options) try {
  auto shared = std::make_shared<Shared>();
  const bool reverse = options.lift.plan.reverse;
  shared->side = map.side(reverse);
  shared->map_name = map.name();
  shared->map_hash = to_hex(map.hash());
  shared->reverse = reverse;
  shared->unwraps = !map.side(!reverse).unwrap.empty();
  shared->sizes = options.lift.plan.sizes;
  shared->like = options.like;
  shared->inputs = std::move(inputs);
  std::vector<MapLeaf> leaves;
  for (std::size_t i = 0; i < shared->inputs.size(); ++i) {
    const MapInput& input = shared->inputs[i];
    for (const NamedNode& named :
         named_leaves(input.file.state(), map.side(!reverse), input.label)) {
      leaves.push_back(to_leaf(named));
      shared->nodes.push_back(named.node);
      shared->inputs_of.push_back(i);
      const auto tensor = named.node.tensor();
      shared->origins.push_back(tensor ? std::optional(MapOrigin{i, *tensor}) : std::nullopt);
    }
  }
  auto plan = plan_with_state(map, std::move(leaves), options.lift);
  if (!plan) return propagate(plan);
  shared->plan = std::make_shared<const MapPlan>(std::move(*plan));
  if (shared->like) {
    if (auto ok = check_like(*shared->plan, *shared->like, shared->side); !ok) {
      return propagate(ok);
    }
  }
  shared->targets.emplace(shared->plan, shared->inputs, shared->origins, options.targets);
  return MappedCheckpoint(std::move(shared));
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

const MapPlan& MappedCheckpoint::plan() const { return *shared_->plan; }

const MapTargets& MappedCheckpoint::targets() const { return *shared_->targets; }

const std::vector<MapInput>& MappedCheckpoint::inputs() const { return shared_->inputs; }

const std::optional<MapOrigin>& MappedCheckpoint::origin(std::uint32_t leaf) const {
  return shared_->origins[leaf];
}

Result<void> MappedCheckpoint::check(const std::atomic<bool>* cancel) const {
  for (const MapEqual& equal : shared_->plan->equals()) {
    const MapLeaf& first = shared_->plan->leaves()[equal.first];
    const MapLeaf& second = shared_->plan->leaves()[equal.second];
    if (first.is_tensor && second.is_tensor) continue;
    if (is_same_scalar(shared_->nodes[equal.first], shared_->nodes[equal.second])) continue;
    return fail(ErrorCode::kMapData, "rule " + std::to_string(equal.rule + 1) + ": " +
                                         in_quotes(first.name) + " and " + in_quotes(second.name) +
                                         " belong to one parameter and are not the same");
  }
  return shared_->targets->check(cancel);
}

Result<std::vector<MappedCheckpoint::Output>> MappedCheckpoint::outputs() const try {
  return Outputs(*shared_).make();
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<CheckpointFile> MappedCheckpoint::open(const OpenFileOptions& options) const try {
  auto all = outputs();
  if (!all) return propagate(all);
  auto note = metadata();
  if (!note) return propagate(note);
  if (all->size() == 1 && all->front().label.empty()) {
    return open_value(all->front().state, *note, options);
  }
  Value state = Value::dict();
  for (Output& output : *all) state.add(output.label, std::move(output.state));
  return open_value(state, *note, options);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

Result<Value> MappedCheckpoint::metadata() const try {
  Value all = Value::dict();
  for (const MapInput& input : shared_->inputs) {
    auto metadata = input.file.load(input.file.metadata());
    if (!metadata) return metadata;
    const auto keep_first = [](const Value&, const Value&, const std::function<std::string()>&) {
      return Result<Value::OnBoth>(Value::OnBoth::kKeep);
    };
    if (auto ok = all.merge(std::move(*metadata), keep_first); !ok) return propagate(ok);
  }
  // A text, which other formats can hold, too.
  std::string note = "{\"name\":";
  append_json_string(note, shared_->map_name);
  note += ",\"hash\":\"" + shared_->map_hash + "\",\"reverse\":";
  note += shared_->reverse ? "true" : "false";
  note += ",\"sizes\":{";
  for (const auto& [word, size] : shared_->sizes) {
    if (note.back() != '{') note += ',';
    append_json_string(note, word);
    note += ':' + std::to_string(size);
  }
  note += "}}";
  if (auto ok = all.set(KeyPath{"espalier.map"}, Value::string(std::move(note))); !ok)
    return propagate(ok);
  return all;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
