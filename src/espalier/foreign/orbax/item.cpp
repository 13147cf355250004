#include "espalier/foreign/orbax/item.h"

#include <algorithm>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/foreign/common/json_text.h"
#include "espalier/format/table_builder.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

using OrbaxType = OrbaxNode::Type;

constexpr std::string_view kZarr2 = ".zarray";
constexpr std::string_view kZarr3 = "zarr.json";
constexpr std::string_view kKeyLabel = "jax.random.key/";
constexpr std::uint32_t kMostRichDepth = 200;
constexpr std::uint64_t kLeastForAbsent = 1024;

bool is_true(JsonRef json, std::string_view name) {
  const auto member = json.member(name);
  return member && member->boolean() == true;
}

// The name of the array whose metadata are under that key.
std::optional<std::string_view> array_of(std::string_view key, std::string_view ending) {
  if (key == ending) return std::string_view();
  if (!key.ends_with(ending)) return std::nullopt;
  key.remove_suffix(ending.size());
  if (!key.ends_with('/')) return std::nullopt;
  key.remove_suffix(1);
  return key;
}

std::string below(const std::string& name) { return name.empty() ? name : name + "/"; }

bool has_array(const OrbaxLeaf& leaf) {
  return !leaf.is_empty && (leaf.value_type == "jax.Array" || leaf.value_type == "np.ndarray" ||
                            leaf.value_type == "scalar");
}

// The bytes of chunks; those that several lie on once.
std::uint64_t distinct_bytes(const std::vector<ZarrChunk>& chunks) {
  std::map<std::uint32_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>> by_file;
  std::uint64_t bytes = 0;
  for (const ZarrChunk& chunk : chunks) {
    if (chunk.is_inline) {
      bytes += chunk.inline_bytes.size();
    } else {
      by_file[chunk.extent.file].emplace_back(chunk.extent.offset, chunk.extent.length);
    }
  }
  for (auto& [file, stretches] : by_file) bytes += covered_bytes(std::move(stretches));
  return bytes;
}

}  // namespace

OrbaxItem::OrbaxItem(FolderFiles& files, std::string folder, const Limits& limits)
    : files_(files),
      folder_(std::move(folder)),
      limits_(limits),
      database_(files, folder_, limits) {}

OrbaxItem::OrbaxItem(FolderFiles& files, std::string folder, const Limits& limits,
                     std::vector<std::string> names)
    : files_(files),
      folder_(std::move(folder)),
      limits_(limits),
      names_(std::move(names)),
      database_(files, folder_, limits) {}

tl::unexpected<Error> OrbaxItem::bad(ErrorCode code, const std::string& message,
                                     const std::string& file) const {
  Error error{code, Error::kNoOffset, {}, message};
  error.file = folder_ + file;
  return tl::unexpected<Error>(std::move(error));
}

std::optional<JsonRef> OrbaxItem::custom_metadata() const {
  return metadata_root_ ? metadata_root_->member("custom_metadata") : std::nullopt;
}

Result<bool> OrbaxItem::step() {
  switch (stage_) {
    case Stage::kBegin: {
      const auto first_process = files_.number_of(folder_ + "ocdbt.process_0/manifest.ocdbt");
      if (!first_process) return propagate(first_process);
      first_process_ = *first_process;
      for (const auto& [file, name] :
           {std::pair(&metadata_, "_METADATA"), std::pair(&manifest_, "manifest.ocdbt"),
            std::pair(&strings_, "_strings.json"),
            std::pair(&array_metadata_, "array_metadatas/process_0")}) {
        if (auto ok = file->ask(files_, folder_ + name); !ok) return propagate(ok);
      }
      stage_ = Stage::kFiles;
      return false;
    }
    case Stage::kFiles: {
      bool is_done = files_.is_answered(first_process_);
      for (WholeFile* const file : {&metadata_, &manifest_, &strings_, &array_metadata_}) {
        const auto has_come = file->step(files_, limits_);
        if (!has_come) return propagate(has_come);
        is_found_ = is_found_ || file->is_there();
        is_done = is_done && *has_come;
      }
      if (!is_done) return false;
      if (auto ok = choose_layout(); !ok) return propagate(ok);
      return false;
    }
    case Stage::kDatabase: {
      const auto is_done = database_.step();
      if (!is_done) return propagate(is_done);
      if (!*is_done) return false;
      if (auto ok = find_arrays(); !ok) return propagate(ok);
      stage_ = Stage::kArrays;
      return false;
    }
    case Stage::kArrays: {
      if (is_plain_) {
        bool is_done = true;
        for (auto& [name, array] : arrays_) {
          const auto has_come = array.file.step(files_, limits_);
          if (!has_come) return propagate(has_come);
          is_done = is_done && *has_come;
          array.json = array.file.bytes();
        }
        if (!is_done) return false;
      } else {
        // Long ones stand beside the nodes.
        bool is_done = true;
        for (auto& [name, array] : arrays_) {
          const auto& entries = database_.entries();
          const auto entry = std::lower_bound(
              entries.begin(), entries.end(), array.key,
              [](const OcdbtEntry& each, const std::string& key) { return each.key < key; });
          const OcdbtValue& value = entry->value;
          if (value.is_inline) {
            array.json = value.inline_bytes;
            continue;
          }
          if (!array.bytes.empty() || array.problem) {
            array.json = array.bytes;
            continue;
          }
          if (!files_.is_answered(value.extent.file)) {
            is_done = false;
            continue;
          }
          const FileEntry& file = files_[value.extent.file];
          if (file.problem || !range_fits(value.extent.offset, value.extent.length, file.length)) {
            array.problem = Error{ErrorCode::kForeignInvalid,
                                  Error::kNoOffset,
                                  {},
                                  "its metadata cannot be read from " + file.name};
            continue;
          }
          // Any number of keys may have the same bytes.
          json_bytes_ += value.extent.length;
          if (json_bytes_ > limits_.foreign_header_bytes) {
            return bad(ErrorCode::kLimitExceeded,
                       "the metadata of its arrays have " + counted(json_bytes_, "byte") +
                           " and Limits::foreign_header_bytes allows " +
                           std::to_string(limits_.foreign_header_bytes),
                       "manifest.ocdbt");
          }
          array.bytes.resize(static_cast<std::size_t>(value.extent.length));
          files_.want(value.extent, array.bytes);
          is_done = is_done && array.bytes.empty();
        }
        if (!is_done) return false;
      }
      if (auto ok = parse_arrays(); !ok) return propagate(ok);
      stage_ = Stage::kChunks;
      return false;
    }
    case Stage::kChunks:
      // All that was wanted is known after this step.
      stage_ = Stage::kDone;
      return false;
    case Stage::kDone:
      break;
  }
  return true;
}

bool OrbaxItem::names_arrays() const {
  if (!metadata_root_) return false;
  OrbaxTree tree;
  Notes notes;
  const auto read = read_orbax_tree(*metadata_root_, std::nullopt, {}, limits_, tree, notes);
  return read && std::any_of(read->leaves.begin(), read->leaves.end(), has_array);
}

Result<void> OrbaxItem::choose_layout() {
  const auto object = metadata_.object();
  if (!object && !names_) return propagate(object);
  if (object) metadata_root_ = *object;
  if (metadata_root_ && !names_) {
    if (const std::string_view rich = text_of(metadata_root_->member("value_metadata_tree"));
        !rich.empty()) {
      auto json = JsonTree::parse(rich, kMostRichDepth, JsonDialect::kOfPython);
      if (json) rich_ = std::move(*json);
    }
  }
  if (manifest_.is_there()) {
    if (auto ok = database_.begin(manifest_.bytes()); !ok) {
      if (ok.error().file.empty()) ok.error().file = manifest_.name();
      return ok;
    }
    stage_ = Stage::kDatabase;
    return {};
  }
  if (files_.is_there(first_process_)) {
    return bad(ErrorCode::kForeignInvalid,
               "the save did not finish: its processes wrote their arrays, and the file that joins "
               "them is missing; open an earlier step, or download the checkpoint again",
               "manifest.ocdbt");
  }
  if (!metadata_root_ && !names_) {
    return bad(ErrorCode::kFileMissing,
               "neither this file nor manifest.ocdbt is there, so nothing says what was saved; "
               "copy or download the whole folder",
               "_METADATA");
  }
  if (metadata_root_ && names_arrays() && is_true(*metadata_root_, "use_ocdbt")) {
    return bad(ErrorCode::kFileMissing,
               "the checkpoint has arrays in an OCDBT database, whose manifest is missing; copy or "
               "download the whole folder",
               "manifest.ocdbt");
  }
  is_plain_ = true;
  stage_ = Stage::kArrays;
  return find_plain_arrays();
}

Result<void> OrbaxItem::find_plain_arrays() {
  std::vector<std::string> names;
  if (names_) {
    names = *names_;
  } else {
    OrbaxTree tree;
    Notes notes;
    auto read = read_orbax_tree(*metadata_root_, std::nullopt, {}, limits_, tree, notes);
    if (!read) return propagate(read);
    for (OrbaxLeaf& leaf : read->leaves) {
      if (has_array(leaf)) names.push_back(std::move(leaf.name));
    }
  }
  const bool is_v3 = metadata_root_ && is_true(*metadata_root_, "use_zarr3");
  for (const std::string& array_name : names) {
    const auto [found, is_new] = arrays_.try_emplace(array_name);
    if (!is_new) continue;
    Array& array = found->second;
    array.is_v3 = is_v3;
    const std::string name = below(array_name) + std::string(is_v3 ? kZarr3 : kZarr2);
    // Such a name was written outside of the checkpoint, if at all.
    if (!is_name_below(folder_ + name)) {
      array.problem = Error{ErrorCode::kForeignInvalid,
                            Error::kNoOffset,
                            {},
                            "its name '" + array_name +
                                "' is no path below the checkpoint's folder, so it was not saved "
                                "there; nothing is read from elsewhere"};
      continue;
    }
    if (auto ok = array.file.ask(files_, folder_ + name); !ok) return ok;
  }
  return {};
}

Result<void> OrbaxItem::find_arrays() {
  for (const OcdbtEntry& entry : database_.entries()) {
    for (const std::string_view ending : {kZarr2, kZarr3}) {
      const auto name = array_of(entry.key, ending);
      if (!name) continue;
      const auto [found, is_new] = arrays_.try_emplace(std::string(*name));
      Array& array = found->second;
      if (!is_new) {
        array.problem = Error{ErrorCode::kForeignInvalid,
                              Error::kNoOffset,
                              {},
                              "the database has metadata of zarr 2 and of zarr 3 for it"};
      }
      array.is_v3 = ending == kZarr3;
      array.key = entry.key;
    }
  }
  return {};
}

Result<void> OrbaxItem::parse_arrays() {
  for (auto& [name, array] : arrays_) {
    if (array.problem) continue;
    if (is_plain_ && !array.file.is_there()) {
      array.problem = Error{ErrorCode::kFileMissing,
                            Error::kNoOffset,
                            {},
                            "its file " + array.file.name() + " is missing"};
      continue;
    }
    auto parsed = array.is_v3 ? parse_zarr3(as_text(array.json), limits_)
                              : parse_zarr2(as_text(array.json), limits_);
    if (!parsed) {
      array.problem = std::move(parsed.error());
      continue;
    }
    array.array = std::make_shared<const ZarrArray>(std::move(*parsed));
    if (auto ok = find_chunks(name, array); !ok) return ok;
  }
  return {};
}

Result<void> OrbaxItem::find_chunks(const std::string& name, Array& array) {
  const ZarrArray& zarr = *array.array;
  if (is_plain_) {
    std::uint64_t count = 1;
    for (const std::uint64_t each : zarr.counts()) count *= each;
    for (std::uint64_t number = 0; number < count; ++number) {
      const std::string file = folder_ + below(name) + zarr.chunk_name(number);
      auto known = files_.number_of(file);
      if (!known) return propagate(known);
      array.files.push_back(*known);
    }
    return {};
  }
  const auto& entries = database_.entries();
  const std::string prefix = below(name);
  auto entry = std::lower_bound(
      entries.begin(), entries.end(), prefix,
      [](const OcdbtEntry& each, const std::string& key) { return each.key < key; });
  for (; entry != entries.end() && entry->key.starts_with(prefix); ++entry) {
    // Arrays inside of arrays inside of arrays: no program names them so.
    if (++scanned_ > 64 * (entries.size() + 1024)) {
      return fail(ErrorCode::kLimitExceeded, "the arrays of the checkpoint lie in each other");
    }
    const auto number = zarr.chunk_number(entry->key.substr(prefix.size()));
    if (!number) continue;
    const OcdbtValue& value = entry->value;
    array.chunks.push_back({*number, value.extent, value.inline_bytes, value.is_inline});
  }
  std::sort(array.chunks.begin(), array.chunks.end(),
            [](const ZarrChunk& a, const ZarrChunk& b) { return a.number < b.number; });
  return {};
}

// Fills the leaves of an item's tree.
class OrbaxItem::Builder {
 public:
  Builder(OrbaxItem& item, std::string path, OrbaxParts& parts)
      : item_(item), path_(std::move(path)), parts_(parts) {}

  Result<std::uint32_t> run() {
    parts_.keepers.push_back(item_.database_.keeper());
    if (auto ok = read_random_keys(); !ok) return propagate(ok);
    auto strings = item_.strings_.object();
    if (!strings) return propagate(strings);
    if (*strings) {
      // The last one counts if there are two, as in Python.
      for (const auto& [name, text] : (*strings)->members()) {
        strings_.insert_or_assign(name, text);
      }
    }
    OrbaxItemTree read;
    if (item_.names_) {
      read = tree_of(*item_.names_);
      set_types(read);
    } else if (item_.metadata_root_) {
      auto tree = read_orbax_tree(*item_.metadata_root_,
                                  item_.rich_ ? std::optional(item_.rich_->root()) : std::nullopt,
                                  path_, item_.limits_, parts_.tree, parts_.notes);
      if (!tree) {
        tree.error().file = item_.metadata_.name();
        return propagate(tree);
      }
      read = std::move(*tree);
    } else {
      read = flat_tree();
    }
    std::map<std::string_view, const OrbaxLeaf*> names;
    for (const OrbaxLeaf& leaf : read.leaves) {
      if (has_array(leaf)) {
        const auto [first, is_new] = names.emplace(leaf.name, &leaf);
        if (!is_new) {
          note(Note::Kind::kLoss, leaf,
               "this array and " + first->second->path + " were saved under the same name, '" +
                   leaf.name + "': Orbax has kept one of them, which stands at both paths");
        }
      }
      fill(leaf);
    }
    for (const auto& [name, array] : item_.arrays_) {
      if (array.is_named || item_.is_plain_) continue;
      parts_.notes.add({Note::Kind::kLoss, path_,
                        "the array '" + name + "' is in the database, and " +
                            (item_.names_ ? "the file beside it" : "_METADATA") +
                            " does not name it; it is left out"});
    }
    return read.root;
  }

 private:
  // Without _METADATA: what dots in names stand for is unknown.
  OrbaxItemTree flat_tree() {
    std::vector<std::string> names;
    for (const auto& [name, array] : item_.arrays_) names.push_back(name);
    parts_.notes.add({Note::Kind::kWarning, path_,
                      "_METADATA is missing, so the arrays are in one dict under the names that "
                      "Orbax gave them: keys that are joined with dots"});
    return tree_of(names);
  }

  // Says of values that another file names what _METADATA and _strings.json know of them.
  void set_types(OrbaxItemTree& named) const {
    std::map<std::string_view, std::string_view> types;
    OrbaxTree tree;
    Notes notes;
    const auto known = item_.metadata_root_ ? read_orbax_tree(*item_.metadata_root_, std::nullopt,
                                                              {}, item_.limits_, tree, notes)
                                            : OrbaxItemTree();
    if (known) {
      for (const OrbaxLeaf& leaf : known->leaves) types.emplace(leaf.name, leaf.value_type);
    }
    for (const auto& [name, text] : strings_) types[name] = "string";
    for (OrbaxLeaf& leaf : named.leaves) {
      const auto type = types.find(leaf.name);
      if (type == types.end()) continue;
      if (type->second == "string" || type->second == "scalar") leaf.value_type = type->second;
    }
  }

  // Arrays in a dict. Its keys view `names` in the item, or those of its arrays.
  OrbaxItemTree tree_of(const std::vector<std::string>& names) {
    OrbaxItemTree read{.root = parts_.tree.add({.type = OrbaxType::kDict})};
    for (const std::string& name : names) {
      OrbaxLeaf leaf{.name = name, .path = path_, .value_type = "jax.Array"};
      append_path(leaf.path, KeyView::of(std::string_view(name)), DigitMark::kNever);
      leaf.node = parts_.tree.add({.type = OrbaxType::kNull});
      const auto array = item_.arrays_.find(name);
      parts_.tree.add_child(read.root, array == item_.arrays_.end() ? name : array->first,
                            leaf.node);
      read.leaves.push_back(std::move(leaf));
    }
    return read;
  }

  Result<void> read_random_keys() {
    const auto root = item_.array_metadata_.object();
    if (!root) return propagate(root);
    const auto list = *root ? (*root)->member("array_metadatas") : std::nullopt;
    if (!list || !list->is_array()) return {};
    for (const JsonRef each : *list) {
      const auto array = each.member("array_metadata");
      const auto more = array ? array->member("ext_metadata") : std::nullopt;
      const std::string_view implementation =
          text_of(more ? more->member("random_key_impl") : std::nullopt);
      if (!implementation.empty()) {
        random_keys_[text_of(array->member("param_name"))] = implementation;
      }
    }
    return {};
  }

  void note(Note::Kind kind, const OrbaxLeaf& leaf, std::string message) {
    parts_.notes.add({kind, leaf.path, std::move(message)});
  }

  void fill(const OrbaxLeaf& leaf) {
    const std::string_view type = leaf.value_type;
    OrbaxNode& node = parts_.tree[leaf.node];
    if (type == "string") {
      const auto text = strings_.find(leaf.name);
      if (text != strings_.end() && text->second.text()) {
        node = {.type = OrbaxType::kText, .text = *text->second.text()};
      } else {
        note(Note::Kind::kLoss, leaf, "_strings.json does not have this text");
      }
      return;
    }
    if (type == "None" || type == "NamedTuple") return;
    if (type == "Dict" || type == "List" || type == "Tuple") {
      if (node.is_container()) return;
      node.type = type == "Dict"   ? OrbaxType::kDict
                  : type == "List" ? OrbaxType::kList
                                   : OrbaxType::kTuple;
      return;
    }
    const auto found = item_.arrays_.find(leaf.name);
    if (!has_array(leaf)) {
      const std::string what = "its type '" + std::string(type) +
                               "' is one of a program's own handler, which is not known";
      note(found == item_.arrays_.end() ? Note::Kind::kLoss : Note::Kind::kWarning, leaf, what);
      if (found == item_.arrays_.end()) return;
    }
    if (found == item_.arrays_.end()) {
      node = unknown();
      return contradict(leaf, "the checkpoint has no array of its name, '" + leaf.name + "'");
    }
    Array& array = found->second;
    array.is_named = true;
    if (array.problem) {
      node = unknown();
      if (array.problem->code == ErrorCode::kForeignInvalid) {
        return contradict(leaf, array.problem->message);
      }
      return note(Note::Kind::kLoss, leaf, "this array cannot be read: " + array.problem->message);
    }
    fill_array(leaf, array);
  }

  static OrbaxNode unknown() {
    return {.type = OrbaxType::kPlaceholder,
            .tensor = {
                .dtype = DType::kOpaque, .block = {"unknown", 1, 1}, .shape = {1}, .strides = {}}};
  }

  // What makes verification fail, and a conversion of the whole.
  void contradict(const OrbaxLeaf& leaf, std::string message) {
    message.insert(0, "this array cannot be read: ");
    if (!parts_.damage) {
      parts_.damage = Error{ErrorCode::kForeignInvalid, Error::kNoOffset, leaf.path, message};
    }
    note(Note::Kind::kLoss, leaf, std::move(message));
  }

  void fill_array(const OrbaxLeaf& leaf, Array& array) {
    const ZarrArray& zarr = *array.array;
    if (item_.is_plain_ && array.chunks.empty()) {
      for (std::uint64_t number = 0; number < array.files.size(); ++number) {
        const std::uint32_t file = array.files[static_cast<std::size_t>(number)];
        const auto& entry = item_.files_[file];
        if (entry.problem && entry.problem->code == ErrorCode::kFileMissing) continue;
        array.chunks.push_back({number, {file, 0, entry.length}});
      }
    }
    OrbaxNode node{
        .type = OrbaxType::kTensor,
        .tensor = {.dtype = zarr.dtype, .block = zarr.block, .shape = zarr.shape, .strides = {}}};
    if (zarr.dtype == DType::kOpaque && zarr.shape.empty()) node.tensor.shape.push_back(1);
    const auto key = random_keys_.find(leaf.name);
    if (key != random_keys_.end()) {
      node.label = std::string(kKeyLabel) + std::string(key->second);
    }
    if (const std::string why = defect_of(array); !why.empty()) {
      node.type = OrbaxType::kPlaceholder;
      parts_.tree[leaf.node] = std::move(node);
      return is_damage_ ? contradict(leaf, why)
                        : note(Note::Kind::kLoss, leaf, "this array cannot be read: " + why);
    }
    if (!zarr.wider_than.empty()) {
      note(Note::Kind::kWarning, leaf,
           "its elements are of the dtype " + std::string(zarr.wider_than) +
               ", which zarr stores in a byte each; they are of " +
               std::string(dtype_name(zarr.dtype)) + " here, with the same numbers");
    }
    if (zarr.is_swapped) node.tensor.flags = kStorageSwapped;
    if (leaf.value_type == "scalar" && make_scalar(array, node)) {
      parts_.tree[leaf.node] = std::move(node);
      return;
    }
    const bool is_placed = place(array, node);
    parts_.tree[leaf.node] = std::move(node);
    if (is_placed) return;
    // Names that collide have one array.
    if (array.made) {
      parts_.made[*array.made].nodes.push_back(leaf.node);
      return;
    }
    array.made = parts_.made.size();
    parts_.made.push_back({{leaf.node}, {array.array, array.chunks}});
  }

  // Why the chunks of an array do not make it; empty if they do.
  std::string defect_of(const Array& array) {
    const ZarrArray& zarr = *array.array;
    is_damage_ = false;
    std::uint64_t count = 1;
    for (const std::uint64_t each : zarr.counts()) count *= each;
    const auto fills = [&](std::uint64_t bytes) {
      parts_.filled = checked_add(parts_.filled, bytes).value_or(~std::uint64_t{0});
      return parts_.filled <= item_.limits_.made_bytes;
    };
    constexpr std::string_view kFillsTooMuch =
        "it has chunks that are not stored, and Limits::made_bytes does not allow to fill so many "
        "of them";
    if (const std::uint64_t absent = count - array.chunks.size(); absent > 0) {
      is_damage_ = item_.metadata_root_ &&
                   is_true(*item_.metadata_root_, "store_array_data_equal_to_fill_value");
      if (is_damage_) {
        return counted(absent, "chunk") + " of its " + std::to_string(count) +
               " are missing, and the checkpoint says that it has all";
      }
      // Each takes time, however small.
      if (!fills(std::max(zarr.bytes(), absent * kLeastForAbsent)))
        return std::string(kFillsTooMuch);
    }
    const auto working = zarr_working_bytes(zarr);
    const auto size = chunk_bytes(zarr.grid, zarr.width);
    if (!working || !size || *working > item_.limits_.made_bytes) {
      return "putting its chunks together takes more memory than Limits::made_bytes allows";
    }
    std::uint64_t all_stored = 0;
    for (const ZarrChunk& chunk : array.chunks) {
      const std::uint64_t stored =
          chunk.is_inline ? chunk.inline_bytes.size() : chunk.extent.length;
      is_damage_ = true;
      if (!chunk.is_inline) {
        const FileEntry& file = item_.files_[chunk.extent.file];
        if (file.problem) {
          is_damage_ = false;
          parts_.lost.insert(chunk.extent.file);
          return "its chunks are in " + file.name + ", which cannot be opened (" +
                 std::string(to_string(file.problem->code)) + ")";
        }
        if (!range_fits(chunk.extent.offset, stored, file.length)) {
          return "a chunk of it lies beyond the end of " + file.name + ", which has " +
                 counted(file.length, "byte") + "; copy or download that again";
        }
      }
      // Stops a shape that claims gigabytes for a few bytes.
      if (!zarr.grid.inner && *size / kMostForByte > stored) {
        return "a chunk of it has too few bytes for its shape";
      }
      is_damage_ = false;
      all_stored = checked_add(all_stored, stored).value_or(~std::uint64_t{0});
    }
    // Stops a few bytes that stand for thousands of chunks, each far larger than the array.
    const std::uint64_t all = checked_mul(*size, array.chunks.size()).value_or(~std::uint64_t{0});
    if (!zarr.grid.inner && all / kMostForByte > distinct_bytes(array.chunks)) {
      is_damage_ = true;
      return "its chunks have too few bytes for their shape";
    }
    // Shards may lack chunks, too: what they cannot hold is filled.
    if (zarr.grid.inner && zarr.bytes() / kMostForByte > all_stored && !fills(zarr.bytes())) {
      return std::string(kFillsTooMuch);
    }
    return {};
  }

  // Uses the bytes where they lie, if they are all of the array as it is.
  static bool place(const Array& array, OrbaxNode& node) {
    const ZarrArray& zarr = *array.array;
    if (zarr.elements() == 0) return true;
    const ZarrGrid& grid = zarr.grid;
    const bool is_one = array.chunks.size() == 1 && grid.chunk == zarr.shape && !grid.inner &&
                        grid.packing == ZarrPacking::kNone && !grid.has_inner_crc &&
                        !grid.has_outer_crc && std::is_sorted(grid.order.begin(), grid.order.end());
    if (!is_one || array.chunks[0].is_inline || array.chunks[0].extent.length != zarr.bytes()) {
      return false;
    }
    node.tensor.file = static_cast<std::uint16_t>(array.chunks[0].extent.file);
    node.tensor.offset = array.chunks[0].extent.offset;
    return true;
  }

  // Python's own numbers: their few bytes stand in the database. Nothing changes if they do not.
  bool make_scalar(const Array& array, OrbaxNode& node) const {
    const ZarrArray& zarr = *array.array;
    const bool is_python =
        zarr.dtype == DType::kI64 || zarr.dtype == DType::kF64 || zarr.dtype == DType::kBool;
    if (!zarr.shape.empty() || !is_python || zarr.is_swapped) return false;
    for (const ZarrChunk& chunk : array.chunks) {
      if (!chunk.is_inline) return false;
    }
    std::byte bytes[8] = {};
    const MutableByteSpan out(bytes, zarr.width);
    const ZarrMaker maker({{array.array, array.chunks, 0}}, nullptr);
    const auto stream = maker.stream(out.size());
    const auto made = stream->feed({}, {}, out);
    if (!made || *made != out.size() || !stream->finish()) return false;
    if (zarr.dtype == DType::kBool) {
      node = {.type = OrbaxType::kBool, .integer = std::to_integer<int>(bytes[0]) != 0 ? 1 : 0};
    } else if (zarr.dtype == DType::kI64) {
      node = {.type = OrbaxType::kInteger, .integer = load_le<std::int64_t>(bytes)};
    } else {
      node = {.type = OrbaxType::kReal, .real = load_le<double>(bytes)};
    }
    return true;
  }

  OrbaxItem& item_;
  const std::string path_;
  OrbaxParts& parts_;
  std::map<std::string_view, JsonRef> strings_;
  std::map<std::string_view, std::string_view> random_keys_;
  bool is_damage_ = false;  // what defect_of() found
};

Result<std::uint32_t> OrbaxItem::build(const std::string& path, OrbaxParts& parts) {
  return Builder(*this, path, parts).run();
}

}  // namespace espalier
