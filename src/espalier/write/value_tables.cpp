#include "espalier/write/value_tables.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/format/table_builder.h"
#include "espalier/format/tree_walk.h"

namespace espalier {
namespace {

class ValueWalk {
 public:
  explicit ValueWalk(const Limits& limits) : limits_(limits), builder_(limits) {}

  Result<ValueTables> run(const Value& state, const Value& metadata,
                          std::span<const ReferredFile> files) {
    if (metadata.kind() != Kind::kDict) {
      return fail(ErrorCode::kInvalidTree, "the metadata must be a dict");
    }
    reserve(state, metadata);
    TreeWalk<ValueWalk> walk(*this, builder_, limits_);
    const bool is_whole = walk.run(&state, &metadata);
    const auto chunks = static_cast<std::size_t>(builder_.chunk_count());
    for (const ReferredFile& file : files) {
      builder_.file(file.name, {.length = file.length,
                                .head_hash = file.head_hash,
                                .tree_digest = file.tree_digest,
                                .head = file.head});
    }
    auto tables = builder_.finish();
    if (!tables) {
      if (!is_whole) tables.error().path = walk.current_path();
      return propagate(tables);
    }
    return ValueTables{std::move(*tables), chunks, std::move(tensors_)};
  }

 private:
  friend class TreeWalk<ValueWalk>;

  void reserve(const Value& state, const Value& metadata) {
    std::size_t nodes = 2;
    std::vector<const Tensor*> tensors;
    if (state.kind() == Kind::kTensor) tensors.push_back(state.as_tensor().get());
    std::vector<std::span<const Value>> rest = {state.children(), metadata.children()};
    while (!rest.empty()) {
      const auto values = rest.back();
      rest.pop_back();
      nodes += values.size();
      for (const Value& value : values) {
        if (value.kind() == Kind::kTensor) {
          tensors.push_back(value.as_tensor().get());
        } else if (espalier::is_container(value.kind())) {
          rest.push_back(value.children());
        }
      }
    }
    builder_.reserve(nodes, tensors.size());
    tensors_.reserve(tensors.size());
    // Holds only tied tensors: a map of all would take as much memory as the index.
    std::sort(tensors.begin(), tensors.end(), std::less<>());
    for (std::size_t i = 1; i < tensors.size(); ++i) {
      if (tensors[i] == tensors[i - 1]) tied_.emplace(tensors[i], kNoNumber);
    }
  }

  // For TreeWalk.
  using Node = const Value*;
  class Children {
   public:
    explicit Children(const Value& parent) : parent_(&parent) {}
    std::size_t size() const { return parent_->children().size(); }
    bool has_keys() const { return !parent_->keys().empty(); }
    KeyView key(std::size_t i) const { return parent_->keys()[i].view(); }
    Node node(std::size_t i) const { return &parent_->children()[i]; }

   private:
    Node parent_;
  };
  static bool is_container(Node value) { return espalier::is_container(value->kind()); }
  static Children children(Node value) { return Children(*value); }
  bool add(TableBuilder&, Node value, bool in_metadata) {
    in_metadata_ = in_metadata;
    return add_value(*value);
  }

  bool add_value(const Value& value) {
    if (const auto defect = value.defect()) {
      builder_.refuse(*defect);
      return false;
    }
    if (value.has_label()) builder_.label(value.label());
    switch (value.kind()) {
      case Kind::kNull:
        builder_.null();
        break;
      case Kind::kBool:
        builder_.boolean(value.as_bool().value_or(false));
        break;
      case Kind::kInt64:
        builder_.integer(value.as_int64().value_or(0));
        break;
      case Kind::kFloat64:
        builder_.real(value.as_double().value_or(0));
        break;
      case Kind::kComplex128:
        builder_.complex(value.as_complex().value_or(Complex()));
        break;
      case Kind::kString:
        builder_.string(*value.as_string());
        break;
      case Kind::kBytes:
        builder_.bytes(*value.as_bytes());
        break;
      case Kind::kBigInt:
        builder_.bigint(value.as_bigint()->bytes());
        break;
      case Kind::kDict:
      case Kind::kList:
      case Kind::kTuple:
      case Kind::kSet:
      case Kind::kRecord:
        builder_.container(value.kind());
        break;
      case Kind::kTensor:
      case Kind::kPlaceholder:
        add_tensor(value.as_tensor());
        break;
    }
    return builder_.ok();
  }

  void add_tensor(std::shared_ptr<const Tensor> tensor) {
    if (in_metadata_) {
      return builder_.refuse("the metadata holds a tensor; put it into the state");
    }
    // Each placeholder is separate; a tensor object with several nodes is stored once.
    if (const auto tied = tied_.find(tensor.get()); tied != tied_.end()) {
      if (tied->second != kNoNumber) return builder_.known_tensor(tied->second);
      tied->second = builder_.tensor_count();
    }
    const TensorType type{tensor->dtype, tensor->shape, tensor->block(), tensor->axis_names};
    if (tensor->data.is_placeholder()) {
      builder_.placeholder(type);
    } else {
      builder_.tensor(type);
    }
    const auto memory = tensor->data.memory();
    if (memory && memory->size() != builder_.tensor_bytes()) {
      builder_.refuse("a tensor's dtype and shape take " +
                      counted(builder_.tensor_bytes(), "byte") + ", but its data have " +
                      std::to_string(memory->size()));
    }
    tensors_.push_back(std::move(tensor));
  }

  static constexpr std::uint32_t kNoNumber = ~std::uint32_t{0};

  const Limits& limits_;
  TableBuilder builder_;
  std::vector<std::shared_ptr<const Tensor>> tensors_;  // by number
  bool in_metadata_ = false;
  std::unordered_map<const Tensor*, std::uint32_t> tied_;  // their numbers, once assigned
};

}  // namespace

Result<ValueTables> make_tables(const Value& state, const Value& metadata,
                                std::span<const ReferredFile> files, const Limits& limits) {
  return ValueWalk(limits).run(state, metadata, files);
}

}  // namespace espalier
