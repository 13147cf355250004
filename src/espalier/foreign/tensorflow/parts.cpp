#include "espalier/foreign/tensorflow/parts.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/utf8.h"
#include "espalier/foreign/common/boxes.h"
#include "espalier/foreign/common/foreign_tensor.h"
#include "espalier/foreign/common/reader_error.h"
#include "espalier/foreign/tensorflow/format.h"
#include "espalier/foreign/tensorflow/narrow_maker.h"
#include "espalier/foreign/tensorflow/texts.h"
#include "espalier/format/table_builder.h"
#include "espalier/format/tree_walk.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

constexpr std::string_view kMetadataKey = "tensorflow";
// What a null is labelled that stands for an object which has its place elsewhere.
constexpr std::string_view kElsewhereLabel = "tensorflow.node:";

using Storage = TensorFlowType::Storage;

class TensorFlowParts {
 public:
  TensorFlowParts(OpenedBundle& opened, const Limits& limits)
      : opened_(opened),
        bundle_(opened.bundle),
        tree_(opened.tree),
        limits_(limits),
        builder_(limits) {
    parts_.format = &kTensorFlowFormat;
    parts_.files = std::move(opened.files);
    parts_.files.front().data_begin = parts_.files.front().length;
    parts_.notes = std::move(opened.notes);
  }

  Result<ForeignParts> run() {
    find_places();
    found_.resize(bundle_.entries.size());
    for (std::uint32_t i = 0; i < found_.size(); ++i) {
      // The graph, which the tree was made of.
      if (!places_[i]) continue;
      if (auto ok = find(i); !ok) return propagate(ok);
    }
    note_files();
    note_rest();
    list_metadata();
    std::size_t nodes = 2;
    for (const ObjectTree::Branch& branch : tree_.branches) nodes += branch.children.size();
    builder_.reserve(nodes, bundle_.entries.size());
    TreeWalk<TensorFlowParts> walk(*this, builder_, limits_);
    const bool is_whole = walk.run({Node::Type::kBranch, 0}, {Node::Type::kListing, kRootListing});
    auto tables = builder_.finish();
    if (!tables) {
      if (!is_whole) tables.error().path = walk.current_path();
      make_reader_error(tables.error());
      return propagate(tables);
    }
    parts_.tables = std::move(*tables);
    if (opened_.damage) parts_.files.push_back({.problem = std::move(opened_.damage)});
    return std::move(parts_);
  }

 private:
  friend class TreeWalk<TensorFlowParts>;

  // For TreeWalk.
  struct Node {
    enum class Type : std::uint8_t {
      kBranch,     // of the tree
      kElsewhere,  // a branch that stands elsewhere
      kEntry,
      kAgain,    // strings that stand elsewhere
      kTexts,    // a list in the strings of an entry, or one of them
      kListing,  // of the metadata
      kNumber,
      kName,
    };
    Type type = Type::kBranch;
    std::uint32_t number = 0;
    // Of strings: how many axes are above, and which of the lists or strings there it is.
    std::uint32_t level = 0;
    std::uint64_t index = 0;
  };
  struct Listed {
    std::string_view key;
    Node node;
  };
  class Children {
   public:
    Children(const TensorFlowParts& parts, Node parent) : parts_(&parts), parent_(parent) {}

    std::size_t size() const {
      switch (parent_.type) {
        case Node::Type::kBranch:
          return parts_->tree_.branches[parent_.number].children.size();
        case Node::Type::kListing:
          return parts_->listings_[parent_.number].size();
        default:
          return static_cast<std::size_t>(length());
      }
    }
    bool has_keys() const { return parent_.type != Node::Type::kTexts && !is_entry(); }
    KeyView key(std::size_t i) const {
      return KeyView::of(parent_.type == Node::Type::kListing
                             ? parts_->listings_[parent_.number][i].key
                             : parts_->tree_.branches[parent_.number].children[i].name);
    }
    Node node(std::size_t i) const {
      if (parent_.type == Node::Type::kBranch) return parts_->child_of(parent_.number, i);
      if (parent_.type == Node::Type::kListing) return parts_->listings_[parent_.number][i].node;
      return {Node::Type::kTexts, parent_.number, parent_.level + 1, parent_.index * length() + i};
    }

   private:
    bool is_entry() const { return parent_.type == Node::Type::kEntry; }
    std::uint64_t length() const {
      const BundleEntry& entry = parts_->bundle_.entries[parent_.number];
      return entry.elements == 0 ? 0 : parts_->bundle_.shape(entry)[parent_.level];
    }

    const TensorFlowParts* parts_;
    Node parent_;
  };

  // Where an entry stands first.
  struct Place {
    std::uint32_t branch = 0;
    std::uint32_t child = 0;
  };

  // What an entry becomes.
  struct Found {
    enum class Kind : std::uint8_t {
      kMissing,  // a placeholder, or null
      kPlaced,   // `tensor`, where it lies or in a made file
      kChunks,   // the runs of `copies` are whole chunks
      kTexts,    // `texts`
    };
    Kind kind = Kind::kMissing;
    bool is_labelled = false;
    std::uint32_t tensor_number = kNoTensor;
    ForeignTensor tensor = {};
    std::vector<BoxCopy> copies = {};
    std::vector<ByteSpan> texts = {};
  };
  static constexpr std::uint32_t kNoTensor = ~std::uint32_t{0};
  static constexpr std::uint32_t kRootListing = 0;

  Node child_of(std::uint32_t branch, std::size_t i) const {
    const ObjectTree::Child& child = tree_.branches[branch].children[i];
    switch (child.type) {
      case ObjectTree::Child::Type::kBranch:
        return {Node::Type::kBranch, child.number};
      case ObjectTree::Child::Type::kElsewhere:
        return {Node::Type::kElsewhere, child.number};
      case ObjectTree::Child::Type::kEntry:
        break;
    }
    const Place& first = *places_[child.number];
    const bool is_again = found_[child.number].kind == Found::Kind::kTexts &&
                          (first.branch != branch || first.child != i);
    return {is_again ? Node::Type::kAgain : Node::Type::kEntry, child.number};
  }

  bool is_container(const Node& node) const {
    switch (node.type) {
      case Node::Type::kBranch:
      case Node::Type::kListing:
        return true;
      case Node::Type::kEntry:
      case Node::Type::kTexts:
        return found_[node.number].kind == Found::Kind::kTexts &&
               node.level < bundle_.entries[node.number].rank;
      default:
        return false;
    }
  }

  Children children(const Node& node) const { return {*this, node}; }

  bool add(TableBuilder&, const Node& node, bool) {
    switch (node.type) {
      case Node::Type::kBranch:
      case Node::Type::kListing:
        builder_.container(Kind::kDict);
        break;
      case Node::Type::kElsewhere:
        builder_.label(elsewhere(tree_.path_of(node.number)));
        builder_.null();
        break;
      case Node::Type::kAgain:
        builder_.label(elsewhere(path_of(node.number)));
        builder_.null();
        break;
      case Node::Type::kEntry:
        add_entry(node);
        break;
      case Node::Type::kTexts:
        add_text(node);
        break;
      case Node::Type::kNumber:
        builder_.integer(node.number);
        break;
      case Node::Type::kName:
        builder_.string(names_[node.number]);
        break;
    }
    return builder_.ok();
  }

  std::string_view elsewhere(const std::string& path) {
    return keep(std::string(kElsewhereLabel) + path);
  }

  // Made texts, which the builder only views. All together are as many as a tree may have.
  std::string_view keep(std::string text) {
    kept_bytes_ += text.size();
    if (kept_bytes_ > limits_.text_bytes) {
      builder_.refuse("the paths in the tree take more than the " +
                          counted(limits_.text_bytes, "byte") +
                          " that readers accept (Limits::text_bytes)",
                      ErrorCode::kLimitExceeded);
      return {};
    }
    return kept_.emplace_back(std::move(text));
  }

  void add_entry(const Node& node) {
    const BundleEntry& entry = bundle_.entries[node.number];
    Found& found = found_[node.number];
    const bool is_text =
        entry.type.storage == Storage::kText || entry.type.storage == Storage::kVariant;
    if (is_text ? found.kind == Found::Kind::kTexts : found.is_labelled) {
      builder_.label(entry.type.label);
    }
    if (is_text) return found.kind == Found::Kind::kTexts ? add_text(node) : builder_.null();
    const bool is_missing = found.kind == Found::Kind::kMissing;
    if (found.tensor_number != kNoTensor) {
      return builder_.known_tensor(found.tensor_number,
                                   is_missing ? Kind::kPlaceholder : Kind::kTensor);
    }
    found.tensor_number = builder_.tensor_count();
    if (is_missing) return add_placeholder(entry);
    if (found.kind == Found::Kind::kPlaced) return add_foreign_tensor(builder_, found.tensor);
    add_tensor_of_chunks(builder_, found.tensor, found.copies);
  }

  void add_placeholder(const BundleEntry& entry) {
    auto shape = shape_of(entry);
    BlockType block = entry.type.block();
    DType dtype = entry.type.dtype;
    if (entry.type.storage == Storage::kUnknown) block = {kUnknownDtype, 1, 1};
    if (entry.type.storage == Storage::kNarrow && !tensor_bytes(dtype, shape)) {
      dtype = byte_type(entry.type);
    }
    // Blocks lie along an axis.
    if (dtype == DType::kOpaque && shape.empty()) shape.push_back(1);
    builder_.placeholder({dtype, shape, block});
  }

  void add_text(const Node& node) {
    const BundleEntry& entry = bundle_.entries[node.number];
    if (node.level < entry.rank) return builder_.container(Kind::kList);
    const ByteSpan text = found_[node.number].texts[static_cast<std::size_t>(node.index)];
    if (entry.type.storage == Storage::kVariant || find_invalid_utf8(text)) {
      builder_.bytes(text);
    } else {
      builder_.string(as_text(text));
    }
  }

  // --- Notes -----------------------------------------------------------------------------------

  void find_places() {
    places_.resize(bundle_.entries.size());
    for (std::uint32_t branch = 0; branch < tree_.branches.size(); ++branch) {
      const auto& children = tree_.branches[branch].children;
      for (std::uint32_t i = 0; i < children.size(); ++i) {
        if (children[i].type != ObjectTree::Child::Type::kEntry) continue;
        auto& place = places_[children[i].number];
        if (!place) place = Place{branch, i};
      }
    }
  }

  std::string path_of(std::uint32_t entry) const {
    const auto& [branch, child] = *places_[entry];
    return tree_.path_of(branch, tree_.branches[branch].children[child].name);
  }

  void note(Note::Kind kind, std::uint32_t entry, std::string message) {
    // Beyond those that are listed, a path would be made in vain.
    parts_.notes.add(
        {kind, parts_.notes.is_listing() ? path_of(entry) : std::string(), std::move(message)});
  }

  void lose(std::uint32_t entry, const std::string& why, bool is_damage) {
    const std::string message = "this value cannot be read: " + why;
    if (is_damage && !opened_.damage) {
      opened_.damage = Error{ErrorCode::kForeignInvalid, Error::kNoOffset, path_of(entry), message};
    }
    note(Note::Kind::kLoss, entry, message);
  }

  void note_files() {
    for (const auto& [file, count] : lost_) {
      const FileEntry& entry = parts_.files[file];
      parts_.notes.add({Note::Kind::kLoss,
                        {},
                        "only the names are known of " + counted(count, "value") +
                            " with bytes in " + entry.name + ", which cannot be opened (" +
                            std::string(to_string(entry.problem->code)) + ")"});
    }
  }

  void note_rest() {
    if (bundle_.unknown_fields > 0) {
      parts_.notes.add({.message = counted(bundle_.unknown_fields, "field") +
                                   " of the index are of a later version, and not read"});
    }
    if (bundle_.unused_slices > 0) {
      parts_.notes.add(
          {Note::Kind::kLoss,
           {},
           counted(bundle_.unused_slices, "part") + " of tensors in the index belong to none"});
    }
  }

  // --- What the entries become -----------------------------------------------------------------

  std::vector<std::uint64_t> shape_of(const BundleEntry& entry) const {
    const auto shape = bundle_.shape(entry);
    return {shape.begin(), shape.end()};
  }

  static DType byte_type(const TensorFlowType& type) {
    return type.is_signed ? DType::kI8 : DType::kU8;
  }

  // Where a piece lies; nothing if its file is not there or ends before it, which is noted.
  std::optional<Extent> find_piece(const BundlePiece& piece, std::uint32_t entry) {
    // A piece without bytes needs no file.
    if (piece.size == 0) return Extent{};
    const std::uint16_t number = opened_.shards.at(piece.shard);
    const FileEntry& file = parts_.files[number];
    if (file.problem) {
      ++lost_[number];
      return std::nullopt;
    }
    if (!range_fits(piece.offset, piece.size, file.length)) {
      lose(entry,
           "it lies beyond the end of " + file.name + ", which has " +
               counted(file.length, "byte") + "; copy or download that again",
           true);
      return std::nullopt;
    }
    return Extent{number, piece.offset, piece.size};
  }

  void add_checksum(const Extent& extent, const BundlePiece& piece) {
    if (piece.size == 0) return;
    parts_.files[extent.file].checksums.push_back({.offset = extent.offset,
                                                   .length = extent.length,
                                                   .crc = piece.crc,
                                                   .kind = Checksum::Kind::kCrc32c});
  }

  Result<void> find(std::uint32_t number) {
    const BundleEntry& entry = bundle_.entries[number];
    if (!entry.problem.empty()) {
      lose(number, entry.problem, true);
      return {};
    }
    if (entry.type.storage == Storage::kUnknown) {
      lose(number,
           "its type " + std::to_string(entry.type_number) +
               " is not known to this version; use a newer Espalier",
           false);
      return {};
    }
    if (!entry.slices.empty()) return find_slices(number);
    const auto extent = find_piece(entry.piece, number);
    if (!extent) return {};
    if (entry.type.storage == Storage::kText || entry.type.storage == Storage::kVariant) {
      find_texts(number);
      return {};
    }
    // What makes the bytes of narrow ones compares them.
    if (entry.type.storage == Storage::kPlain) add_checksum(*extent, entry.piece);
    Found& found = found_[number];
    found.kind = Found::Kind::kPlaced;
    found.is_labelled = entry.type.storage == Storage::kPlain && !entry.type.label.empty();
    found.tensor = {.dtype = entry.type.dtype,
                    .block = entry.type.block(),
                    .shape = shape_of(entry),
                    .file = static_cast<std::uint16_t>(extent->file),
                    .offset = extent->offset};
    if (entry.type.dtype == DType::kOpaque && entry.rank == 0) {
      found.tensor.shape.push_back(1);
      note(Note::Kind::kWarning, number,
           "it has no axes, and an opaque tensor needs one: it got one of length 1");
    }
    return entry.type.storage == Storage::kNarrow ? make_narrow(number, *extent) : Result<void>{};
  }

  void find_texts(std::uint32_t number) {
    const BundleEntry& entry = bundle_.entries[number];
    // Of no bytes, none were asked for.
    const auto stored = opened_.texts.find(number);
    auto texts =
        read_texts(entry, stored == opened_.texts.end() ? ByteSpan() : ByteSpan(stored->second));
    if (!texts) return lose(number, texts.error().message, true);
    found_[number].kind = Found::Kind::kTexts;
    found_[number].texts = std::move(*texts);
    if (entry.elements == 0 && entry.rank > 1) {
      note(Note::Kind::kWarning, number,
           "it has no strings, and is an empty list: its shape is not kept");
    }
  }

  Result<void> make_narrow(std::uint32_t number, const Extent& from) {
    const BundleEntry& entry = bundle_.entries[number];
    Found& found = found_[number];
    const auto bytes = tensor_bytes(entry.type.dtype, found.tensor.shape);
    if (!bytes) {
      found.tensor.dtype = byte_type(entry.type);
      found.is_labelled = true;
    }
    if (entry.elements == 0) return {};
    const std::uint64_t length = bytes ? *bytes : entry.elements;
    return add_made(
        number, length,
        std::make_shared<NarrowMaker>(from, dtype_bits(entry.type.dtype), entry.type.is_signed,
                                      bytes.has_value(), entry.piece.crc, std::string(entry.name)));
  }

  Result<void> add_made(std::uint32_t number, std::uint64_t length,
                        std::shared_ptr<const FileMaker> maker) {
    if (parts_.files.size() > std::numeric_limits<std::uint16_t>::max()) {
      return fail(ErrorCode::kLimitExceeded,
                  "the checkpoint has more than 65535 files, with those that are made when they "
                  "are read");
    }
    found_[number].tensor.file = static_cast<std::uint16_t>(parts_.files.size());
    found_[number].tensor.offset = 0;
    parts_.files.push_back({.name = std::string(bundle_.entries[number].name),
                            .length = length,
                            .maker = std::move(maker)});
    return {};
  }

  // --- Tensors that were cut -------------------------------------------------------------------

  Result<void> find_slices(std::uint32_t number) {
    const BundleEntry& entry = bundle_.entries[number];
    Found& found = found_[number];
    const auto shape = shape_of(entry);
    const auto bytes = checked_mul(entry.elements, entry.type.width);
    if (!bytes || *bytes > kMaxTensorBytes) {
      lose(number, "it is too large", false);
      return {};
    }
    if (entry.elements > 0) {
      if (const auto problem = check_slices(entry, shape); !problem.empty()) {
        lose(number, problem, true);
        return {};
      }
    }
    std::vector<BoxCopy> copies;
    for (const BundleSlice& slice : entry.slices) {
      if (slice.piece.size == 0) continue;
      const auto extent = find_piece(slice.piece, number);
      if (!extent) return {};
      auto copy = plan_copy(shape, {slice.start, slice.length}, entry.type.width, *extent, {});
      if (!copy) {
        lose(number, "a part of it is stored in an unusual form", false);
        return {};
      }
      add_checksum(*extent, slice.piece);
      copies.push_back(std::move(*copy));
    }
    found.is_labelled = !entry.type.label.empty();
    found.tensor = {.dtype = entry.type.dtype, .block = entry.type.block(), .shape = shape};
    if (found.tensor.dtype == DType::kOpaque && shape.empty()) found.tensor.shape.push_back(1);
    const bool are_chunks = are_whole_chunks(copies);
    found.kind = Found::Kind::kPlaced;
    if (copies.empty() || is_one_run(copies)) {
      if (copies.empty()) return {};
      found.tensor.file = static_cast<std::uint16_t>(copies.front().from.file);
      found.tensor.offset = copies.front().from.offset;
      return {};
    }
    if (are_chunks) {
      found.kind = Found::Kind::kChunks;
      found.copies = std::move(copies);
      return {};
    }
    return add_made(number, *bytes, std::make_shared<BoxMaker>(std::move(copies)));
  }

  // Whether the parts follow each other in one file as they do in the tensor.
  static bool is_one_run(const std::vector<BoxCopy>& copies) {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (!copies[i].is_whole()) return false;
      if (i == 0) continue;
      const Extent& before = copies[i - 1].from;
      if (copies[i].from.file != before.file ||
          copies[i].from.offset != before.offset + before.length) {
        return false;
      }
    }
    return true;
  }

  static std::string check_slices(const BundleEntry& entry, std::span<const std::uint64_t> shape) {
    std::vector<Box> boxes;
    for (const BundleSlice& slice : entry.slices) {
      if (slice.piece.size > 0) boxes.push_back({slice.start, slice.length});
    }
    switch (check_cover(shape, boxes)) {
      case Cover::kExact:
        return {};
      case Cover::kBeyond:
        return "a part of it reaches beyond its shape";
      case Cover::kOverlap:
        return "two parts of it overlap";
      case Cover::kHole:
        return "its parts do not make all of it";
      case Cover::kTangled:
        break;
    }
    return "it is cut into parts in a way that no program cuts";
  }

  // --- Metadata --------------------------------------------------------------------------------

  void list_metadata() {
    listings_.resize(2);
    listings_[kRootListing].push_back({kMetadataKey, {Node::Type::kListing, 1}});
    const auto number = [](std::uint64_t value) {
      constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
      return Node{Node::Type::kNumber, static_cast<std::uint32_t>(std::min(value, kMost))};
    };
    listings_[1].push_back({"producer", number(bundle_.producer)});
    listings_[1].push_back({"min_consumer", number(bundle_.min_consumer)});
    list_names("full_names", tree_.full_names);
    list_names("savers", tree_.savers);
  }

  void list_names(std::string_view key, const std::vector<ObjectTree::Name>& names) {
    if (names.empty()) return;
    const auto listing = static_cast<std::uint32_t>(listings_.size());
    listings_[1].push_back({key, {Node::Type::kListing, listing}});
    std::vector<Listed> listed;
    listed.reserve(names.size());
    for (const ObjectTree::Name& name : names) {
      const auto child =
          name.child.empty() ? std::nullopt : std::optional<std::string_view>(name.child);
      const std::string_view path = keep(tree_.path_of(name.branch, child));
      if (!builder_.ok()) return;
      listed.push_back({path, {Node::Type::kName, static_cast<std::uint32_t>(names_.size())}});
      names_.push_back(name.text);
    }
    listings_.push_back(std::move(listed));
  }

  OpenedBundle& opened_;
  const Bundle& bundle_;
  const ObjectTree& tree_;
  const Limits& limits_;
  TableBuilder builder_;
  ForeignParts parts_;
  std::vector<Found> found_;                     // by entry
  std::vector<std::optional<Place>> places_;     // by entry
  std::map<std::uint32_t, std::uint64_t> lost_;  // values by the file that is missing
  std::vector<std::vector<Listed>> listings_;
  std::vector<std::string_view> names_;
  std::deque<std::string> kept_;
  std::uint64_t kept_bytes_ = 0;
};

}  // namespace

Result<ForeignParts> make_tensorflow_parts(OpenedBundle& opened, const Limits& limits) {
  return TensorFlowParts(opened, limits).run();
}

}  // namespace espalier
