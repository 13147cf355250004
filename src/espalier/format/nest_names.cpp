#include "espalier/format/nest_names.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/little_endian.h"
#include "espalier/base/merge_sort.h"
#include "espalier/format/access.h"
#include "espalier/format/owned_tables.h"
#include "espalier/format/table_builder.h"

namespace espalier {
namespace {

// The length of the beginning that two names share.
std::size_t shared(std::string_view a, std::string_view b) {
  // Eight bytes at a time: the keys of a dict may share 16 KB.
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t same = 0;
  while (same + kWord <= most && load_le<std::uint64_t>(as_bytes(a).data() + same) ==
                                     load_le<std::uint64_t>(as_bytes(b).data() + same)) {
    same += kWord;
  }
  while (same < most && a[same] == b[same]) ++same;
  return same;
}

// Compares segment by segment: a '.' ends a segment, so it sorts before every other byte.
bool dotted_less(std::string_view a, std::string_view b) {
  const std::size_t same = shared(a, b);
  if (same == a.size() || same == b.size()) return a.size() < b.size();
  const auto rank = [](char c) { return c == '.' ? 0 : 1 + static_cast<unsigned char>(c); };
  return rank(a[same]) < rank(b[same]);
}

// Bytes of names that nest in any case, and how many times the pool of texts they may take. Stops a
// file of a megabyte in which thousands of dicts share a few keys of 16 KB: each would be split
// again, which takes seconds.
constexpr std::uint64_t kNestedBytes = std::uint64_t{128} << 20;
constexpr std::uint64_t kNestedPools = 4;

// Parses a segment of up to nine digits.
std::optional<std::uint32_t> number_of(std::string_view segment) {
  if (segment.empty() || segment.size() > 9) return std::nullopt;
  std::uint32_t number = 0;
  for (const char c : segment) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return number;
}

class Nester {
 public:
  Nester(const Tables& t, const Limits& limits)
      : t_(t), limits_(limits), builder_(limits, TableBuilder::Texts::kValid) {}

  std::optional<OwnedTables> run() {
    if (!has_dotted_keys(t_) || name_bytes() > kNestedBytes + kNestedPools * t_.text.size()) {
      return std::nullopt;
    }
    // A dict for every second name, so that the nodes rarely move.
    builder_.reserve(t_.nodes.size() + t_.nodes.size() / 2, 0);
    builder_.keep_tensors(t_);
    const std::uint32_t levels = std::min(kMaxNestedLevels, limits_.depth - depth());
    add_node(kStateRoot);
    add_node(kMetadataRoot);
    add_children(kStateRoot, kStateRoot, levels);
    add_children(kMetadataRoot, kMetadataRoot, 0);
    auto tables = builder_.finish();
    // The stored tree is valid, so only the limit on nodes can fail.
    // Each split adds a dict.
    if (!tables || tables->nodes.size() == t_.nodes.size()) return std::nullopt;
    return std::move(*tables);
  }

 private:
  // A child of a dict whose names are split: a single name, or all names with the same beginning.
  struct Entry {
    std::uint32_t first;       // of its names, in the order of names
    std::uint32_t count;       // of its names
    std::uint32_t mentioned;   // the node of the name that comes first in the file
    std::uint32_t key_end;     // where its key ends in each of the names
    bool is_dict;              // and a dot follows
    std::uint32_t number = 0;  // of a dict whose key is one
  };

  // A name of a dict, and the length of the beginning that it shares with the name before it.
  struct Name {
    std::uint32_t node;
    std::uint32_t shared;
  };

  std::string_view name(std::uint32_t node) const { return table_text(t_, t_.nodes[node].key); }

  // Bytes of all text keys, counted wherever they are used.
  std::uint64_t name_bytes() const {
    std::uint64_t bytes = 0;  // at most 2^31 in each of fewer than 2^32 nodes
    for (std::uint32_t node = 0; node < t_.nodes.size(); ++node) {
      if (has_text_key(node)) bytes += name(node).size();
    }
    return bytes;
  }

  // Levels of the stored tree below its root.
  std::uint32_t depth() const {
    struct Level {
      std::uint32_t next;
      std::uint32_t end;
    };
    std::vector<Level> levels = {{kStateRoot, kMetadataRoot + 1}};
    std::size_t deepest = 1;
    while (!levels.empty()) {
      Level& level = levels.back();
      if (level.next == level.end) {
        levels.pop_back();
        continue;
      }
      const NodeRecord& node = t_.nodes[level.next++];
      if (!is_container(node_kind(node)) || node.count == 0) continue;
      levels.push_back({node.value, node.value + node.count});
      deepest = std::max(deepest, levels.size());
    }
    return static_cast<std::uint32_t>(deepest - 1);
  }

  // Adds the node `stored` without its key and its children.
  void add_node(std::uint32_t stored) {
    const NodeRecord& node = t_.nodes[stored];
    if (const auto label = table_label(t_, stored)) builder_.label(table_text(t_, *label));
    const Kind kind = node_kind(node);
    switch (kind) {
      case Kind::kNull:
        builder_.null();
        break;
      case Kind::kBool:
        builder_.boolean(node.value != 0);
        break;
      case Kind::kInt64:
        builder_.integer(table_int(t_, node.value));
        break;
      case Kind::kFloat64:
        builder_.real(bits_as<double>(t_.words[node.value]));
        break;
      case Kind::kComplex128:
        builder_.complex(
            {bits_as<double>(t_.words[node.value]), bits_as<double>(t_.words[node.value + 1])});
        break;
      case Kind::kString:
        builder_.string(table_text(t_, node.value));
        break;
      case Kind::kBytes:
        builder_.bytes(t_.bytes.subspan(node.value, node.count));
        break;
      case Kind::kBigInt:
        builder_.bigint(t_.bytes.subspan(node.value, node.count));
        break;
      case Kind::kTensor:
      case Kind::kPlaceholder:
        builder_.known_tensor(node.value, kind);
        break;
      default:
        builder_.container(kind);
        break;
    }
  }

  // Adds the children of the node `stored`, and all below them, to `node`. Splitting names may add
  // `levels` levels. Recursion is bounded by Limits::depth.
  void add_children(std::uint32_t node, std::uint32_t stored, std::uint32_t levels) {
    const NodeRecord& parent = t_.nodes[stored];
    if (!is_container(node_kind(parent))) return;
    const auto children = t_.nodes.subspan(parent.value, parent.count);
    if (node_kind(parent) == Kind::kDict && levels > 0 &&
        std::any_of(children.begin(), children.end(),
                    [this](const NodeRecord& child) { return has_dotted_key(t_, child); })) {
      const auto names = sorted_names(stored);
      return add_split(node, names, 0, levels);
    }
    const std::uint32_t first = builder_.node_count();
    if (!builder_.open(node, parent.count)) return;
    for (std::uint32_t i = 0; i < parent.count; ++i) {
      if (has_keys(node_kind(parent))) builder_.key(node_key(t_, children[i]));
      add_node(parent.value + i);
    }
    for (std::uint32_t i = 0; i < parent.count && builder_.ok(); ++i) {
      add_children(first + i, parent.value + i, levels);
    }
  }

  // The children of a dict: first those with int keys, then the others sorted by name, segment by
  // segment. They are mostly sorted in the file already.
  std::vector<Name> sorted_names(std::uint32_t stored) const {
    const NodeRecord& parent = t_.nodes[stored];
    const auto at = std::lower_bound(
        t_.dict_orders.begin(), t_.dict_orders.end(), stored,
        [](const DictOrderRecord& order, std::uint32_t node) { return order.node < node; });
    const bool has_order = at != t_.dict_orders.end() && at->node == stored;
    std::vector<std::uint32_t> names;
    names.reserve(parent.count);
    for (std::uint32_t i = 0; i < parent.count; ++i) {
      names.push_back(parent.value + (has_order ? t_.order[at->first + i] : i));
    }
    merge_sort_runs(names, [this](std::uint32_t a, std::uint32_t b) {
      const bool is_text = has_text_key(b);
      if (!has_text_key(a) || !is_text) return !has_text_key(a) && is_text;
      return dotted_less(name(a), name(b));
    });
    std::vector<Name> result;
    result.reserve(names.size());
    std::string_view before;
    for (const std::uint32_t node : names) {
      const std::string_view text = has_text_key(node) ? name(node) : std::string_view();
      result.push_back({node, static_cast<std::uint32_t>(shared(before, text))});
      before = text;
    }
    return result;
  }

  bool has_text_key(std::uint32_t node) const {
    return t_.nodes[node].key_kind == static_cast<std::uint8_t>(KeyKind::kText);
  }

  // Adds the children for sorted names, and all below them, to `node`. The names share their first
  // `offset` bytes.
  void add_split(std::uint32_t node, std::span<const Name> names, std::size_t offset,
                 std::uint32_t levels) {
    const std::vector<Entry> entries = split(names, offset, levels);
    const std::uint32_t first = builder_.node_count();
    if (!builder_.open(node, entries.size())) return;
    for (const Entry& entry : entries) {
      const std::uint32_t stored = names[entry.first].node;
      const KeyView key = has_text_key(stored) ? KeyView::of(key_of(entry, names, offset))
                                               : node_key(t_, t_.nodes[stored]);
      builder_.key(key);
      if (entry.is_dict) {
        builder_.container(Kind::kDict);
      } else {
        add_node(stored);
      }
    }
    for (std::uint32_t i = 0; i < entries.size() && builder_.ok(); ++i) {
      const Entry& entry = entries[i];
      const auto below = names.subspan(entry.first, entry.count);
      if (entry.is_dict) {
        add_split(first + i, below, std::size_t{entry.key_end} + 1, levels - 1);
      } else {
        add_children(first + i, below.front().node, levels);
      }
    }
  }

  std::string_view key_of(const Entry& entry, std::span<const Name> names,
                          std::size_t offset) const {
    return name(names[entry.first].node).substr(offset, entry.key_end - offset);
  }

  std::vector<Entry> split(std::span<const Name> names, std::size_t offset,
                           std::uint32_t levels) const {
    std::vector<Entry> entries;
    // Lengths of names that are values themselves; each is the beginning of the next and of the
    // names after it.
    std::vector<std::uint32_t> values;
    for (std::uint32_t i = 0; i < names.size();) {
      Entry entry{i, 1, names[i].node, 0, false, 0};
      if (has_text_key(names[i].node)) {
        const std::string_view text = name(names[i].node);
        // The name before this one is the last value, or below it.
        const auto is_below = [&](std::size_t end) {
          return names[i].shared >= end && text.size() > end && text[end] == '.';
        };
        while (!values.empty() && !is_below(values.back())) values.pop_back();
        const std::size_t begin = values.empty() ? offset : values.back() + std::size_t{1};
        const auto dot = levels > 0 ? text.find('.', begin) : text.npos;
        entry.is_dict = dot != text.npos;
        entry.key_end = static_cast<std::uint32_t>(entry.is_dict ? dot : text.size());
        if (!entry.is_dict) values.push_back(entry.key_end);
        // With the dot.
        while (entry.is_dict && i + entry.count < names.size() &&
               names[i + entry.count].shared > entry.key_end) {
          entry.mentioned = std::min(entry.mentioned, names[i + entry.count++].node);
        }
      }
      entries.push_back(entry);
      i += entry.count;
    }
    arrange(entries, names, offset);
    return entries;
  }

  // Sorted by number if all are numbered dicts, otherwise in the order of the file.
  void arrange(std::vector<Entry>& entries, std::span<const Name> names, std::size_t offset) const {
    const bool are_numbered = std::all_of(entries.begin(), entries.end(), [&](Entry& entry) {
      const auto number = entry.is_dict ? number_of(key_of(entry, names, offset)) : std::nullopt;
      entry.number = number.value_or(0);
      return number.has_value();
    });
    merge_sort_runs(entries, [&](const Entry& a, const Entry& b) {
      if (!are_numbered) return a.mentioned < b.mentioned;
      return std::pair(a.number, a.mentioned) < std::pair(b.number, b.mentioned);
    });
  }

  const Tables& t_;
  const Limits& limits_;
  TableBuilder builder_;
};

}  // namespace

std::optional<OwnedTables> nest_names(const Tables& t, const Limits& limits) {
  return Nester(t, limits).run();
}

}  // namespace espalier
