#include "abi.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "failure.h"
#include "tree.h"

#include "espalier/foreign/any_opener.h"
#include "espalier/format/access.h"
#include "espalier/read/checkpoint.h"
#include "espalier/read/match.h"
#include "espalier/read/plan.h"
#include "espalier/read/totals.h"
#include "espalier/read/verify.h"

namespace espalier::abi {
namespace {

// What wasm/src/core/records.ts reads, byte by byte.
static_assert(sizeof(Failure) == 32 && offsetof(Failure, message) == 24);
static_assert(sizeof(Extent) == 24 && offsetof(Extent, length) == 16);
static_assert(sizeof(Info) == 56 && offsetof(Info, digest) == 40);
static_assert(sizeof(Node) == 64 && offsetof(Node, bits) == 48 && offsetof(Node, key) == 16);
static_assert(sizeof(Keys) == 16);
static_assert(sizeof(Totals) == 32);
static_assert(sizeof(MatchOptions) == 24);
static_assert(sizeof(TensorInfo) == 88 && offsetof(TensorInfo, axis_names) == 80);
static_assert(sizeof(SliceSpec) == 32);
static_assert(sizeof(PlanInfo) == 24);
static_assert(sizeof(PlannedChunk) == 40 && offsetof(PlannedChunk, result_begin) == 24);
static_assert(sizeof(Piece) == 16);
static_assert(sizeof(Report) == 32);

// The text of espalier_keys() ends after so many bytes.
constexpr std::size_t kKeyBytes = 1 << 20;
constexpr std::uint32_t kIntKey = std::uint32_t{1} << 31;

ByteSpan span_of(const std::byte* bytes, std::uint32_t length) { return {bytes, length}; }

// Not operator new, which traps when there is no memory: a large index is to be refused.
ArenaAllocator allocator() {
  return {[](std::size_t size) { return std::malloc(size); },
          [](void* memory, std::size_t) { std::free(memory); }};
}

Extent extent_of(const espalier::Extent& extent) {
  return {extent.file, 0, extent.offset, extent.length};
}

Status no_such(std::string_view what, std::uint32_t number) {
  return set_failure({ErrorCode::kInvalidArgument,
                      Error::kNoOffset,
                      {},
                      "there is no " + std::string(what) + " of number " + std::to_string(number)});
}

}  // namespace

class Opening {
 public:
  explicit Opening(OpenOptions options) : opener(options) {}
  AnyOpener opener;
};

class Tree {
 public:
  explicit Tree(Checkpoint opened) : checkpoint(std::move(opened)) {}

  const Tables& tables() const { return checkpoint.catalog().tables(); }
  bool has_node(std::uint32_t node) const { return node < tables().nodes.size(); }
  NodeRef node(std::uint32_t number) const { return {&checkpoint.catalog(), number}; }

  std::uint32_t parent(std::uint32_t node) {
    if (parents_.empty()) {
      const auto nodes = tables().nodes;
      parents_.assign(nodes.size(), kNone);
      for (std::uint32_t i = 0; i < nodes.size(); ++i) {
        if (!is_container(node_kind(nodes[i]))) continue;
        std::fill_n(parents_.data() + nodes[i].value, nodes[i].count, i);
      }
    }
    return parents_[node];
  }

  Checkpoint checkpoint;
  std::string path;                     // of the last espalier_path()
  std::string keys;                     // of the last espalier_keys()
  std::vector<std::uint32_t> key_ends;  // likewise
  std::vector<Text> axis_names;         // of the last espalier_tensor()
  std::optional<SubtreeTotals> totals;  // since the first espalier_totals()
  // Shared by all reads: what decoding takes is large beside a small tensor.
  ChunkReader reader;
  std::vector<std::byte> scratch;

 private:
  std::vector<std::uint32_t> parents_;
};

const Checkpoint& checkpoint_of(const Tree& tree) { return tree.checkpoint; }

class Matches {
 public:
  std::vector<std::uint32_t> nodes;
};

class Read {
 public:
  Read(Tree& read_from, ReadPlan made) : tree(read_from), plan(std::move(made)) {}
  Tree& tree;
  ReadPlan plan;
};

class Verification {
 public:
  explicit Verification(Tree& verified) : tree(verified), plan(verified.checkpoint, kRegionBytes) {}
  Tree& tree;
  VerifyPlan plan;
  std::vector<Damage> damage;
  VerifyReport report;

 private:
  // What comes over a network comes in small pieces, and several are in memory at once.
  static constexpr std::uint64_t kRegionBytes = std::uint64_t{1} << 20;
};

void espalier_dtype_name(std::uint32_t dtype, Text* out) {
  const auto known =
      dtype < 256 ? dtype_from_number(static_cast<std::uint8_t>(dtype)) : std::nullopt;
  *out = text_of(known ? dtype_name(*known) : std::string_view());
}

std::uint32_t espalier_dtype_bits(std::uint32_t dtype) {
  const auto known =
      dtype < 256 ? dtype_from_number(static_cast<std::uint8_t>(dtype)) : std::nullopt;
  return known ? dtype_bits(*known) : 0;
}

void espalier_kind_name(std::uint32_t kind, Text* out) {
  *out = text_of(kind > 0 && kind <= kLastKind ? kind_name(static_cast<Kind>(kind))
                                               : std::string_view());
}

Opening* espalier_open(std::uint64_t file_size, std::uint32_t index_bytes) {
  OpenOptions options{.file_size = file_size, .allocator = allocator()};
  if (index_bytes != 0) {
    Limits& limits = options.limits;
    limits.index_bytes = std::min<std::uint64_t>(limits.index_bytes, index_bytes);
    limits.foreign_header_bytes = std::min<std::uint64_t>(limits.foreign_header_bytes, index_bytes);
  }
  return new Opening(options);
}

std::uint32_t espalier_open_needs(Opening* opening, Extent* out, std::uint32_t capacity) {
  const auto needs = opening->opener.needs();
  for (std::uint32_t i = 0; i < std::min<std::size_t>(capacity, needs.size()); ++i) {
    out[i] = extent_of(needs[i]);
  }
  return static_cast<std::uint32_t>(needs.size());
}

Status espalier_open_feed(Opening* opening, std::uint64_t offset, const std::byte* bytes,
                          std::uint32_t length) {
  return status_of(opening->opener.feed({0, offset, length}, span_of(bytes, length)));
}

namespace {

// What is counted and measured is a number in JavaScript, and exact up to here.
constexpr std::uint64_t kLargestNumber = (std::uint64_t{1} << 53) - 1;

// kLimitExceeded for a tensor of which shape or size are beyond that: the functions below say them,
// and are to have an answer for whatever was opened. Files have such for placeholders and for axes
// beside one of 0.
Result<void> check_numbers(const Checkpoint& checkpoint) {
  for (std::uint32_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const TensorRef tensor = checkpoint.tensor(i);
    const auto shape = tensor.shape();
    if (tensor.elements() <= kLargestNumber && tensor.bytes() <= kLargestNumber &&
        std::all_of(shape.begin(), shape.end(), [](auto axis) { return axis <= kLargestNumber; })) {
      continue;
    }
    return fail(ErrorCode::kLimitExceeded,
                "the shape or size of a tensor is beyond 2^53 - 1, which JavaScript numbers do not "
                "hold exactly; look at it with the command line",
                Error::kNoOffset, tensor_path(tensor));
  }
  return {};
}

}  // namespace

Tree* espalier_open_finish(Opening* opening) {
  auto checkpoint = opening->opener.finish();
  if (!checkpoint) return set_failure(std::move(checkpoint.error())), nullptr;
  if (auto checked = check_numbers(*checkpoint); !checked) {
    return set_failure(std::move(checked.error())), nullptr;
  }
  return new Tree(std::move(*checkpoint));
}

void espalier_open_free(Opening* opening) { delete opening; }

void espalier_tree_free(Tree* tree) { delete tree; }

void espalier_tree_info(Tree* tree, Info* out) {
  const Catalog& catalog = tree->checkpoint.catalog();
  *out = {.format = static_cast<std::uint32_t>(catalog.format()),
          .has_hashes = catalog.has_hashes() ? 1u : 0u,
          .nodes = static_cast<std::uint32_t>(catalog.tables().nodes.size()),
          .tensors = tree->checkpoint.tensor_count(),
          .file_length = catalog.file_length(),
          .data_begin = catalog.data_begin(),
          .state_root = kStateRoot,
          .metadata_root = kMetadataRoot,
          .digest = {}};
  if (catalog.tree_digest()) std::memcpy(out->digest, &*catalog.tree_digest(), sizeof out->digest);
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
  const Tables& t = tree->tables();
  std::vector<std::uint32_t> nodes;  // from the node up, without the root
  for (std::uint32_t node = number; tree->parent(node) != kNone; node = tree->parent(node)) {
    nodes.push_back(node);
  }
  tree->path.clear();
  while (!nodes.empty()) {
    const NodeRecord& parent = t.nodes[tree->parent(nodes.back())];
    append_path(tree->path, has_keys(node_kind(parent))
                                ? node_key(t, t.nodes[nodes.back()])
                                : KeyView::of(std::int64_t{nodes.back() - parent.value}));
    nodes.pop_back();
  }
  *out = text_of(tree->path);
  return 0;
}

std::uint32_t espalier_find(Tree* tree, std::uint32_t node, const char* path,
                            std::uint32_t length) {
  if (!tree->has_node(node)) return no_such("node", node), kNone;
  auto found = tree->node(node).at(std::string_view(path, length));
  if (found) return found->number();
  set_failure(std::move(found.error()));
  return kNone;
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

Read* espalier_read(Tree* tree, std::uint32_t number, const SliceSpec* slices,
                    std::uint32_t count) {
  if (number >= tree->checkpoint.tensor_count()) return no_such("tensor", number), nullptr;
  std::vector<Slice> wanted(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (slices[i].has_start != 0) wanted[i].start = slices[i].start;
    if (slices[i].has_stop != 0) wanted[i].stop = slices[i].stop;
    wanted[i].step = slices[i].step;
  }
  const TensorRef tensor = tree->checkpoint.tensor(number);
  auto plan = ReadPlan::make(tensor, wanted);
  if (plan) return new Read(*tree, std::move(*plan));
  plan.error().path = tensor_path(tensor);
  set_failure(std::move(plan.error()));
  return nullptr;
}

void espalier_read_info(Read* read, PlanInfo* out) {
  const ReadPlan& plan = read->plan;
  *out = {.bytes = plan.bytes(),
          .shape = plan.shape().data(),
          .rank = static_cast<std::uint32_t>(plan.shape().size()),
          .chunks = static_cast<std::uint32_t>(plan.chunks().size()),
          .is_exclusive = plan.is_concurrent() ? 1u : 0u};
}

Status espalier_read_chunk(Read* read, std::uint32_t i, PlannedChunk* out) {
  if (i >= read->plan.chunks().size()) return no_such("planned chunk", i);
  const espalier::Extent part = read->plan.part_extent(i);
  *out = {.stored = extent_of(read->plan.chunks()[i].stored),
          .result_begin = part.offset,
          .result_bytes = static_cast<std::uint32_t>(part.length),
          .is_direct = read->plan.direct_offset(i) ? 1u : 0u};
  return 0;
}

Status espalier_read_deliver(Read* read, std::uint32_t i, const std::byte* stored,
                             std::uint32_t length, Piece* out) {
  if (i >= read->plan.chunks().size()) return no_such("planned chunk", i);
  auto part =
      read->plan.open_part(i, span_of(stored, length), read->tree.reader, read->tree.scratch);
  if (!part) return set_failure(std::move(part.error()));
  *out = {part->bytes.data(), static_cast<std::uint32_t>(part->bytes.size()), part->begin};
  return 0;
}

void espalier_read_free(Read* read) { delete read; }

Verification* espalier_verify(Tree* tree) { return new Verification(*tree); }

std::uint32_t espalier_verify_regions(Verification* verification) {
  return static_cast<std::uint32_t>(verification->plan.regions().size());
}

Status espalier_verify_region(Verification* verification, std::uint32_t i, Extent* out) {
  if (i >= verification->plan.regions().size()) return no_such("region", i);
  *out = extent_of(verification->plan.regions()[i].extent);
  return 0;
}

Status espalier_verify_feed(Verification* verification, std::uint32_t i, const std::byte* bytes,
                            std::uint32_t length) {
  if (i >= verification->plan.regions().size()) return no_such("region", i);
  auto found =
      verification->plan.check_region(i, span_of(bytes, length), verification->tree.reader);
  if (!found) return set_failure(std::move(found.error()));
  verification->damage.insert(verification->damage.end(), found->begin(), found->end());
  return 0;
}

std::uint32_t espalier_verify_damaged(Verification* verification) {
  return static_cast<std::uint32_t>(verification->damage.size());
}

Status espalier_verify_finish(Verification* verification, Report* out) {
  verification->report = verification->plan.report(std::move(verification->damage));
  const VerifyReport& report = verification->report;
  *out = {.has_hashes = report.has_hashes ? 1u : 0u,
          .listed = static_cast<std::uint32_t>(report.errors.size()),
          .chunks = report.chunks,
          .bytes = report.bytes,
          .errors = report.error_count};
  return 0;
}

Status espalier_verify_error(Verification* verification, std::uint32_t i, Failure* out) {
  if (i >= verification->report.errors.size()) return no_such("error", i);
  *out = failure_of(verification->report.errors[i]);
  return 0;
}

void espalier_verify_free(Verification* verification) { delete verification; }

}  // namespace espalier::abi
