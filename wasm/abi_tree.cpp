// The part of abi.h that tells the tree.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"
#include "tree_handle.h"

#include "espalier/checkpoint.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/format_info.h"
#include "espalier/format/nest_names.h"
#include "espalier/notes.h"
#include "espalier/pattern.h"
#include "espalier/read/match.h"
#include "espalier/read/pattern_stepper.h"
#include "espalier/read/totals.h"

namespace espalier::abi {
namespace {

// What wasm/src/core/records.ts reads, byte by byte.
static_assert(sizeof(Info) == 72 && offsetof(Info, digest) == 40 && offsetof(Info, format) == 64);
static_assert(sizeof(Node) == 64 && offsetof(Node, bits) == 48 && offsetof(Node, key) == 16);
static_assert(sizeof(Keys) == 16);
static_assert(sizeof(Totals) == 32);
static_assert(sizeof(MatchOptions) == 24);
static_assert(sizeof(TensorInfo) == 88 && offsetof(TensorInfo, axis_names) == 80);

// The text of espalier_keys() ends after so many bytes.
constexpr std::size_t kKeyBytes = 1 << 20;
constexpr std::uint32_t kIntKey = std::uint32_t{1} << 31;

}  // namespace

class Matches {
 public:
  std::vector<std::uint32_t> nodes;
};

void espalier_tree_free(Tree* tree) { delete tree; }

void espalier_tree_info(Tree* tree, Info* out) {
  const Catalog& catalog = tree->checkpoint.catalog();
  *out = {.has_hashes = catalog.has_hashes() ? 1u : 0u,
          .zero = 0,
          .nodes = static_cast<std::uint32_t>(catalog.tables().nodes.size()),
          .tensors = tree->checkpoint.tensor_count(),
          .file_length = catalog.file_length(),
          .data_begin = catalog.data_begin(),
          .state_root = kStateRoot,
          .metadata_root = kMetadataRoot,
          .digest = {},
          .notes = catalog.notes().count(),
          .format = text_of(catalog.format().name)};
  if (catalog.tree_digest()) std::memcpy(out->digest, &*catalog.tree_digest(), sizeof out->digest);
}

std::uint32_t espalier_note(Tree* tree, std::uint32_t i, Failure* out) {
  const Catalog& catalog = tree->checkpoint.catalog();
  const auto listed = catalog.notes().listed();
  // Code comes before the files that cannot be read, and all else after them.
  if (const std::size_t code = catalog.notes().code().size(); i >= code) {
    i -= static_cast<std::uint32_t>(code);
    for (const FileEntry& file : catalog.files()) {
      if (!file.problem || i-- != 0) continue;
      *out = failure_of(*file.problem);
      return 1;
    }
    i += static_cast<std::uint32_t>(code);
  }
  if (i >= listed.size()) return 0;
  out->path = text_of(listed[i].path);
  out->message = text_of(listed[i].message);
  return 2 + static_cast<std::uint32_t>(listed[i].kind);
}

const Tables* espalier_tables(Tree* tree) { return &tree->tables(); }

std::uint32_t espalier_has_dotted_keys(Tree* tree) {
  return has_dotted_keys(tree->tables()) ? 1 : 0;
}

std::uint32_t espalier_is_nested(Tree* tree) {
  return tree->checkpoint.catalog().is_nested() ? 1 : 0;
}

Status espalier_node(Tree* tree, std::uint32_t number, Node* out) {
  if (!tree->has_node(number)) return no_such("node", number);
  const Tables& t = tree->tables();
  const NodeRef node = tree->node(number);
  const NodeRecord& record = t.nodes[number];
  *out = {};
  out->kind = record.kind;
  out->key_kind = record.key_kind;
  if (record.key_kind == static_cast<std::uint8_t>(KeyKind::kText)) {
    out->key = text_of(table_text(t, record.key));
  } else if (record.key_kind == static_cast<std::uint8_t>(KeyKind::kInt)) {
    out->int_key = table_int(t, record.key);
  }
  if (const auto label = node.label()) {
    out->has_label = 1;
    out->label = text_of(*label);
  }
  out->children = node.size();
  out->first_child = node.size() > 0 ? node.child(0).number() : kNone;
  const auto tensor = node.tensor();
  out->tensor = tensor ? tensor->number() : kNone;
  switch (node.kind()) {
    case Kind::kBool:
      out->boolean = record.value != 0 ? 1 : 0;
      break;
    case Kind::kInt64:
    case Kind::kFloat64:
      out->bits[0] = t.words[record.value];
      break;
    case Kind::kComplex128:
      out->bits[0] = t.words[record.value];
      out->bits[1] = t.words[record.value + 1];
      break;
    case Kind::kString:
      out->value = text_of(*node.as_string());
      break;
    case Kind::kBytes:
    case Kind::kBigInt:
      out->value = text_of(t.bytes.subspan(record.value, record.count));
      break;
    default:
      break;
  }
  return 0;
}

std::uint32_t espalier_parent(Tree* tree, std::uint32_t node) {
  return tree->has_node(node) ? tree->parent(node) : kNone;
}

Status espalier_path(Tree* tree, std::uint32_t number, Text* out) {
  if (!tree->has_node(number)) return no_such("node", number);
  std::vector<std::uint32_t> nodes;  // from the node up, without the root
  for (std::uint32_t node = number; tree->parent(node) != kNone; node = tree->parent(node)) {
    nodes.push_back(node);
  }
  tree->path.clear();
  while (!nodes.empty()) {
    const NodeRef parent = tree->node(tree->parent(nodes.back()));
    const KeyView key = parent.key(nodes.back() - parent.child(0).number());
    append_path(tree->path, key, parent.digit_mark(key));
    nodes.pop_back();
  }
  *out = text_of(tree->path);
  return 0;
}

Status espalier_find(Tree* tree, std::uint32_t node, const char* path, std::uint32_t length,
                     std::uint32_t* out) {
  if (!tree->has_node(node)) return no_such("node", node);
  const auto parsed = KeyPath::parse(std::string_view(path, length));
  if (!parsed) return set_failure(parsed.error());
  const auto found = tree->node(node).find(*parsed);
  *out = found ? found->number() : kNone;
  return 0;
}

namespace {

std::uint32_t child_under(Tree* tree, std::uint32_t node, const KeyView& key) {
  if (!tree->has_node(node)) return kNone;
  const auto child = tree->node(node).find(key);
  return child ? child->number() : kNone;
}

}  // namespace

std::uint32_t espalier_child_text(Tree* tree, std::uint32_t node, const char* key,
                                  std::uint32_t length) {
  return child_under(tree, node, KeyView::of(std::string_view(key, length)));
}

std::uint32_t espalier_child_int(Tree* tree, std::uint32_t node, std::int64_t key) {
  return child_under(tree, node, KeyView::of(key));
}

Status espalier_keys(Tree* tree, std::uint32_t number, std::uint32_t first, std::uint32_t count,
                     Keys* out) {
  if (!tree->has_node(number)) return no_such("node", number);
  const Tables& t = tree->tables();
  const NodeRecord& parent = t.nodes[number];
  const std::uint32_t children = has_keys(node_kind(parent)) ? parent.count : 0;
  if (first > children || count > children - first) return no_such("child", first);
  tree->keys.clear();
  tree->key_ends.clear();
  for (std::uint32_t i = first; i < first + count && tree->keys.size() < kKeyBytes; ++i) {
    const KeyView key = node_key(t, t.nodes[parent.value + i]);
    if (key.is_int) {
      tree->keys += std::to_string(key.integer);
    } else {
      tree->keys += key.text;
    }
    // A key is shorter than the memory that holds index and copy.
    const auto end = static_cast<std::uint32_t>(tree->keys.size());
    tree->key_ends.push_back(key.is_int ? end | kIntKey : end);
  }
  *out = {text_of(tree->keys), tree->key_ends.data(),
          static_cast<std::uint32_t>(tree->key_ends.size())};
  return 0;
}

Matches* espalier_match(Tree* tree, std::uint32_t root, const Text* patterns, std::uint32_t count,
                        const MatchOptions* options) {
  if (!tree->has_node(root)) return no_such("node", root), nullptr;
  const auto letter_case = options->ignores_case != 0 ? LetterCase::kIgnored : LetterCase::kExact;
  std::vector<Pattern> parsed;
  for (std::uint32_t i = 0; i < count; ++i) {
    auto pattern = Pattern::parse({patterns[i].data, patterns[i].length}, letter_case);
    if (!pattern) return set_failure(std::move(pattern.error())), nullptr;
    parsed.push_back(std::move(*pattern));
  }
  std::optional<TensorFilter> filter;
  if (options->tensors_only != 0) {
    filter = TensorFilter{dtype_from_number(static_cast<std::uint8_t>(options->dtype)),
                          options->least_bytes};
  }
  auto matches = std::make_unique<Matches>();
  PatternStepper stepper(parsed);
  matches->nodes = match_nodes(tree->node(root), stepper, filter);
  return matches.release();
}

const std::uint32_t* espalier_match_nodes(Matches* matches) { return matches->nodes.data(); }

std::uint32_t espalier_match_count(Matches* matches) {
  return static_cast<std::uint32_t>(matches->nodes.size());
}

void espalier_match_free(Matches* matches) { delete matches; }

namespace {

Totals totals_of(const espalier::Totals& totals) {
  return {totals.tensors, totals.elements, totals.bytes, totals.stored};
}

}  // namespace

Status espalier_totals(Tree* tree, std::uint32_t node, Totals* out) {
  if (!tree->has_node(node)) return no_such("node", node);
  if (!tree->totals) tree->totals.emplace(tree->checkpoint);
  *out = totals_of(tree->totals->of(tree->node(node)));
  return 0;
}

Status espalier_totals_by_dtype(Tree* tree, const std::uint32_t* nodes, std::uint32_t count,
                                Totals* out) {
  std::vector<NodeRef> refs;
  refs.reserve(count);
  for (const std::uint32_t node : std::span(nodes, count)) {
    if (!tree->has_node(node)) return no_such("node", node);
    refs.push_back(tree->node(node));
  }
  if (!tree->totals) tree->totals.emplace(tree->checkpoint);
  const auto by_dtype = tree->totals->by_dtype(refs);
  std::transform(by_dtype.begin(), by_dtype.end(), out, totals_of);
  return 0;
}

Status espalier_tensor_path(Tree* tree, std::uint32_t number, Text* out) {
  if (number >= tree->checkpoint.tensor_count()) return no_such("tensor", number);
  tree->path = tensor_path(tree->checkpoint.tensor(number));
  *out = text_of(tree->path);
  return 0;
}

Status espalier_tensor(Tree* tree, std::uint32_t number, TensorInfo* out) {
  if (number >= tree->checkpoint.tensor_count()) return no_such("tensor", number);
  const TensorRef tensor = tree->checkpoint.tensor(number);
  const BlockType block = tensor.block();
  tree->axis_names.clear();
  for (const std::string_view name : tensor.axis_names()) {
    tree->axis_names.push_back(text_of(name));
  }
  *out = {};
  out->dtype = static_cast<std::uint8_t>(tensor.dtype());
  out->is_placeholder = tensor.is_placeholder() ? 1 : 0;
  out->rank = static_cast<std::uint32_t>(tensor.shape().size());
  out->shape = tensor.shape().data();
  out->chunks = tensor.chunk_count();
  out->elements = tensor.elements();
  out->bytes = tensor.bytes();
  out->stored = tensor.stored_bytes();
  if (const auto raw = tensor.raw_extent()) {
    out->is_raw = 1;
    out->raw_offset = raw->offset;
  }
  if (const auto hash = tensor.content_hash()) {
    out->has_hash = 1;
    std::memcpy(out->hash, &*hash, sizeof out->hash);
  }
  out->block = text_of(block.name);
  out->block_elements = block.elements;
  out->block_bytes = block.bytes;
  out->axis_names = tree->axis_names.empty() ? nullptr : tree->axis_names.data();
  return 0;
}

}  // namespace espalier::abi
