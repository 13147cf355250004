#include "espalier/foreign/onnx/tables.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/utf8.h"
#include "espalier/bigint.h"
#include "espalier/dtype.h"
#include "espalier/foreign/common/reader_error.h"
#include "espalier/foreign/onnx/element_maker.h"
#include "espalier/format/table_builder.h"
#include "espalier/format/tree_walk.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

class OnnxSource {
 public:
  OnnxSource(OnnxModel& model, FileSet& files, const Limits& limits)
      : model_(model), files_(files), builder_(limits), walk_(*this, builder_, limits) {}

  Result<OwnedTables> run() {
    std::size_t nodes = 2;
    for (const OnnxContainer& container : model_.containers) nodes += container.entries.size();
    builder_.reserve(nodes, model_.tensors.size());
    const OnnxEntry state{.type = OnnxEntry::Type::kContainer, .value = kOnnxState};
    const OnnxEntry metadata{.type = OnnxEntry::Type::kContainer, .value = kOnnxMetadata};
    const bool is_whole = walk_.run(&state, &metadata);
    auto tables = builder_.finish();
    if (tables) {
      if (damage_) files_.push_back({.problem = std::move(damage_)});
      return tables;
    }
    Error& error = tables.error();
    if (!is_whole) {
      error.path = walk_.current_path();
      if (begin_) error.offset = *begin_;
    }
    make_reader_error(error);
    if (builder_.repeated_key()) {
      error.message = "the model has two values with this name, and programs take either of them";
    }
    return propagate(tables);
  }

 private:
  friend class TreeWalk<OnnxSource>;

  using Place = OnnxTensor::Place;
  using Node = const OnnxEntry*;
  class Children {
   public:
    Children(const OnnxModel& model, const OnnxContainer& container)
        : model_(model), container_(container) {}
    std::size_t size() const { return container_.entries.size(); }
    bool has_keys() const { return espalier::has_keys(container_.kind); }
    Node node(std::size_t i) const { return &container_.entries[i]; }
    KeyView key(std::size_t i) const { return KeyView::of(model_.text(container_.entries[i].key)); }

   private:
    const OnnxModel& model_;
    const OnnxContainer& container_;
  };

  bool is_container(Node node) const { return node->type == OnnxEntry::Type::kContainer; }
  Children children(Node node) const { return {model_, container(node)}; }
  const OnnxContainer& container(Node node) const {
    return model_.containers[static_cast<std::size_t>(node->value)];
  }

  bool add(TableBuilder&, Node node, bool) {
    switch (node->type) {
      case OnnxEntry::Type::kContainer:
        if (!container(node).label.empty()) builder_.label(container(node).label);
        builder_.container(container(node).kind);
        break;
      case OnnxEntry::Type::kInteger:
        builder_.integer(static_cast<std::int64_t>(node->value));
        break;
      case OnnxEntry::Type::kText:
        if (const std::string_view text = model_.text(node->text); find_invalid_utf8(text)) {
          builder_.bytes(as_bytes(text));
        } else {
          builder_.string(text);
        }
        break;
      case OnnxEntry::Type::kTensor: {
        const OnnxTensor& tensor = model_.tensors[static_cast<std::size_t>(node->value)];
        begin_ = tensor.begin;
        add_tensor(tensor);
        if (builder_.ok()) begin_.reset();
        break;
      }
    }
    return builder_.ok();
  }

  void refuse(std::string_view message) { builder_.refuse(message, ErrorCode::kForeignInvalid); }

  void add_note(std::string message, Note::Kind kind) {
    model_.notes.add({kind, model_.notes.is_listing() ? walk_.current_path() : std::string(),
                      std::move(message)});
  }

  void add_tensor(const OnnxTensor& tensor) {
    const OnnxType type = onnx_type(tensor.type);
    const auto shape = model_.shape(tensor);
    const auto elements = shape_elements(shape);
    const std::uint32_t bits = dtype_bits(type.dtype);
    const auto all_bits = elements ? checked_mul(*elements, bits) : std::nullopt;
    if (!all_bits || *all_bits > kMaxTensorBytes)
      return refuse("the tensor has 2^60 bytes or more");
    const std::uint64_t bytes = *all_bits / 8 + (*all_bits % 8 != 0 ? 1 : 0);
    const bool is_whole = *all_bits % 8 == 0;
    // What does not fill whole bytes has none of our dtypes.
    std::vector<std::uint64_t> axes;
    TensorType ours{type.dtype, shape};
    if (!is_whole) {
      axes.assign(shape.begin(), shape.end());
      if (axes.empty()) axes.push_back(1);
      ours = {DType::kOpaque, axes, {type.name, 1, 1}};
      add_note("its " + counted(*elements, "element") + " of " + counted(bits, "bit") +
                   " do not fill whole bytes, so each has the low bits of a byte of its own",
               Note::Kind::kWarning);
    }
    OnnxElements made{.from = tensor.data,
                      .field = tensor.field,
                      .numbers = tensor.numbers,
                      .count = bytes,
                      .dtype = type.dtype,
                      .to_bits = is_whole ? 8 : bits};
    switch (tensor.place) {
      case Place::kNowhere:
        if (*elements > 0) {
          add_note("the model has no numbers of this tensor", Note::Kind::kLoss);
          return builder_.placeholder(ours);
        }
        break;
      case Place::kRaw:
        if (!check_length(tensor, bytes)) return;
        break;
      case Place::kExternal:
        if (!check_length(tensor, bytes)) return;
        made.from.length = bytes;
        if (!is_there(made.from)) return builder_.placeholder(ours);
        break;
      case Place::kFields: {
        if (tensor.is_packed &&
            (tensor.numbers == OnnxNumbers::kFloats || tensor.numbers == OnnxNumbers::kDoubles)) {
          if (tensor.packed.length != bytes) return refuse_length(tensor.packed.length, bytes);
          made.from = tensor.packed;
          break;
        }
        // Elements of 2 and 4 bits share bytes, and those of 6 bits do not.
        const bool is_shared = bits < 6;
        const bool is_pair = type.dtype == DType::kC64 || type.dtype == DType::kC128;
        if (!is_shared) {
          made.count = is_pair ? 2 * *elements : *elements;
          made.from_bits = is_pair ? bits / 2 : bits;
          if (bits > 8) made.to_bits = made.from_bits;
        }
        // Before anything is allocated for them.
        if (made.count > tensor.data.length) {
          return refuse("the tensor needs " + counted(made.count, "number") + " and has only " +
                        counted(tensor.data.length, "byte"));
        }
        return add_made(ours, *elements, made);
      }
    }
    if (!is_whole) {
      made.field = 0;
      return add_made(ours, *elements, made);
    }
    builder_.tensor(ours);
    builder_.place(static_cast<std::uint16_t>(made.from.file), made.from.offset);
  }

  void refuse_length(std::uint64_t has, std::uint64_t needs) {
    refuse("the tensor has " + counted(has, "byte") + ", and its shape and type need " +
           std::to_string(needs));
  }

  bool check_length(const OnnxTensor& tensor, std::uint64_t bytes) {
    if (tensor.data.length == bytes || !tensor.has_length) return true;
    refuse_length(tensor.data.length, bytes);
    return false;
  }

  // Whether another file has these bytes. One that is missing is a problem of its own.
  bool is_there(const Extent& extent) {
    const FileEntry& file = files_[extent.file];
    std::string why;
    if (file.problem) {
      why = "it lies in " + file.name + ", which cannot be opened (" +
            std::string(to_string(file.problem->code)) + ")";
    } else if (!range_fits(extent.offset, extent.length, file.length)) {
      why = "it lies beyond the end of " + file.name + ", which has " +
            counted(file.length, "byte") + "; copy or download that again";
      if (!damage_) {
        damage_ =
            Error{ErrorCode::kTruncated, extent.offset, walk_.current_path(),
                  "the file ends before the end of a tensor; copy or download it again", file.name};
      }
    } else {
      return true;
    }
    add_note("this tensor cannot be read: " + why, Note::Kind::kLoss);
    return false;
  }

  void add_made(const TensorType& type, std::uint64_t elements, const OnnxElements& made) {
    builder_.tensor(type);
    if (elements == 0) return builder_.place(0, 0);
    if (files_.size() > std::numeric_limits<std::uint16_t>::max()) {
      return builder_.refuse(
          "the model has more than 65535 tensors whose numbers must be converted",
          ErrorCode::kLimitExceeded);
    }
    builder_.place(static_cast<std::uint16_t>(files_.size()), 0);
    files_.push_back({.name = "the numbers of " + walk_.current_path(),
                      .length = builder_.tensor_bytes(),
                      .maker = std::make_shared<OnnxElementMaker>(made)});
  }

  OnnxModel& model_;
  FileSet& files_;
  TableBuilder builder_;
  TreeWalk<OnnxSource> walk_;
  std::optional<std::uint64_t> begin_;  // of the tensor that is added
  std::optional<Error> damage_;         // the first of the further files
};

}  // namespace

Result<OwnedTables> onnx_tables(OnnxModel& model, FileSet& files, const Limits& limits) {
  return OnnxSource(model, files, limits).run();
}

}  // namespace espalier
