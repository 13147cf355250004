#include "espalier/foreign/safetensors/writer.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/base/merge_sort.h"
#include "espalier/base/utf8.h"
#include "espalier/dtype.h"
#include "espalier/foreign/common/flatten.h"
#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/foreign/safetensors/dtype.h"
#include "espalier/foreign/safetensors/header.h"
#include "espalier/foreign/safetensors/header_text.h"
#include "espalier/foreign/safetensors/kept_header.h"
#include "espalier/foreign/safetensors/tables.h"

namespace espalier {
namespace {

bool holds_tensor(const Value& value) {
  const auto children = value.children();
  return value.kind() == Kind::kTensor || value.kind() == Kind::kPlaceholder ||
         std::any_of(children.begin(), children.end(), holds_tensor);
}

class Planner {
 public:
  // `kept_header` may be null.
  Planner(const Value& state, const Value& metadata, const std::string* kept_header,
          const SafetensorsOptions& options)
      : state_(state), metadata_(metadata), kept_header_(kept_header), options_(options) {}

  Result<SafetensorsPlan> run() {
    for (const auto step : {&Planner::take_tensors, &Planner::take_metadata, &Planner::settle,
                            &Planner::place, &Planner::carry, &Planner::write_header}) {
      if (auto ok = (this->*step)(); !ok) return propagate(ok);
    }
    return std::move(plan_);
  }

 private:
  // A tensor to be written. `original` is the state's tensor.
  struct Pending {
    SafetensorsTensor stored;
    std::uint64_t bytes = 0;
    const Tensor* original = nullptr;
    std::string path;
    bool as_bytes = false;
  };

  bool carrying() const { return options_.unrepresentable == Unrepresentable::kMetadata; }

  Result<void> take_tensors() {
    auto flat = flatten(state_, kMaxSafetensorsHeaderBytes, options_.limits);
    if (!flat) return propagate(flat);
    losses_ = std::move(flat->losses);
    pending_.reserve(flat->tensors.size());
    for (FlatTensor& tensor : flat->tensors) {
      if (carrying() && !stored_.emplace(tensor.tensor.get(), pending_.size()).second) {
        continue;  // Tied to a tensor that is already there.
      }
      if (auto ok = take_tensor(tensor); !ok) return ok;
    }
    return {};
  }

  Result<void> take_tensor(FlatTensor& flat) {
    const Tensor& tensor = *flat.tensor;
    if (flat.name == kSafetensorsMetadataName) {
      return fail(ErrorCode::kNameCollision,
                  "the name __metadata__ is reserved in safetensors files; rename the tensor",
                  Error::kNoOffset, flat.path);
    }
    auto bytes = tensor_bytes(tensor.dtype, tensor.shape, tensor.block());
    if (!bytes) {
      return fail(ErrorCode::kInvalidTree, std::move(bytes.error().message), Error::kNoOffset,
                  flat.path);
    }
    if (const auto memory = tensor.data.memory(); memory && memory->size() != *bytes) {
      return fail(ErrorCode::kInvalidTree,
                  "the tensor's data has " + counted(memory->size(), "byte") +
                      " and its shape needs " + std::to_string(*bytes),
                  Error::kNoOffset, flat.path);
    }
    if (!tensor.axis_names.empty()) losses_.add(flat.path, "axis names");
    const bool has_dtype = safetensors_dtype_rank(tensor.dtype) != 0;
    const bool fits = has_dtype && safetensors_tensor_bytes(tensor.dtype, tensor.shape);
    if (!fits) {
      losses_.add(flat.path, has_dtype ? "a shape whose product overflows"
                                       : "dtype " + std::string(dtype_name(tensor.dtype)));
      if (!carrying()) return {};
    }
    Pending pending;
    pending.stored = {.name = std::move(flat.name),
                      .dtype = fits ? tensor.dtype : DType::kU8,
                      .shape = fits ? tensor.shape : std::vector<std::uint64_t>{*bytes},
                      .data = tensor.data,
                      .extent = {}};
    pending.bytes = *bytes;
    pending.original = &tensor;
    pending.path = std::move(flat.path);
    pending.as_bytes = !fits;
    pending_.push_back(std::move(pending));
    return {};
  }

  Result<void> take_metadata() {
    if (metadata_.kind() == Kind::kNull && !metadata_.defect()) return {};
    if (metadata_.kind() != Kind::kDict) {
      return fail(ErrorCode::kInvalidTree, "the metadata must be a dict");
    }
    // Only for the checks of UTF-8 keys and depth.
    if (auto checked = flatten(metadata_, kMaxSafetensorsHeaderBytes, options_.limits); !checked)
      return propagate(checked);
    if (holds_tensor(metadata_)) {
      return fail(ErrorCode::kInvalidTree, "the metadata must not hold tensors");
    }
    const std::uint64_t losses_before = losses_.count();
    const bool is_marker = metadata_.label() == kEmptyMetadataLabel;
    if (metadata_.has_label() && !is_marker) losses_.add("(metadata)", "a label");
    const DigitMarks marks(metadata_.keys());
    for (std::size_t i = 0; i < metadata_.children().size(); ++i) {
      const KeyView key = metadata_.keys()[i].view();
      const Value& value = metadata_.children()[i];
      std::string path = "(metadata)";
      append_path(path, key, marks.of(key));
      if (key.is_int || value.kind() != Kind::kString || value.has_label()) {
        losses_.add(path, key.is_int          ? "an int key"
                          : value.has_label() ? "a label"
                                              : std::string(kind_name(value.kind())));
        continue;
      }
      if (find_invalid_utf8(*value.as_string())) {
        return fail(ErrorCode::kInvalidTree, "a string is not UTF-8", Error::kNoOffset, path);
      }
      pairs_.push_back({key.text, *value.as_string()});
    }
    has_empty_metadata_ = is_marker && metadata_.children().empty();
    // The file has no place for labels, not even for the label of an empty __metadata__.
    carries_metadata_ = losses_.count() != losses_before || metadata_.has_label();
    std::vector<std::string_view> keys;
    for (const auto& pair : pairs_) keys.push_back(pair.first);
    std::sort(keys.begin(), keys.end());
    if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end()) {
      std::string path = "(metadata)";
      append_path(path, KeyView::of(*twice));
      return fail(ErrorCode::kInvalidTree, "the metadata has the same key twice", Error::kNoOffset,
                  std::move(path));
    }
    return {};
  }

  // Decides what happens to the losses.
  Result<void> settle() {
    if (losses_.empty() || carrying()) return {};
    if (options_.unrepresentable == Unrepresentable::kDrop) {
      plan_.dropped = losses_;
      return {};
    }
    return fail(ErrorCode::kUnrepresentable,
                std::string("safetensors cannot hold ")
                    .append(losses_.to_string())
                    .append(kUnrepresentableHint),
                Error::kNoOffset, losses_.first().front().path);
  }

  Result<void> place() {
    kept_ = fit_kept();
    order_.resize(pending_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    if (kept_) {
      merge_sort_runs(order_, [this](std::size_t a, std::size_t b) {
        return std::tie(kept_->begins[a], pending_[a].bytes) <
               std::tie(kept_->begins[b], pending_[b].bytes);
      });
    } else {
      merge_sort_runs(order_, [this](std::size_t a, std::size_t b) {
        const SafetensorsTensor& left = pending_[a].stored;
        const SafetensorsTensor& right = pending_[b].stored;
        const auto left_rank = safetensors_dtype_rank(left.dtype);
        const auto right_rank = safetensors_dtype_rank(right.dtype);
        if (left_rank != right_rank) return left_rank > right_rank;
        return left.name < right.name;
      });
    }
    std::uint64_t end = 0;
    for (const std::size_t i : order_) {
      // Relative to the start of the buffer until the header's length is known.
      pending_[i].stored.extent = {0, end, pending_[i].bytes};
      const auto next = checked_add(end, pending_[i].bytes);
      if (!next || *next >= std::uint64_t{1} << 63) {
        return fail(ErrorCode::kInvalidTree, "the tensors have more than 2^63 bytes together",
                    Error::kNoOffset, pending_[i].path);
      }
      end = *next;
    }
    plan_.file_length = end;
    return {};
  }

  // Where the kept header puts the tensors, if it is theirs.
  std::optional<KeptLayout> fit_kept() const {
    if (kept_header_ == nullptr) return std::nullopt;
    std::vector<NamedTensor> tensors;
    tensors.reserve(pending_.size());
    for (const Pending& pending : pending_) {
      const SafetensorsTensor& stored = pending.stored;
      tensors.push_back({stored.name, stored.dtype, stored.shape, pending.bytes});
    }
    return fit_kept_header(*kept_header_, tensors, pairs_, !pairs_.empty() || has_empty_metadata_,
                           options_.limits);
  }

  // Goes on as if no header had been kept.
  Result<void> forget_kept() {
    kept_header_ = nullptr;
    if (auto ok = place(); !ok) return ok;
    return carry();
  }

  // Whether reading the file gives exactly this dict.
  bool reads_back() const {
    const auto children = state_.children();
    const auto nests = [](const Value& child) { return is_container(child.kind()); };
    if (!losses_.empty() || std::any_of(children.begin(), children.end(), nests)) return false;
    const auto place = [](const Pending& p) {
      return std::tuple(p.stored.extent.offset, p.stored.extent.length,
                        std::string_view(p.stored.name));
    };
    return std::is_sorted(pending_.begin(), pending_.end(),
                          [&](const Pending& a, const Pending& b) { return place(a) < place(b); });
  }

  Result<void> carry() {
    const bool carries = carrying() && !reads_back();
    if (kept_ && kept_->carried_tree.has_value() != carries) return forget_kept();
    if (!carries) return {};
    if (std::any_of(pairs_.begin(), pairs_.end(),
                    [](const auto& p) { return p.first == kCarriedTreeKey; })) {
      return fail(ErrorCode::kNameCollision,
                  std::string("the metadata has an ") + kCarriedTreeKey +
                      " already; restore the tree that it carries, or remove it",
                  Error::kNoOffset, std::string("(metadata)/") + kCarriedTreeKey);
    }
    auto tree = carry_tree(state_, carries_metadata_ ? &metadata_ : nullptr,
                           [this](const Tensor& tensor) -> CarriedTensor {
                             const Pending& pending = pending_[stored_.find(&tensor)->second];
                             return {pending.stored.name, pending.as_bytes};
                           });
    if (!tree) return propagate(tree);
    if (kept_ && *kept_->carried_tree != *tree) return forget_kept();
    carried_ = std::move(*tree);
    plan_.carries_tree = true;
    pairs_.push_back({kCarriedTreeKey, carried_});
    return {};
  }

  // The JSON of the reference library.
  std::string header_text() const {
    HeaderText header;
    std::string text;
    if (!pairs_.empty() || has_empty_metadata_) {
      header.begin_metadata(text);
      for (const auto& [key, value] : pairs_) header.add_pair(text, key, value);
      header.end_metadata(text);
    }
    for (const std::size_t i : order_) {
      const SafetensorsTensor& tensor = pending_[i].stored;
      header.add_tensor(text, tensor.name, tensor.dtype, tensor.shape, tensor.extent.offset,
                        tensor.extent.offset + tensor.extent.length);
    }
    header.end(text, text.size());
    return text;
  }

  Result<void> write_header() {
    const std::string json = kept_ ? *kept_header_ : header_text();
    const std::uint64_t length = json.size();
    if (length > kMaxSafetensorsHeaderBytes) {
      return fail(ErrorCode::kUnrepresentable, "the safetensors header would have " +
                                                   counted(length, "byte") +
                                                   " and the specification allows " +
                                                   std::to_string(kMaxSafetensorsHeaderBytes) +
                                                   "; split the state into several files");
    }
    plan_.header.resize(kSafetensorsLengthBytes + json.size());
    store_le(plan_.header.data(), length);
    std::copy_n(as_bytes(json).begin(), json.size(),
                plan_.header.begin() + kSafetensorsLengthBytes);

    plan_.file_length += plan_.header.size();
    plan_.tensors.reserve(order_.size());
    for (const std::size_t i : order_) {
      pending_[i].stored.extent.offset += plan_.header.size();
      plan_.tensors.push_back(std::move(pending_[i].stored));
    }
    return {};
  }

  const Value& state_;
  const Value& metadata_;
  const std::string* kept_header_;
  const SafetensorsOptions& options_;
  SafetensorsPlan plan_;
  Losses losses_;
  // In tree order.
  std::vector<Pending> pending_;
  // Index in `pending_` of each tensor of the state; filled for kMetadata only.
  std::unordered_map<const Tensor*, std::size_t> stored_;
  // Indices of `pending_` in file order.
  std::vector<std::size_t> order_;
  // Set if the file gets the kept header.
  std::optional<KeptLayout> kept_;
  std::vector<std::pair<std::string_view, std::string_view>> pairs_;
  std::string carried_;
  bool has_empty_metadata_ = false;
  bool carries_metadata_ = false;
};

}  // namespace

Result<SafetensorsPlan> plan_safetensors(const Value& state, const Value& metadata,
                                         const SafetensorsOptions& options) {
  const std::string* const kept = find_kept_header(metadata);
  if (kept == nullptr) return Planner(state, metadata, nullptr, options).run();
  Value plain = metadata;
  forget_header(plain);
  return Planner(state, plain, kept, options).run();
}

}  // namespace espalier
