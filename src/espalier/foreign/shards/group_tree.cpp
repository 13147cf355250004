#include "espalier/foreign/shards/group_tree.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "espalier/foreign/common/layer_names.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

constexpr std::string_view kVariables = "/vars";
constexpr std::string_view kNameOfLayer = "name";

class GroupJoiner {
 public:
  GroupJoiner(const ShardIndex& index, std::span<const Shard> shards, Notes& notes,
              std::optional<Error>& contradiction)
      : index_(index), shards_(shards), notes_(notes), contradiction_(contradiction) {}

  GroupNode run() {
    read_layers();
    Parts parts;
    for (std::uint32_t i = 0; i < shards_.size(); ++i) {
      if (shards_[i].checkpoint) parts.nodes.push_back({i, shards_[i].checkpoint->state()});
    }
    for (const auto& [group, shard] : index_.entries) {
      named_.emplace(group, shard);
      if (shards_[shard].checkpoint) {
        check_group(group, shard);
      } else {
        parts.missing.push_back(keys_of_group(group));
      }
    }
    GroupNode root;
    join(root, parts, {}, {});
    return root;
  }

 private:
  struct Part {
    std::uint32_t shard;
    NodeRef node;
  };
  // What is at one place of the tree: in the files, and in those that cannot be opened, of which
  // the index names the groups: the keys that are left.
  struct Parts {
    std::vector<Part> nodes = {};
    std::vector<std::vector<std::string_view>> missing = {};
    std::size_t depth = 0;  // keys of `missing` that lead here
  };

  static bool is_dict(const NodeRef& node) { return node.kind() == Kind::kDict; }

  // The attribute `name` of the variables of a layer, which is in the file with the first of them.
  void read_layers() {
    for (const Shard& shard : shards_) {
      if (!shard.checkpoint) continue;
      const NodeRef metadata = shard.checkpoint->metadata();
      for (std::uint32_t i = 0; i < metadata.size(); ++i) {
        const std::string_view path = metadata.key(i).text;
        const NodeRef attributes = metadata.child(i);
        if (!path.ends_with(kVariables) || !is_dict(attributes)) continue;
        const auto name = attributes.find(KeyView::of(kNameOfLayer));
        if (!name || name->kind() != Kind::kString) continue;
        const std::string_view text = *name->as_string();
        if (!text.empty()) {
          layers_.emplace(path.substr(0, path.size() - kVariables.size()), text);
        }
      }
    }
  }

  void check_group(std::string_view group, std::uint32_t shard) {
    std::optional<NodeRef> node = shards_[shard].checkpoint->state();
    std::string path;
    for (const std::string_view key : keys_of_group(group)) {
      append_path(path, KeyView::of(key), DigitMark::kNever);
      node = node && is_dict(*node) ? node->find(KeyView::of(key)) : std::nullopt;
    }
    if (!node) {
      contradict(path, "the index says that this group is in " + file_name(shard) +
                           ", which does not have it");
    }
  }

  // Recurses as deep as the files' trees and the index's paths, which Limits::depth bounds. `path`
  // is that of the files, `shown` that in the joined tree.
  void join(GroupNode& group, const Parts& parts, const std::string& path,
            const std::string& shown) {
    std::vector<std::string_view> keys;
    std::map<std::string_view, Parts> by_key;
    const auto at = [&](std::string_view key) -> Parts& {
      const auto [found, is_new] = by_key.try_emplace(key);
      if (is_new) keys.push_back(key);
      return found->second;
    };
    for (const Part& part : parts.nodes) {
      for (std::uint32_t i = 0; i < part.node.size(); ++i) {
        at(part.node.key(i).text).nodes.push_back({part.shard, part.node.child(i)});
      }
    }
    for (const auto& missing : parts.missing) {
      Parts& child = at(missing[parts.depth]);
      child.depth = parts.depth + 1;
      child.missing.push_back(missing);
    }
    std::vector<GroupPart> names;
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
      const auto layer = layers_.find(path + "/" + std::string(keys[i]));
      names.push_back({keys[i], layer == layers_.end() ? "" : layer->second, i});
    }
    // A group of layers has no variables of its own, as layers have.
    const bool are_layers = !path.empty() && !by_key.contains(kVariables.substr(1));
    if (!order_numbers(names) && are_layers) name_layers(names);
    for (const GroupPart& name : names) {
      const std::string_view key = keys[name.number];
      std::string child_shown = shown;
      append_path(child_shown, KeyView::of(name.key), DigitMark::kNever);
      GroupNode& child = group.children.emplace_back();
      child.key = name.key;
      add(child, by_key[key], path + "/" + std::string(key), path, child_shown);
    }
  }

  void add(GroupNode& child, Parts& parts, const std::string& path, const std::string& group,
           const std::string& shown) {
    if (parts.nodes.empty() && parts.missing.front().size() == parts.depth) {
      child.type = GroupNode::Type::kMissing;
      return;
    }
    std::erase_if(parts.missing, [&](const auto& keys) { return keys.size() == parts.depth; });
    if (parts.nodes.empty() || is_dict(parts.nodes.front().node)) {
      // A dict, with what the others have there if these are dicts, too.
      const auto others =
          std::stable_partition(parts.nodes.begin(), parts.nodes.end(),
                                [](const Part& part) { return is_dict(part.node); });
      for (auto other = others; other != parts.nodes.end(); ++other) refuse(*other, shown);
      parts.nodes.erase(others, parts.nodes.end());
      return join(child, parts, path, shown);
    }
    const Part& first = parts.nodes.front();
    child.type = GroupNode::Type::kShard;
    child.shard = first.shard;
    child.number = first.node.number();
    for (std::size_t i = 1; i < parts.nodes.size(); ++i) refuse(parts.nodes[i], shown);
    if (!named_.contains({group, first.shard})) {
      notes_.add({Note::Kind::kWarning, shown,
                  "the index does not say that " + file_name(first.shard) + " has this"});
    }
  }

  void refuse(const Part& part, const std::string& shown) {
    contradict(shown, file_name(part.shard) + " has another value here, which is left out");
  }

  void contradict(const std::string& path, std::string message) {
    if (!contradiction_) {
      contradiction_ = Error{ErrorCode::kForeignInvalid, Error::kNoOffset, path, message};
    }
    notes_.add({Note::Kind::kLoss, path, std::move(message)});
  }

  std::string file_name(std::uint32_t shard) const { return std::string(index_.files[shard]); }

  const ShardIndex& index_;
  const std::span<const Shard> shards_;
  Notes& notes_;
  std::optional<Error>& contradiction_;
  std::map<std::string, std::string_view, std::less<>> layers_;  // by the paths of their groups
  std::set<std::pair<std::string_view, std::uint32_t>> named_;
};

}  // namespace

GroupNode join_groups(const ShardIndex& index, std::span<const Shard> shards, Notes& notes,
                      std::optional<Error>& contradiction) {
  return GroupJoiner(index, shards, notes, contradiction).run();
}

}  // namespace espalier
