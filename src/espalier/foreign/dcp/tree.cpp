#include "espalier/foreign/dcp/tree.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/release.h"
#include "espalier/dtype.h"
#include "espalier/foreign/common/boxes.h"
#include "espalier/foreign/common/foreign_tensor.h"
#include "espalier/foreign/common/reader_error.h"
#include "espalier/foreign/dcp/format.h"
#include "espalier/foreign/pickle/named_code.h"
#include "espalier/foreign/shards/joined_shards.h"
#include "espalier/foreign/shards/node_copier.h"
#include "espalier/format/file_set.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/format/table_builder.h"
#include "espalier/format/tree_walk.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

constexpr std::uint64_t kMostFiles = std::uint64_t{std::numeric_limits<std::uint16_t>::max()} + 1;
// The key of all that .metadata says of the checkpoint.
constexpr std::string_view kDistributedKey = "torch.distributed.checkpoint";

// What an entry becomes.
struct Found {
  enum class Kind : std::uint8_t {
    kMissing,  // a placeholder, or null
    kPlaced,   // `tensor`
    kChunks,   // the runs of `copies` are whole chunks
    kMade,     // `tensor`, in a made file of `copies`
    kCopied,   // the tree of an item
  };
  Kind kind = Kind::kMissing;
  ForeignTensor tensor = {};
  std::vector<BoxCopy> copies = {};
  std::uint32_t item = 0;
};

// Bytes of an element, as torch counts elements.
std::uint64_t width_of(const TorchElement& element) {
  if (element.is_pairs) return 1;
  return element.dtype == DType::kOpaque ? element.block.bytes : dtype_bits(element.dtype) / 8;
}

// The shape here of a tensor with that shape in torch, which counts pairs of 4-bit numbers.
std::vector<std::uint64_t> shape_of(const TorchElement& element,
                                    std::span<const std::uint64_t> shape) {
  std::vector<std::uint64_t> own(shape.begin(), shape.end());
  if (!element.is_pairs) return own;
  if (own.empty()) {
    own.push_back(2);
  } else if (const auto twice = checked_mul(own.back(), 2)) {
    own.back() = *twice;
  }
  return own;
}

class DcpJoiner {
 public:
  DcpJoiner(const DcpMetadata& metadata, const std::vector<OpenedItem>& items, FileSet files,
            Notes notes, const Limits& limits)
      : metadata_(metadata), items_(items), limits_(limits), builder_(limits) {
    parts_.format = &kDcpFormat;
    parts_.files = std::move(files);
    parts_.files.front().data_begin = parts_.files.front().length;
    parts_.notes = std::move(notes);
  }

  Result<ForeignParts> run() {
    branches_.emplace_back();
    for (std::uint32_t i = 0; i < metadata_.entries.size(); ++i) {
      if (auto ok = place_entry(i); !ok) return propagate(ok);
    }
    if (auto ok = fill_lists(); !ok) return propagate(ok);
    found_.resize(metadata_.entries.size());
    for (std::uint32_t i = 0; i < found_.size(); ++i) find(i);
    note_files();
    if (auto ok = check_calls(); !ok) return propagate(ok);
    if (auto ok = make_files(); !ok) return propagate(ok);
    const std::uint32_t metadata_root = list_metadata();
    builder_.reserve(metadata_.entries.size() + branches_.size(), metadata_.entries.size());
    TreeWalk<DcpJoiner> walk(*this, builder_, limits_);
    const bool is_whole =
        walk.run({Node::Type::kBranch, 0, 0}, {Node::Type::kBranch, metadata_root, 0});
    auto tables = builder_.finish();
    if (!tables) {
      if (!is_whole) tables.error().path = walk.current_path();
      make_reader_error(tables.error());
      return propagate(tables);
    }
    parts_.tables = std::move(*tables);
    if (contradiction_) parts_.files.push_back({.problem = std::move(contradiction_)});
    return std::move(parts_);
  }

 private:
  friend class TreeWalk<DcpJoiner>;

  // For TreeWalk.
  struct Node {
    enum class Type : std::uint8_t { kBranch, kEntry, kCopy, kText, kNull };
    Type type = Type::kNull;
    std::uint32_t number = 0;  // of a branch, an entry, a text; of the item of a copy
    std::uint32_t inner = 0;   // of a copy: the node in the item
  };
  struct Child {
    KeyView key;
    Node node;
  };
  struct Branch {
    bool is_list = false;
    std::vector<Child> children = {};
  };
  class Children {
   public:
    explicit Children(const Branch& branch) : branch_(&branch) {}
    Children(NodeRef parent, std::uint32_t item) : parent_(parent), item_(item) {}
    std::size_t size() const { return parent_ ? parent_->size() : branch_->children.size(); }
    bool has_keys() const {
      return parent_ ? espalier::has_keys(parent_->kind()) : !branch_->is_list;
    }
    KeyView key(std::size_t i) const {
      return parent_ ? parent_->key(static_cast<std::uint32_t>(i)) : branch_->children[i].key;
    }
    Node node(std::size_t i) const {
      if (!parent_) return branch_->children[i].node;
      return {Node::Type::kCopy, item_, parent_->child(static_cast<std::uint32_t>(i)).number()};
    }

   private:
    const Branch* branch_ = nullptr;
    std::optional<NodeRef> parent_;
    std::uint32_t item_ = 0;
  };

  NodeRef node_ref(const Node& node) const {
    return {&items_[node.number].checkpoint->catalog(), node.inner};
  }

  // The node in its item that an entry is, if it is a copy.
  Node resolve(const Node& node) const {
    if (node.type != Node::Type::kEntry) return node;
    const Found& found = found_[node.number];
    if (found.kind != Found::Kind::kCopied) return node;
    return {Node::Type::kCopy, found.item, kStateRoot};
  }

  bool is_container(const Node& unresolved) const {
    const Node node = resolve(unresolved);
    if (node.type == Node::Type::kCopy) return espalier::is_container(node_ref(node).kind());
    return node.type == Node::Type::kBranch;
  }

  Children children(const Node& unresolved) const {
    const Node node = resolve(unresolved);
    if (node.type == Node::Type::kCopy) return {node_ref(node), node.number};
    return Children(branches_[node.number]);
  }

  bool add(TableBuilder&, const Node& unresolved, bool) {
    const Node node = resolve(unresolved);
    switch (node.type) {
      case Node::Type::kBranch:
        builder_.container(branches_[node.number].is_list ? Kind::kList : Kind::kDict);
        break;
      case Node::Type::kEntry:
        add_entry(node.number);
        break;
      case Node::Type::kCopy:
        copiers_.at(node.number).add(node_ref(node));
        break;
      case Node::Type::kText:
        builder_.string(texts_[node.number]);
        break;
      case Node::Type::kNull:
        builder_.null();
        break;
    }
    return builder_.ok();
  }

  void add_entry(std::uint32_t number) {
    const DcpEntry& entry = metadata_.entries[number];
    const Found& found = found_[number];
    switch (found.kind) {
      case Found::Kind::kMissing:
        return entry.is_tensor ? add_placeholder(entry) : builder_.null();
      case Found::Kind::kPlaced:
      case Found::Kind::kMade:
        return add_foreign_tensor(builder_, found.tensor);
      case Found::Kind::kChunks:
        return add_tensor_of_chunks(builder_, found.tensor, found.copies);
      case Found::Kind::kCopied:
        return;  // resolve() made it another node
    }
  }

  void add_placeholder(const DcpEntry& entry) {
    TorchElement element = {DType::kOpaque, {kUnknownDtype, 1, 1}, false};
    if (entry.element) element = *entry.element;
    auto shape = shape_of(element, entry.shape);
    // Blocks lie along an axis.
    if (element.dtype == DType::kOpaque && shape.empty()) shape.push_back(1);
    builder_.placeholder({element.dtype, shape, element.block});
  }

  // --- The nested tree -------------------------------------------------------------------------

  // A place in the tree: a key of a branch.
  using Slot = std::tuple<std::uint32_t, bool, std::int64_t>;

  bool takes(std::uint32_t branch, const DcpKey& key) const {
    return !branches_[branch].is_list || (key.is_int && key.value >= 0);
  }

  void put(std::uint32_t branch, const DcpKey& key, Node node) {
    slots_.emplace(Slot(branch, key.is_int, key.value), node);
    branches_[branch].children.push_back({metadata_.key(key), node});
  }

  Result<void> place_entry(std::uint32_t number) {
    const DcpEntry& entry = metadata_.entries[number];
    const Node leaf{Node::Type::kEntry, number, 0};
    if (place_at(metadata_.path(entry), leaf)) return {};
    const DcpKey own{false, entry.name};
    if (entry.key_count > 1 && place_at({&own, 1}, leaf)) {
      is_flat_.push_back(number);
      note(Note::Kind::kWarning, number,
           "the path of this name leads to another value or through one, so it stands under the "
           "name itself");
      return {};
    }
    return fail(ErrorCode::kForeignInvalid, "two values of the checkpoint are at the same path",
                Error::kNoOffset, path_of(number));
  }

  // Puts a leaf at its path; false, and nothing changes, if something else is there or on the way.
  bool place_at(std::span<const DcpKey> path, Node leaf) {
    std::uint32_t branch = 0;
    std::size_t i = 0;
    for (; i < path.size(); ++i) {
      if (!takes(branch, path[i])) return false;
      const auto found = slots_.find(Slot(branch, path[i].is_int, path[i].value));
      if (found == slots_.end()) break;
      if (found->second.type != Node::Type::kBranch || i + 1 == path.size()) return false;
      branch = found->second.number;
    }
    for (; i + 1 < path.size(); ++i) {
      const auto next = static_cast<std::uint32_t>(branches_.size());
      // As torch does: an integer is a position of a list.
      branches_.push_back({.is_list = path[i + 1].is_int && path[i + 1].value >= 0});
      put(branch, path[i], {Node::Type::kBranch, next, 0});
      branch = next;
    }
    put(branch, path.back(), leaf);
    return true;
  }

  // Sorts the elements of lists, and puts null where nothing was saved.
  Result<void> fill_lists() {
    std::uint64_t holes = 0;
    for (Branch& branch : branches_) {
      if (!branch.is_list) continue;
      std::sort(branch.children.begin(), branch.children.end(),
                [](const Child& a, const Child& b) { return a.key.integer < b.key.integer; });
      const auto count = static_cast<std::uint64_t>(branch.children.back().key.integer) + 1;
      holes += count - branch.children.size();
      if (count > limits_.nodes || holes > parts_.files.front().length) {
        return fail(ErrorCode::kLimitExceeded,
                    "the lists in .metadata lack more elements than the file has bytes");
      }
      std::vector<Child> all(static_cast<std::size_t>(count));
      for (const Child& child : branch.children) {
        all[static_cast<std::size_t>(child.key.integer)] = child;
      }
      branch.children = std::move(all);
    }
    if (holes > 0) {
      parts_.notes.add({Note::Kind::kWarning,
                        {},
                        counted(holes, "element") +
                            " of lists are null because nothing was saved for them, as for empty "
                            "dicts"});
    }
    return {};
  }

  std::string path_of(std::uint32_t number) const {
    const DcpEntry& entry = metadata_.entries[number];
    std::string path;
    if (std::binary_search(is_flat_.begin(), is_flat_.end(), number)) {
      append_path(path, KeyView::of(metadata_.names[entry.name]), DigitMark::kNever);
      return path;
    }
    for (const DcpKey& key : metadata_.path(entry)) {
      append_path(path, metadata_.key(key), DigitMark::kNever);
    }
    return path;
  }

  void note(Note::Kind kind, std::uint32_t entry, std::string message) {
    // Beyond those that are listed, a path would be made in vain.
    const bool is_listed = parts_.notes.is_listing();
    parts_.notes.add({kind, is_listed ? path_of(entry) : std::string(), std::move(message)});
  }

  // --- What the entries become -----------------------------------------------------------------

  void find(std::uint32_t number) {
    const DcpEntry& entry = metadata_.entries[number];
    // Also of items that cannot be given: torch would load them.
    if (entry.item) note_code(*entry.item, number);
    for (const DcpBox& part : entry.boxes) {
      if (part.item) note_code(*part.item, number);
    }
    std::string problem;
    is_contradictory_ = false;
    if (entry.is_tensor) {
      problem = find_tensor(number);
    } else if (!entry.item) {
      problem = contradictory("no item in the files belongs to it");
    } else if (const OpenedItem& item = items_[*entry.item]; item.problem) {
      problem = problem_of(*entry.item);
    } else if (!copy(number, *entry.item)) {
      // A tensor that was pickled by itself, such as one in place of a value.
      found_[number].kind = Found::Kind::kPlaced;
      found_[number].tensor = place(*item.tensor, *entry.item);
      add_notes_of(*entry.item, number);
    }
    if (problem.empty()) return;
    found_[number] = {};
    if (problem == kFileProblem) return;
    problem.insert(
        0, entry.is_tensor ? "this tensor cannot be read: " : "this value cannot be read: ");
    if (is_contradictory_ && !contradiction_) {
      contradiction_ =
          Error{ErrorCode::kForeignInvalid, Error::kNoOffset, path_of(number), problem};
    }
    note(Note::Kind::kLoss, number, std::move(problem));
  }

  // Marks what .metadata and the files cannot both be right about. Torch loads some of it without a
  // word, and tensors then have elements that nobody saved. The first such problem is one of the
  // checkpoint, which makes verification fail, and a conversion of the whole.
  std::string contradictory(std::string what) {
    is_contradictory_ = true;
    return what;
  }

  // Why an item cannot be opened. What a whole file has is one note for all of its items.
  std::string problem_of(std::uint32_t number) {
    const std::uint32_t file = metadata_.items[number].file + 1;
    if (!parts_.files[file].problem) return items_[number].problem->message;
    ++lost_[file];
    return std::string(kFileProblem);
  }

  // Takes over the tree of an item; false if it is a tensor alone.
  bool copy(std::uint32_t number, std::uint32_t item) {
    if (!items_[item].checkpoint) return false;
    found_[number].kind = Found::Kind::kCopied;
    found_[number].item = item;
    add_notes_of(item, number);
    return true;
  }

  void add_notes_of(std::uint32_t item, std::uint32_t number) {
    for (const Note& inner : items_[item].notes) {
      if (inner.kind != Note::Kind::kCode) add_note_of(inner, number);
    }
  }

  void add_note_of(const Note& inner, std::uint32_t number) {
    std::string path = path_of(number);
    if (!inner.path.empty()) path += "/" + inner.path;
    parts_.notes.add({inner.kind, std::move(path), inner.message});
  }

  // Thousands of items may name the same class.
  void note_code(std::uint32_t item, std::uint32_t number) {
    for (const Note& inner : items_[item].notes) {
      if (inner.kind != Note::Kind::kCode) break;  // They come first.
      if (code_.insert(inner.message).second) add_note_of(inner, number);
    }
  }

  // An item's own tensor, which views text of its type.
  ForeignTensor place(const DcpTensor& tensor, std::uint32_t item) const {
    const bool is_opaque = tensor.dtype == DType::kOpaque;
    return {.dtype = tensor.dtype,
            .block = is_opaque ? BlockType{tensor.block, 1, tensor.block_bytes} : BlockType{},
            .shape = tensor.shape,
            .strides = tensor.strides,
            .flags = tensor.flags,
            .file = static_cast<std::uint16_t>(metadata_.items[item].file + 1),
            .offset = tensor.offset};
  }

  // Whether an item's tensor is what .metadata says.
  static bool agrees(const TorchElement& element, std::span<const std::uint64_t> shape,
                     const DcpTensor& tensor) {
    return tensor.dtype == element.dtype && tensor.block == element.block.name &&
           tensor.shape == shape_of(element, shape);
  }

  // What a tensor becomes; or why it cannot be given.
  std::string find_tensor(std::uint32_t number) {
    const DcpEntry& entry = metadata_.entries[number];
    Found& found = found_[number];
    std::vector<std::pair<Box, std::uint32_t>> boxes;
    for (const DcpBox& part : entry.boxes) {
      const Box box{metadata_.offsets(entry, part), metadata_.sizes(entry, part)};
      // Processes without a share of a tensor write parts without elements.
      if (shape_elements(box.size) == 0) continue;
      if (!part.item) return contradictory("no item in the files belongs to a part of it");
      boxes.emplace_back(box, *part.item);
    }
    if (shape_elements(entry.shape) == 0) {
      if (!boxes.empty()) return contradictory("a part of it reaches beyond its shape");
      if (!entry.element) return "its dtype is unknown";
      found.kind = Found::Kind::kPlaced;
      found.tensor.dtype = entry.element->dtype;
      found.tensor.block = entry.element->block;
      found.tensor.shape = shape_of(*entry.element, entry.shape);
      return {};
    }
    // Counted once for each of its files, so that all that are missing get their notes.
    std::string problem;
    std::set<std::uint32_t> counted;
    for (const auto& [box, item] : boxes) {
      if (!items_[item].problem || !counted.insert(metadata_.items[item].file).second) continue;
      const std::string why = problem_of(item);
      if (problem.empty()) problem = why;
    }
    if (!problem.empty()) return problem;
    if (boxes.empty()) return contradictory("nothing was saved of it");
    const auto& [box, item] = boxes.front();
    const bool is_one = boxes.size() == 1 &&
                        std::equal(box.size.begin(), box.size.end(), entry.shape.begin()) &&
                        std::all_of(box.offset.begin(), box.offset.end(),
                                    [](std::uint64_t offset) { return offset == 0; });
    // A tensor of a special class is a record: all of it is there.
    if (is_one && copy(number, item)) {
      note(Note::Kind::kWarning, number, "the item of this tensor holds something else");
      return {};
    }
    if (!entry.element) return "its dtype is unknown";
    for (const auto& [part, part_item] : boxes) {
      const auto& tensor = items_[part_item].tensor;
      if (!tensor) return "a part of it is a tensor of a special class, or no tensor";
      if (!agrees(*entry.element, part.size, *tensor)) {
        return contradictory("an item of it has another dtype or shape than .metadata says");
      }
      add_notes_of(part_item, number);
    }
    if (is_one) {
      found.kind = Found::Kind::kPlaced;
      found.tensor = place(*items_[item].tensor, item);
      return {};
    }
    return find_parts(entry, boxes, found);
  }

  std::string find_parts(const DcpEntry& entry,
                         std::span<const std::pair<Box, std::uint32_t>> parts, Found& found) {
    const std::uint64_t width = width_of(*entry.element);
    found.tensor.dtype = entry.element->dtype;
    found.tensor.block = entry.element->block;
    found.tensor.shape = shape_of(*entry.element, entry.shape);
    if (!tensor_bytes(found.tensor.dtype, found.tensor.shape, found.tensor.block)) {
      return "it is too large";
    }
    std::vector<Box> boxes;
    for (const auto& [box, item] : parts) boxes.push_back(box);
    switch (check_cover(entry.shape, boxes)) {
      case Cover::kExact:
        break;
      case Cover::kBeyond:
        return contradictory("a part of it reaches beyond its shape");
      case Cover::kOverlap:
        return contradictory("two parts of it overlap");
      case Cover::kHole:
        return contradictory("its parts do not make all of it");
      case Cover::kTangled:
        return "it is cut into parts in a way that no program cuts";
    }
    for (const auto& [box, item] : parts) {
      const DcpTensor& tensor = *items_[item].tensor;
      auto copy = plan_copy(entry.shape, box, width,
                            {metadata_.items[item].file + 1, tensor.offset, 0}, tensor.strides);
      if (!copy || tensor.flags != 0) return "a part of it is stored in an unusual form";
      found.copies.push_back(std::move(*copy));
    }
    found.kind = are_whole_chunks(found.copies) ? Found::Kind::kChunks : Found::Kind::kMade;
    return {};
  }

  void note_files() {
    for (const auto& [file, count] : lost_) {
      const FileEntry& entry = parts_.files[file];
      parts_.notes.add({Note::Kind::kLoss,
                        {},
                        "only the names are known of " +
                            (count == 1 ? "1 entry" : std::to_string(count) + " entries") +
                            " with bytes in " + entry.name + ", which cannot be opened (" +
                            std::string(to_string(entry.problem->code)) + ")"});
    }
  }

  Result<void> check_calls() {
    std::optional<std::string> calls = metadata_.calls;
    bool has_tensors = false;
    for (const DcpEntry& entry : metadata_.entries) has_tensors |= entry.is_tensor;
    for (const OpenedItem& item : items_) {
      if (!calls && item.calls.calls > 0) calls = item.calls.first;
      has_tensors |= item.calls.tensors > 0;
    }
    if (has_tensors || !calls) return {};
    return fail(ErrorCode::kForeignInvalid,
                "this checkpoint holds no tensors, and loading it with torch would call " + *calls +
                    "; nothing was run; " + std::string(kAskAuthor));
  }

  // --- Files -----------------------------------------------------------------------------------

  Result<void> make_files() {
    for (const Found& found : found_) {
      if (found.kind != Found::Kind::kCopied) continue;
      const Checkpoint& item = *items_[found.item].checkpoint;
      auto numbers =
          add_made_files(parts_.files, item.catalog(), metadata_.items[found.item].file + 1);
      if (!numbers) return propagate(numbers);
      copiers_.try_emplace(found.item, builder_, item, std::move(*numbers));
    }
    std::vector<std::uint32_t> cut;
    for (std::uint32_t i = 0; i < found_.size(); ++i) {
      if (found_[i].kind == Found::Kind::kMade) cut.push_back(i);
    }
    if (cut.empty()) return {};
    if (parts_.files.size() >= kMostFiles) {
      return fail(ErrorCode::kLimitExceeded,
                  "the checkpoint has more than 65535 files, with those that are made when they "
                  "are read");
    }
    // A file for each tensor, unless there are more of them than files can be.
    const std::uint64_t room = kMostFiles - parts_.files.size();
    const std::uint64_t together = cut.size() / room + (cut.size() % room != 0 ? 1 : 0);
    for (std::size_t i = 0; i < cut.size(); i += static_cast<std::size_t>(together)) {
      const std::size_t count = std::min(static_cast<std::size_t>(together), cut.size() - i);
      if (auto ok = make_file(std::span(cut).subspan(i, count)); !ok) return ok;
    }
    return {};
  }

  Result<void> make_file(std::span<const std::uint32_t> entries) {
    FileEntry file;
    file.name = metadata_.names[metadata_.entries[entries[0]].name];
    const auto number = static_cast<std::uint16_t>(parts_.files.size());
    std::vector<BoxCopy> copies;
    for (const std::uint32_t entry : entries) {
      Found& found = found_[entry];
      const auto begin = checked_align(file.length, kTensorAlignment);
      const auto bytes = tensor_bytes(found.tensor.dtype, found.tensor.shape, found.tensor.block);
      const auto end = begin && bytes ? checked_add(*begin, *bytes) : std::nullopt;
      if (!end || *end > kMaxTensorBytes) {
        return fail(ErrorCode::kLimitExceeded,
                    "the tensors that were cut take more than 2^63 bytes", Error::kNoOffset,
                    path_of(entry));
      }
      for (BoxCopy& copy : found.copies) {
        copy.to += *begin;
        copies.push_back(std::move(copy));
      }
      release_memory(found.copies);
      found.tensor.file = number;
      found.tensor.offset = *begin;
      file.length = *end;
    }
    file.maker = std::make_shared<BoxMaker>(std::move(copies));
    parts_.files.push_back(std::move(file));
    return {};
  }

  // --- Metadata --------------------------------------------------------------------------------

  Node text_node(std::string_view text) {
    texts_.push_back(text);
    return {Node::Type::kText, static_cast<std::uint32_t>(texts_.size() - 1), 0};
  }

  std::uint32_t list_metadata() {
    Branch said;
    const auto add = [&](std::string_view key, const auto& text) {
      if (text) said.children.push_back({KeyView::of(key), text_node(*text)});
    };
    add("version", metadata_.version);
    add("checkpoint_id", metadata_.checkpoint_id);
    add("save_id", metadata_.save_id);
    if (!metadata_.modules.empty()) {
      Branch modules{.is_list = true};
      for (const std::string_view module : metadata_.modules) {
        modules.children.push_back({{}, text_node(module)});
      }
      said.children.push_back({KeyView::of(std::string_view("modules")), add_branch(modules)});
    }
    Branch root;
    if (!said.children.empty()) {
      root.children.push_back({KeyView::of(kDistributedKey), add_branch(said)});
    }
    return add_branch(root).number;
  }

  Node add_branch(Branch& branch) {
    branches_.push_back(std::move(branch));
    return {Node::Type::kBranch, static_cast<std::uint32_t>(branches_.size() - 1), 0};
  }

  static constexpr std::string_view kFileProblem = "file";

  bool is_contradictory_ = false;  // the entry that find() is at
  std::optional<Error> contradiction_;
  const DcpMetadata& metadata_;
  const std::vector<OpenedItem>& items_;
  const Limits& limits_;
  TableBuilder builder_;
  ForeignParts parts_;
  std::vector<Branch> branches_;
  std::map<Slot, Node> slots_;
  std::vector<std::uint32_t> is_flat_;  // entries that stand under their names; sorted
  std::vector<Found> found_;
  std::set<std::string> code_;                   // messages of notes on it
  std::map<std::uint32_t, std::uint64_t> lost_;  // entries by the file that is missing
  std::map<std::uint32_t, NodeCopier> copiers_;  // by item
  std::vector<std::string_view> texts_;
};

}  // namespace

Result<ForeignParts> join_dcp(const DcpMetadata& metadata, const std::vector<OpenedItem>& items,
                              FileSet files, Notes notes, const Limits& limits) {
  return DcpJoiner(metadata, items, std::move(files), std::move(notes), limits).run();
}

}  // namespace espalier
