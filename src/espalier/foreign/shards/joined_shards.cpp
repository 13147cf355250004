#include "espalier/foreign/shards/joined_shards.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/bigint.h"
#include "espalier/foreign/common/foreign_tensor.h"
#include "espalier/foreign/common/reader_error.h"
#include "espalier/foreign/shards/format.h"
#include "espalier/foreign/shards/group_tree.h"
#include "espalier/foreign/shards/node_copier.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/format/table_builder.h"
#include "espalier/format/tree_walk.h"
#include "espalier/key_path.h"
#include "espalier/notes.h"

namespace espalier {
namespace {

class ShardJoiner {
 public:
  ShardJoiner(const ShardIndex& index, std::uint64_t index_length, std::span<const Shard> shards,
              const Limits& limits)
      : index_(index), shards_(shards), limits_(limits), builder_(limits) {
    parts_.format = &kShardedFormat;
    parts_.files.push_back({.length = index_length, .data_begin = index_length});
  }

  Result<ForeignParts> run() {
    if (auto ok = add_files(); !ok) return propagate(ok);
    if (index_.are_groups) {
      list_groups();
    } else {
      list_state();
    }
    list_metadata();
    builder_.reserve(2 + state_.size(), state_.size());
    TreeWalk<ShardJoiner> walk(*this, builder_, limits_);
    const Node state = index_.are_groups ? Node(&groups_) : Node(&state_);
    const bool is_whole = walk.run(state, &metadata_);
    auto tables = builder_.finish();
    if (!tables) {
      if (!is_whole) tables.error().path = walk.current_path();
      return explain(tables);
    }
    parts_.tables = std::move(*tables);
    if (contradiction_) parts_.files.push_back({.problem = std::move(contradiction_)});
    return std::move(parts_);
  }

 private:
  friend class TreeWalk<ShardJoiner>;

  struct Root;
  struct Missing {};
  struct ShardNode {
    std::uint32_t shard;
    std::uint32_t number;
  };

  // For TreeWalk.
  using Node = std::variant<const Root*, const GroupNode*, JsonRef, ShardNode, Missing>;
  struct Child {
    KeyView key;
    Node node;
  };
  // A dict that is made here.
  struct Root : std::vector<Child> {
    std::optional<std::string_view> label;
  };
  class Children {
   public:
    // Of a dict that is made here, which is not copied.
    explicit Children(const Root& root) : root_(&root) {}
    explicit Children(std::vector<Child> children, bool has_keys)
        : children_(std::move(children)), has_keys_(has_keys) {}
    Children(const ShardJoiner& joiner, ShardNode parent)
        : shard_(parent),
          parent_(joiner.node_ref(parent)),
          has_keys_(espalier::has_keys(parent_->kind())) {}
    std::size_t size() const { return parent_ ? parent_->size() : list().size(); }
    bool has_keys() const { return has_keys_; }
    KeyView key(std::size_t i) const {
      return parent_ ? parent_->key(static_cast<std::uint32_t>(i)) : list()[i].key;
    }
    Node node(std::size_t i) const {
      if (!parent_) return list()[i].node;
      return ShardNode{shard_.shard, parent_->child(static_cast<std::uint32_t>(i)).number()};
    }

   private:
    const std::vector<Child>& list() const { return root_ != nullptr ? *root_ : children_; }

    const Root* root_ = nullptr;
    std::vector<Child> children_;
    ShardNode shard_{};
    std::optional<NodeRef> parent_;
    bool has_keys_ = true;
  };

  bool is_container(const Node& node) const {
    if (const auto* json = std::get_if<JsonRef>(&node))
      return json->is_array() || json->is_object();
    if (const auto* shard = std::get_if<ShardNode>(&node)) {
      return espalier::is_container(node_ref(*shard).kind());
    }
    if (const auto* group = std::get_if<const GroupNode*>(&node)) {
      return (*group)->type == GroupNode::Type::kDict;
    }
    return std::holds_alternative<const Root*>(node);
  }

  Children children(const Node& node) const {
    if (const auto* root = std::get_if<const Root*>(&node)) return Children(**root);
    if (const auto* shard = std::get_if<ShardNode>(&node)) return {*this, *shard};
    if (const auto* group = std::get_if<const GroupNode*>(&node)) {
      std::vector<Child> children;
      children.reserve((*group)->children.size());
      for (const GroupNode& child : (*group)->children) {
        children.push_back({KeyView::of(child.key), node_of(child)});
      }
      return Children(std::move(children), true);
    }
    const JsonRef json = std::get<JsonRef>(node);
    std::vector<Child> children;
    children.reserve(json.size());
    for (const JsonRef element : json) children.push_back({{}, element});
    for (const auto& [name, value] : json.members()) children.push_back({KeyView::of(name), value});
    return Children(std::move(children), json.is_object());
  }

  bool add(TableBuilder&, const Node& node, bool) {
    if (const auto* root = std::get_if<const Root*>(&node)) {
      if ((*root)->label) builder_.label(*(*root)->label);
      builder_.container(Kind::kDict);
    } else if (std::holds_alternative<const GroupNode*>(node)) {
      builder_.container(Kind::kDict);
    } else if (const auto* json = std::get_if<JsonRef>(&node)) {
      add_json(*json);
    } else if (const auto* shard = std::get_if<ShardNode>(&node)) {
      copiers_[shard->shard]->add(node_ref(*shard));
    } else {
      // Nothing says what it is: no elements of an unknown type.
      constexpr std::uint64_t kNone[] = {0};
      builder_.placeholder({DType::kOpaque, kNone, {kUnknownDtype, 1, 1}});
    }
    return builder_.ok();
  }

  static Node node_of(const GroupNode& group) {
    if (group.type == GroupNode::Type::kShard) return ShardNode{group.shard, group.number};
    if (group.type == GroupNode::Type::kMissing) return Missing();
    return &group;
  }

  void add_json(JsonRef json) {
    if (json.is_null()) return builder_.null();
    if (json.is_array()) return builder_.container(Kind::kList);
    if (json.is_object()) return builder_.container(Kind::kDict);
    if (const auto value = json.boolean()) return builder_.boolean(*value);
    if (const auto value = json.int64()) return builder_.integer(*value);
    if (const auto value = json.real()) return builder_.real(*value);
    if (const auto value = json.text()) return builder_.string(*value);
    // An integer of 64 bits, which is within every limit.
    const auto number = BigInt::from_decimal(std::to_string(json.uint64().value_or(0)));
    if (number) builder_.bigint(number->bytes());
  }

  NodeRef node_ref(ShardNode node) const {
    return {&shards_[node.shard].checkpoint->catalog(), node.number};
  }

  // The files of the set: the shards', and after them those that shards have made.
  Result<void> add_files() {
    for (std::uint32_t i = 0; i < shards_.size(); ++i) {
      FileEntry file{.name = std::string(index_.files[i]), .length = shards_[i].length};
      if (const auto& checkpoint = shards_[i].checkpoint) {
        file.data_begin = checkpoint->catalog().data_begin();
        file.checksums = checkpoint->catalog().files().front().checksums;
      }
      file.problem = shards_[i].problem;
      parts_.files.push_back(std::move(file));
    }
    copiers_.resize(shards_.size());
    for (std::uint32_t i = 0; i < shards_.size(); ++i) {
      if (!shards_[i].checkpoint) continue;
      auto numbers = add_made_files(parts_.files, shards_[i].checkpoint->catalog(), i + 1);
      if (!numbers) return propagate(numbers);
      copiers_[i].emplace(builder_, *shards_[i].checkpoint, std::move(*numbers));
    }
    return {};
  }

  static std::string path_of(std::string_view tensor) {
    std::string path;
    append_path(path, KeyView::of(tensor), DigitMark::kNever);
    return path;
  }

  void note(Note::Kind kind, std::string_view tensor, std::string message) {
    parts_.notes.add({kind, path_of(tensor), std::move(message)});
  }

  // Notes what the index and a file cannot both be right about. The first such problem is one of
  // the checkpoint, which makes verification fail, and a conversion of the whole.
  void contradict(std::string_view tensor, std::string message) {
    if (!contradiction_) {
      contradiction_ =
          Error{ErrorCode::kForeignInvalid, Error::kNoOffset, path_of(tensor), message};
    }
    note(Note::Kind::kLoss, tensor, std::move(message));
  }

  std::string file_name(std::uint32_t shard) const { return std::string(index_.files[shard]); }

  void list_state() {
    std::vector<std::vector<bool>> is_named(shards_.size());
    std::vector<std::uint64_t> missing(shards_.size());
    for (std::uint32_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].checkpoint) is_named[i].resize(shards_[i].checkpoint->state().size());
    }
    std::set<std::string_view> names;
    state_.reserve(index_.entries.size());
    for (const auto& [tensor, shard] : index_.entries) {
      names.insert(tensor);
      const auto child = find(shard, tensor);
      if (child) {
        is_named[shard][child->number() - shards_[shard].checkpoint->state().child(0).number()] =
            true;
        state_.push_back({KeyView::of(tensor), ShardNode{shard, child->number()}});
        continue;
      }
      state_.push_back({KeyView::of(tensor), Missing()});
      ++missing[shard];
      if (shards_[shard].checkpoint) {
        contradict(tensor, "the index says that this tensor is in " + file_name(shard) +
                               ", which does not have it");
      }
    }
    for (std::uint32_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].checkpoint) {
        add_unnamed(i, is_named[i], names);
        add_notes_of(i);
      } else {
        note_lost(i, counted(missing[i], "tensor"));
      }
    }
    set_label();
  }

  void list_groups() {
    groups_ = join_groups(index_, shards_, parts_.notes, contradiction_);
    std::vector<std::uint64_t> groups(shards_.size());
    for (const auto& entry : index_.entries) ++groups[entry.file];
    for (std::uint32_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].checkpoint) {
        add_notes_of(i);
      } else {
        note_lost(i, counted(groups[i], "group"));
      }
    }
  }

  void note_lost(std::uint32_t shard, const std::string& what) {
    parts_.notes.add({Note::Kind::kLoss,
                      {},
                      "only the names are known of the " + what + " in " + file_name(shard) +
                          ", which cannot be opened (" +
                          std::string(to_string(shards_[shard].problem->code)) + ")"});
  }

  std::optional<NodeRef> find(std::uint32_t shard, std::string_view tensor) const {
    if (!shards_[shard].checkpoint) return std::nullopt;
    return shards_[shard].checkpoint->state().find(KeyView::of(tensor));
  }

  // What a shard has and the index does not mention is there all the same, unless another one has
  // that name.
  void add_unnamed(std::uint32_t shard, const std::vector<bool>& is_named,
                   std::set<std::string_view>& names) {
    const NodeRef state = shards_[shard].checkpoint->state();
    for (std::uint32_t i = 0; i < state.size(); ++i) {
      if (is_named[i]) continue;
      const KeyView key = state.key(i);
      if (names.insert(key.text).second) {
        state_.push_back({key, ShardNode{shard, state.child(i).number()}});
        note(Note::Kind::kWarning, key.text,
             "the index does not name this tensor, which is in " + file_name(shard));
      } else {
        contradict(key.text, file_name(shard) +
                                 " has another tensor of this name, which is left out because the "
                                 "index does not name it");
      }
    }
  }

  void add_notes_of(std::uint32_t shard) {
    const Notes& notes = shards_[shard].checkpoint->catalog().notes();
    for (Note note : notes.listed()) {
      // Paths begin with the names of tensors, which are the same in the joined tree.
      if (note.path.empty()) note.message.insert(0, file_name(shard) + ": ");
      parts_.notes.add(std::move(note));
    }
    // They are counted alone: the list is full.
    for (std::uint64_t i = notes.listed().size(); i < notes.count(); ++i) parts_.notes.add({});
  }

  // The label that all shards' dicts have.
  void set_label() {
    const Shard* first = nullptr;
    for (const Shard& shard : shards_) {
      if (!shard.checkpoint) continue;
      if (first == nullptr) {
        first = &shard;
        state_.label = shard.checkpoint->state().label();
      } else if (shard.checkpoint->state().label() != state_.label) {
        state_.label.reset();
      }
    }
  }

  void list_metadata() {
    for (const auto& [name, value] : index_.json.root().members()) {
      if (name != kWeightMap) index_members_.push_back({KeyView::of(name), value});
    }
    if (!index_members_.empty()) metadata_.push_back({KeyView::of(kIndexKey), &index_members_});
    for (std::uint32_t i = 0; i < shards_.size(); ++i) {
      if (!shards_[i].checkpoint) continue;
      const NodeRef metadata = shards_[i].checkpoint->metadata();
      if (metadata.size() == 0 && !metadata.label()) continue;
      metadata_.push_back({KeyView::of(index_.files[i]), ShardNode{i, kMetadataRoot}});
    }
  }

  tl::unexpected<Error> explain(Result<OwnedTables>& failed) const {
    Error& error = failed.error();
    make_reader_error(error);
    if (builder_.repeated_key()) error.message = "the index has the same name twice";
    return propagate(failed);
  }

  const ShardIndex& index_;
  const std::span<const Shard> shards_;
  const Limits& limits_;
  TableBuilder builder_;
  ForeignParts parts_;
  std::optional<Error> contradiction_;
  Root state_;
  GroupNode groups_;  // in its place, if the index has groups
  Root metadata_;
  Root index_members_;
  std::vector<std::optional<NodeCopier>> copiers_;  // by shard
};

}  // namespace

std::optional<Error> defect_of_shard(const Checkpoint& shard) {
  const auto defect = [](std::string_view message) {
    return Error{ErrorCode::kForeignInvalid, Error::kNoOffset, {}, message};
  };
  const Catalog& catalog = shard.catalog();
  if (catalog.has_hashes() || catalog.format() == kShardedFormat) {
    return defect("a file of format " + std::string(catalog.format().name) +
                  " cannot be a part of a sharded model; open it by itself");
  }
  const NodeRef state = shard.state();
  bool has_names = state.kind() == Kind::kDict;
  for (std::uint32_t i = 0; has_names && i < state.size(); ++i) has_names = !state.key(i).is_int;
  if (!has_names) return defect("the file is not a dict whose keys are names");
  return std::nullopt;
}

Result<ForeignParts> join_shards(const ShardIndex& index, std::uint64_t index_length,
                                 std::span<const Shard> shards, const Limits& limits) {
  return ShardJoiner(index, index_length, shards, limits).run();
}

}  // namespace espalier
