#include "espalier/format/table_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/base/merge_sort.h"
#include "espalier/base/utf8.h"
#include "espalier/dtype.h"
#include "espalier/format/access.h"
#include "espalier/format/find_path.h"
#include "espalier/format/header.h"
#include "espalier/format/owned_tables.h"

namespace espalier {
namespace {

// No index is larger, nor is what it holds.
constexpr std::uint64_t kMaxPoolBytes = kMaxIndexBytes;

// The keys of one container differ, so those of a container of more children than this are not
// searched for among all others: that would find little and take long.
constexpr std::size_t kManyChildren = 4096;

// Positions of children in the order of their keys, equal keys in the order of their positions.
std::vector<std::uint32_t> sorted_positions(const Tables& t, std::span<const NodeRecord> children) {
  std::vector<std::uint32_t> sorted;
  sorted.reserve(children.size());
  const auto has_text = [](const NodeRecord& child) {
    return child.key_kind == static_cast<std::uint8_t>(KeyKind::kText);
  };
  if (children.size() > kManyChildren && t.text_ends.size() / 4 < children.size() &&
      std::all_of(children.begin(), children.end(), has_text)) {
    // The pool of texts is sorted: its order is that of the keys.
    std::vector<std::uint32_t> key_counts(t.text_ends.size() + 1);
    for (const NodeRecord& child : children) ++key_counts[child.key + 1];
    std::partial_sum(key_counts.begin(), key_counts.end(), key_counts.begin());
    sorted.resize(children.size());
    for (std::uint32_t i = 0; i < children.size(); ++i) sorted[key_counts[children[i].key]++] = i;
    return sorted;
  }
  for (std::uint32_t i = 0; i < children.size(); ++i) sorted.push_back(i);
  merge_sort_runs(sorted, [&](std::uint32_t a, std::uint32_t b) {
    return key_less(t, children[a], children[b]);
  });
  return sorted;
}

}  // namespace

void TableBuilder::reserve(std::size_t nodes, std::size_t tensors) {
  t_.nodes.reserve(nodes);
  t_.tensors.reserve(tensors);
}

void TableBuilder::refuse(std::string_view message, ErrorCode code) {
  if (!error_) error_ = Error{code, Error::kNoOffset, {}, message};
}

bool TableBuilder::open(std::uint32_t parent, std::size_t count) {
  // A node that failed was not added, so `parent` may not be there.
  if (!ok()) return false;
  const std::size_t first = t_.nodes.size();
  if (count > limits_.nodes - std::min<std::uint64_t>(limits_.nodes, first)) {
    refuse("the tree has more nodes than the " + std::to_string(limits_.nodes) +
           " that readers accept (Limits::nodes)");
    return false;
  }
  t_.nodes[parent].value = static_cast<std::uint32_t>(first);
  t_.nodes[parent].count = static_cast<std::uint32_t>(count);
  parent_kind_ = node_kind(t_.nodes[parent]);
  is_parent_large_ = count > kManyChildren;
  if (is_parent_large_) texts_.reserve_more(count);
  return true;
}

bool TableBuilder::key(const KeyView& key) {
  if (key.is_int) {
    if (parent_kind_ == Kind::kRecord) {
      refuse("a record has the int key " + std::to_string(key.integer) +
             "; fields of records are named, so use a dict");
    }
    next_.key_kind = static_cast<std::uint8_t>(KeyKind::kInt);
    next_.key = add_word(key.integer);
  } else if (check_text(key.text, "a key")) {
    next_.key_kind = static_cast<std::uint8_t>(KeyKind::kText);
    next_.key = is_parent_large_ ? texts_.add_new(key.text) : texts_.add(key.text);
  }
  return ok();
}

void TableBuilder::label(std::string_view text) {
  t_.labels.push_back({node_count(), add_text(text, "a label")});
}

void TableBuilder::string(std::string_view text) { add(Kind::kString, add_text(text, "a string")); }

void TableBuilder::bigint(ByteSpan bytes) {
  if (bytes.size() > limits_.bigint_bytes) {
    return refuse("an integer takes more than the " + counted(limits_.bigint_bytes, "byte") +
                  " that readers accept (Limits::bigint_bytes)");
  }
  add_bytes(Kind::kBigInt, bytes);
}

void TableBuilder::complex(Complex value) {
  const std::uint32_t real = add_word(value.real());
  add_word(value.imag());
  add(Kind::kComplex128, real);
}

void TableBuilder::keep_tensors(const Tables& t) {
  t_.axes.assign(t.axes.begin(), t.axes.end());
  for (const std::uint32_t name : t.axis_names)
    t_.axis_names.push_back(texts_.add(table_text(t, name)));
  for (const BlockRecord& block : t.blocks) {
    const std::string_view name = table_text(t, block.name);
    blocks_.try_emplace({name, block.elements, block.bytes},
                        Block{static_cast<std::uint16_t>(blocks_.size() + 1), texts_.add(name)});
  }
}

void TableBuilder::place(std::uint16_t file, std::uint64_t offset) {
  if (!ok() || !has_room(espalier::chunk_count(tensor_bytes_))) return;
  if (t_.chunks.empty()) t_.chunks.reserve(t_.tensors.capacity());
  for (std::uint64_t i = 0; i < espalier::chunk_count(tensor_bytes_); ++i) {
    t_.chunks.push_back({.offset = offset + i * kChunkBytes,
                         .hash = {},
                         .stored = static_cast<std::uint32_t>(chunk_length(tensor_bytes_, i)),
                         .file = file});
  }
}

void TableBuilder::place_chunk(const ChunkRecord& chunk) {
  if (ok() && has_room(1)) t_.chunks.push_back(chunk);
}

// A small file can name one huge storage, a hole on the disk, a million times.
bool TableBuilder::has_room(std::uint64_t chunks) {
  if (chunks <= limits_.index_bytes / sizeof(ChunkRecord) - t_.chunks.size()) return true;
  refuse("the file has more chunks than fit in Limits::index_bytes", ErrorCode::kLimitExceeded);
  return false;
}

void TableBuilder::add(Kind kind, std::uint32_t value, std::uint32_t count) {
  next_.kind = static_cast<std::uint8_t>(kind);
  next_.value = value;
  next_.count = count;
  t_.nodes.push_back(next_);
  next_ = {};
}

void TableBuilder::add_bytes(Kind kind, ByteSpan bytes) {
  if (bytes.size() > kMaxPoolBytes - t_.bytes.size()) {
    return refuse("values of kind bytes take more than 2 GiB together; store them as u8 tensors");
  }
  add(kind, static_cast<std::uint32_t>(t_.bytes.size()), static_cast<std::uint32_t>(bytes.size()));
  t_.bytes.insert(t_.bytes.end(), bytes.begin(), bytes.end());
}

void TableBuilder::add_tensor(const TensorType& type, Kind kind) {
  if (!dtype_from_number(static_cast<std::uint8_t>(type.dtype))) {
    return refuse("a tensor has no valid dtype");
  }
  const std::uint32_t max_rank = std::min(limits_.rank, kMaxRank);
  if (type.shape.size() > max_rank) {
    return refuse("a tensor has " + counted(type.shape.size(), "axis") + " and readers accept " +
                  std::to_string(max_rank) + " (Limits::rank)");
  }
  TensorRecord record;
  record.dtype = static_cast<std::uint8_t>(type.dtype);
  const bool has_block =
      !type.block.name.empty() || type.block.elements != 0 || type.block.bytes != 0;
  if (has_block || type.dtype == DType::kOpaque) record.block = add_block(type);
  auto bytes = usual_tensor_bytes(type.dtype, type.shape);
  if (!bytes) {
    auto unusual = espalier::tensor_bytes(type.dtype, type.shape, type.block);
    if (!unusual) return refuse(std::move(unusual.error().message));
    bytes = *unusual;
  }
  if (type.shape.size() > ~std::uint32_t{0} - shapes_.axes()) {
    return refuse("the tensors have more than 2^32 axes together");
  }
  record.shape = shapes_.intern(type.shape);
  if (!type.axis_names.empty()) add_axis_names(type);
  if (kind == Kind::kPlaceholder) {
    record.first_chunk = kNoChunk;
  } else {
    record.first_chunk = static_cast<std::uint32_t>(chunk_count_);
    if (!count_chunks(*bytes)) return;
  }
  tensor_bytes_ = *bytes;
  add(kind, tensor_count());
  t_.tensors.push_back(record);
}

bool TableBuilder::count_chunks(std::uint64_t bytes) {
  const std::uint64_t chunks = espalier::chunk_count(bytes);
  // Before the records take any memory.
  if (chunks > kMaxIndexBytes / sizeof(ChunkRecord) - chunk_count_) {
    refuse("the tensors take more than the 64 TiB that an index has chunk records for");
    return false;
  }
  chunk_count_ += chunks;
  return true;
}

void TableBuilder::storage(const StorageRecord& form, std::span<const std::uint64_t> strides) {
  if (!ok()) return;
  StorageRecord record = form;
  record.tensor = tensor_count() - 1;
  record.first_stride = 0;
  if ((form.flags & kStorageStrided) != 0) {
    const TensorRecord& tensor = t_.tensors.back();
    const auto bytes = usual_tensor_bytes(static_cast<DType>(tensor.dtype), form.elements);
    if (!bytes) return refuse("a storage has more than 2^63 bytes, or elements of no whole bytes");
    chunk_count_ = tensor.first_chunk;
    if (!count_chunks(*bytes)) return;
    tensor_bytes_ = *bytes;
    record.first_stride = static_cast<std::uint32_t>(t_.strides.size());
    t_.strides.insert(t_.strides.end(), strides.begin(), strides.end());
  }
  t_.storages.push_back(record);
}

std::uint16_t TableBuilder::add_block(const TensorType& type) {
  const BlockType& block = type.block;
  if (type.dtype != DType::kOpaque) {
    refuse("only a tensor of dtype opaque has a block type");
  } else if (block.elements == 0 || block.bytes == 0) {
    refuse("the block type of an opaque tensor needs elements and bytes above 0");
  }
  const Block made{static_cast<std::uint16_t>(blocks_.size() + 1),
                   add_text(block.name, "the name of a block type")};
  const auto at = blocks_.try_emplace({block.name, block.elements, block.bytes}, made).first;
  if (blocks_.size() > 0xFFFF) refuse("there are more than 65535 block types");
  return at->second.number;
}

void TableBuilder::add_axis_names(const TensorType& type) {
  if (type.axis_names.size() != type.shape.size()) {
    return refuse("a tensor of " + counted(type.shape.size(), "axis") + " has " +
                  counted(type.axis_names.size(), "axis name"));
  }
  t_.axes.push_back({tensor_count(), static_cast<std::uint32_t>(t_.axis_names.size())});
  for (const std::string& name : type.axis_names) {
    t_.axis_names.push_back(add_text(name, "the name of an axis"));
  }
}

bool TableBuilder::check_text(std::string_view text, const char* what) {
  if (are_texts_valid_) return true;
  if (text.size() > kMaxPoolBytes) {
    refuse(std::string(what) + " takes more than 2 GiB; store such data as a u8 tensor");
    return false;
  }
  if (const auto invalid = find_invalid_utf8(text)) {
    refuse(std::string(what) + " is not UTF-8 at its byte " + std::to_string(*invalid) +
           "; store such data as bytes");
    return false;
  }
  return true;
}

std::uint32_t TableBuilder::add_text(std::string_view text, const char* what) {
  return check_text(text, what) ? texts_.add(text) : 0;
}

void TableBuilder::file(std::string_view name, FileRecord file) {
  file.name = add_text(name, "the name of a file");
  t_.files.push_back(file);
}

Result<OwnedTables> TableBuilder::finish() {
  if (error_) return tl::unexpected<Error>(std::move(*error_));
  finish_pools();
  for (std::uint32_t node = 0; node < t_.nodes.size(); ++node) {
    if (!has_keys(node_kind(t_.nodes[node])) || t_.nodes[node].count < 2) continue;
    if (auto ok = add_order(node); !ok) return propagate(ok);
  }
  return std::move(t_);
}

// All that refers to a pool gets its final number.
void TableBuilder::finish_pools() {
  texts_.finish(t_);
  const auto renumber = [&](std::uint32_t& text) { text = texts_.final_number(text); };
  for (NodeRecord& node : t_.nodes) {
    if (node.key_kind == static_cast<std::uint8_t>(KeyKind::kText)) renumber(node.key);
    if (node_kind(node) == Kind::kString) renumber(node.value);
  }
  for (LabelRecord& label : t_.labels) renumber(label.text);
  for (std::uint32_t& name : t_.axis_names) renumber(name);
  for (FileRecord& file : t_.files) renumber(file.name);

  auto shapes = shapes_.canonical();
  t_.shape_ends = std::move(shapes.ends);
  t_.dims = std::move(shapes.dims);
  std::vector<std::uint16_t> final_blocks(blocks_.size() + 1);
  for (const auto& [block, provisional] : blocks_) {
    const auto& [name, elements, bytes] = block;
    t_.blocks.push_back({texts_.final_number(provisional.name), elements, bytes});
    final_blocks[provisional.number] = static_cast<std::uint16_t>(t_.blocks.size());
  }
  for (TensorRecord& tensor : t_.tensors) {
    tensor.shape = shapes.numbers[tensor.shape];
    tensor.block = final_blocks[tensor.block];
  }
  texts_ = {};
}

// For a container of two children or more: finds equal keys, and records the order of the keys of a
// large dict.
Result<void> TableBuilder::add_order(std::uint32_t node) {
  const NodeRecord& parent = t_.nodes[node];
  const Tables tables = t_.view();
  const auto children = tables.nodes.subspan(parent.value, parent.count);
  std::uint32_t ascending = 1;
  while (ascending < parent.count &&
         key_less(tables, children[ascending - 1], children[ascending])) {
    ++ascending;
  }
  if (ascending == parent.count) return {};
  const auto sorted = sorted_positions(tables, children);
  for (std::uint32_t i = 1; i < parent.count; ++i) {
    if (key_less(tables, children[sorted[i - 1]], children[sorted[i]])) continue;
    repeated_key_ = parent.value + sorted[i];
    return fail(ErrorCode::kInvalidTree, "a container has the same key twice", Error::kNoOffset,
                find_path(tables, *repeated_key_));
  }
  if (parent.count > kSmallDict) {
    t_.dict_orders.push_back({node, static_cast<std::uint32_t>(t_.order.size())});
    t_.order.insert(t_.order.end(), sorted.begin(), sorted.end());
  }
  return {};
}

}  // namespace espalier
