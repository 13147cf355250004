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
#include "espalier/dtype.h"
#include "espalier/foreign/common/kept_bytes.h"
#include "espalier/foreign/common/reader_error.h"
#include "espalier/foreign/onnx/element_maker.h"
#include "espalier/foreign/onnx/placement.h"
#include "espalier/format/table_builder.h"
#include "espalier/format/tree_walk.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

constexpr std::string_view kOnnxModelLabel = "onnx.ModelProto";

class OnnxSource {
 public:
  OnnxSource(OnnxModel& model, std::span<const ByteSpan> fetched, FileSet& files,
             const Limits& limits)
      : model_(model),
        fetched_(fetched),
        files_(files),
        builder_(limits),
        walk_(*this, builder_, limits) {}

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
      case OnnxEntry::Type::kCopy:
        builder_.label(kOnnxModelLabel);
        builder_.bytes(as_bytes(model_.copy));
        break;
      case OnnxEntry::Type::kTensor: {
        const auto number = static_cast<std::size_t>(node->value);
        begin_ = model_.tensors[number].begin;
        add_tensor(number);
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

  void add_tensor(std::size_t number) {
    const OnnxTensor& tensor = model_.tensors[number];
    const auto shape = model_.shape(tensor);
    const OnnxType type = onnx_type(tensor.type);
    const auto placement = place_onnx_tensor(tensor, shape);
    if (!placement) return refuse(placement.error().message);
    TensorType ours{type.dtype, shape};
    std::vector<std::uint64_t> axes;
    if (!placement->is_whole) {
      axes.assign(shape.begin(), shape.end());
      // Opaque tensors have an axis along which their blocks lie.
      if (axes.empty()) axes.push_back(1);
      ours = {DType::kOpaque, axes, {type.name, 1, 1}};
      add_note("this tensor of " + std::string(type.name) +
                   " does not fill whole bytes, so each element has a byte of its own",
               Note::Kind::kWarning);
    }
    if (placement->how == OnnxPlacement::How::kNowhere) {
      add_note("the model does not have the numbers of this tensor", Note::Kind::kLoss);
      return builder_.placeholder(ours);
    }
    const bool is_made = placement->how == OnnxPlacement::How::kMade;
    const Extent& bytes = is_made ? placement->made.from : placement->bytes;
    if (!is_there(bytes)) return builder_.placeholder(ours);
    builder_.tensor(ours);
    // Of a tensor that it has refused, the builder does not know the size.
    if (!builder_.ok()) return;
    if (is_made && placement->elements > 0) return add_made(placement->made, number);
    builder_.place(static_cast<std::uint16_t>(bytes.file), bytes.offset);
  }

  // Whether the file has these bytes. A note of its own says that a file is missing.
  bool is_there(const Extent& extent) {
    const FileEntry& file = files_[extent.file];
    if (file.problem) return false;
    if (range_fits(extent.offset, extent.length, file.length)) return true;
    const std::string why = "it lies beyond the end of " + file.name + ", which has " +
                            counted(file.length, "byte") + "; copy or download that again";
    add_note("this tensor cannot be read: " + why, Note::Kind::kLoss);
    if (!damage_) {
      damage_ = Error{ErrorCode::kTruncated, Error::kNoOffset, walk_.current_path(),
                      "a tensor is lost: " + why};
    }
    return false;
  }

  void add_made(const OnnxElements& made, std::size_t number) {
    const std::uint64_t length = builder_.tensor_bytes();
    auto maker = std::make_shared<OnnxElementMaker>(made);
    if (!fetched_[number].empty()) return add_kept(*maker, made.from, fetched_[number], length);
    if (files_.size() > std::numeric_limits<std::uint16_t>::max()) {
      return builder_.refuse("more than 65535 tensors of the model have numbers to be converted",
                             ErrorCode::kLimitExceeded);
    }
    builder_.place(static_cast<std::uint16_t>(files_.size()), 0);
    files_.push_back({.name = "the numbers of " + walk_.current_path(),
                      .length = length,
                      .maker = std::move(maker)});
  }

  void add_kept(const FileMaker& maker, const Extent& from, ByteSpan bytes, std::uint64_t length) {
    std::vector<std::byte> out(static_cast<std::size_t>(length));
    const auto machine = maker.start(out);
    auto made = machine->feed(from, bytes);
    if (made) made = machine->finish();
    if (!made) return refuse(made.error().message);
    const auto place = kept_.keep(files_, out);
    if (!place) return builder_.refuse(place.error().message, place.error().code);
    builder_.place(place->file, place->offset);
  }

  OnnxModel& model_;
  const std::span<const ByteSpan> fetched_;
  FileSet& files_;
  TableBuilder builder_;
  TreeWalk<OnnxSource> walk_;
  KeptBytes kept_;
  std::optional<std::uint64_t> begin_;  // of the tensor that is added
  std::optional<Error> damage_;         // the first of the further files
};

}  // namespace

Result<OwnedTables> onnx_tables(OnnxModel& model, std::span<const ByteSpan> fetched, FileSet& files,
                                const Limits& limits) {
  return OnnxSource(model, fetched, files, limits).run();
}

}  // namespace espalier
