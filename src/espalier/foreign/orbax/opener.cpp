#include "espalier/foreign/orbax/opener.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/detail/catalog.h"
#include "espalier/foreign/ocdbt/envelope.h"
#include "espalier/foreign/orbax/format.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/key_path.h"

namespace espalier {
namespace {

constexpr std::uint64_t kMostOrbaxFiles =
    std::uint64_t{std::numeric_limits<std::uint16_t>::max()} + 1;
constexpr std::string_view kManifest = "manifest.ocdbt";
constexpr std::string_view kTree = "_METADATA";
constexpr std::string_view kCheckpoint = "_CHECKPOINT_METADATA";
constexpr std::string_view kCommitted = "commit_success.txt";
// The key of all that these files say of the checkpoint, in its metadata.
constexpr std::string_view kOrbaxKey = "orbax.checkpoint";
// Small arrays are made together, so that there are few files; more of them, if there are many.
constexpr std::uint64_t kMadeTogether = std::uint64_t{256} << 10;
constexpr std::uint64_t kMostMadeFiles = 32 * 1024;
constexpr std::uint64_t kMadeAlignment = 64;

// Which of the three files begins like that; empty for none. Python writes JSON without spaces
// before the first key.
std::string_view role_of(ByteSpan front) {
  if (has_ocdbt_magic(front, OcdbtMagic::kManifest)) return kManifest;
  const std::string_view text = as_text(front);
  if (text.starts_with("{\"tree_metadata\"")) return kTree;
  if (text.starts_with("{\"item_handlers\"")) return kCheckpoint;
  const bool may_be = text.starts_with("{\"metrics\"") || text.starts_with("{\"init_timestamp");
  return may_be && text.find("\"performance_metrics\"") != std::string_view::npos
             ? kCheckpoint
             : std::string_view();
}

}  // namespace

bool looks_like_orbax(ByteSpan front, std::uint64_t) { return !role_of(front).empty(); }

OrbaxOpener::OrbaxOpener(const OpenOptions& options)
    : StepOpener(options),
      folder_({[this](const Extent& extent, MutableByteSpan to) { want(extent, to); },
               [this](std::vector<std::string> names) {
                 return want_files(std::move(names), FilePlace::kBelow);
               },
               &files()}) {}

Result<void> OrbaxOpener::step() {
  do {
    folder_.begin_step();
    if (!is_begun_) {
      if (auto ok = begin(); !ok) return ok;
    }
    const auto is_known = checkpoint_.step(folder_, options().limits);
    if (!is_known) return propagate(is_known);
    if (!*is_known) return {};
    if (!is_commit_known_) {
      const auto is_commit_known = check_commit();
      if (!is_commit_known) return propagate(is_commit_known);
      if (!*is_commit_known) return {};
      is_commit_known_ = true;
    }
    if (!are_items_known_) {
      if (auto ok = add_items(); !ok) return ok;
    }
    bool is_done = true;
    for (Item& item : items_) {
      if (item.is_done) continue;
      auto done = step_item(item);
      if (!done) {
        if (ends_all(done.error().code)) return propagate(done);
        item.problem = std::move(done.error());
      }
      item.is_done = !done || *done;
      is_done = is_done && item.is_done;
    }
    if (is_done) return {};
    // Nothing was wanted: what comes next needs no more bytes.
  } while (!folder_.has_wanted());
  return {};
}

Result<void> OrbaxOpener::begin() {
  is_begun_ = true;
  const std::string_view role = role_of(front());
  folder_.name_first(std::string(role));
  if (auto ok = checkpoint_.ask(folder_, std::string(kCheckpoint)); !ok) return ok;
  is_opened_by_checkpoint_ = role == kCheckpoint;
  // That of an item names no others.
  if (is_opened_by_checkpoint_) return {};
  are_items_known_ = true;
  return add_item({}, {});
}

// Refuses a save that has not finished. Where folders cannot be renamed, as in object stores, one
// is called as a finished one is. Orbax sets the time of the commit, and then writes the file.
// Finished saves of older versions may lack both: what they do not say is no time that is null.
Result<bool> OrbaxOpener::check_commit() {
  if (!commit_file_) {
    const auto root = checkpoint_.object();
    if (!root && is_opened_by_checkpoint_) return propagate(root);
    // Beside an item that was opened by a file of its own, it may be damaged.
    if (!root || !*root) return true;
    checkpoint_root_ = *root;
    const auto begun = checkpoint_root_->member("init_timestamp_nsecs");
    const auto committed = checkpoint_root_->member("commit_timestamp_nsecs");
    if (!begun || begun->is_null() || !committed || !committed->is_null()) return true;
    const auto number = folder_.number_of(std::string(kCommitted));
    if (!number) return propagate(number);
    commit_file_ = *number;
  }
  if (!folder_.is_answered(*commit_file_)) return false;
  if (folder_.is_there(*commit_file_)) return true;
  Error error{ErrorCode::kForeignInvalid,
              Error::kNoOffset,
              {},
              "the save did not finish: _CHECKPOINT_METADATA has the time when it began and none "
              "when it was committed, and there is no commit_success.txt; open an earlier step, or "
              "download the checkpoint again"};
  error.file = checkpoint_.name();
  return tl::unexpected<Error>(std::move(error));
}

Result<void> OrbaxOpener::add_items() {
  are_items_known_ = true;
  const auto handlers = checkpoint_root_ ? checkpoint_root_->member("item_handlers") : std::nullopt;
  if (handlers && handlers->is_object()) {
    for (const auto& [name, handler] : handlers->members()) {
      if (auto ok = add_item(std::string(name), std::string(handler.text().value_or(""))); !ok) {
        return ok;
      }
    }
    return {};
  }
  if (auto ok = add_item({}, {}); !ok) return ok;
  if (handlers && handlers->text()) return {};
  // It does not say whether it has items: these are usual.
  are_names_guessed_ = true;
  for (const char* const name : {"state", "default", "params", "pytree"}) {
    if (auto ok = add_item(name, {}); !ok) return ok;
  }
  return add_item("metadata", "Json");
}

Result<void> OrbaxOpener::add_item(std::string name, std::string handler) {
  Item item{.name = std::move(name), .handler = std::move(handler)};
  if (!item.name.empty() && !is_sibling_name(item.name)) {
    item.is_done = true;
    item.problem = Error{ErrorCode::kForeignInvalid,
                         Error::kNoOffset,
                         {},
                         "its name is none of a folder in the checkpoint's"};
  } else {
    const std::string below = item.name.empty() ? "" : item.name + "/";
    if (item.handler.find("Json") != std::string::npos) {
      if (auto ok = item.json.ask(folder_, below + "metadata"); !ok) return ok;
      if (auto ok = item.new_json.ask(folder_, below + "data.json"); !ok) return ok;
    } else {
      item.item = std::make_unique<OrbaxItem>(folder_, below, options().limits);
    }
  }
  items_.push_back(std::move(item));
  return {};
}

Result<bool> OrbaxOpener::step_item(Item& item) {
  if (item.item) return item.item->step();
  auto old = item.json.step(folder_, options().limits);
  if (!old) return old;
  auto now = item.new_json.step(folder_, options().limits);
  if (!now) return now;
  return *old && *now;
}

Result<std::uint32_t> OrbaxOpener::build_state(OrbaxParts& parts) {
  const auto is_tree = [&](const Item& item) {
    // Of names that were guessed, and of handlers that do not save arrays, there may be nothing.
    const bool saves_arrays = item.handler.find("PyTree") != std::string::npos ||
                              item.handler.find("Standard") != std::string::npos ||
                              item.name.empty();
    return item.item && (item.item->is_found() || (saves_arrays && !are_names_guessed_));
  };
  std::vector<Item*> trees;
  for (Item& item : items_) {
    if (is_tree(item)) {
      trees.push_back(&item);
    } else if (item.item && !are_names_guessed_ &&
               item.handler.find("Descriptor") == std::string::npos) {
      parts.notes.add({Note::Kind::kLoss,
                       {},
                       "the item '" + item.name + "' was saved by " + item.handler +
                           ", which is not known; it is left out"});
    } else if (!item.item && item.problem) {
      parts.notes.add({Note::Kind::kLoss,
                       {},
                       "the item '" + item.name + "' cannot be read: " + item.problem->message});
    }
  }
  if (trees.empty()) {
    return fail(ErrorCode::kForeignInvalid,
                "the checkpoint has no item with arrays; its folders may be missing: copy or "
                "download all of it");
  }
  const bool is_one = trees.size() == 1;
  const std::uint32_t root = is_one ? 0 : parts.tree.add({});
  std::optional<Error> first;
  bool has_tree = false;
  std::uint32_t only = root;
  for (Item* const item : trees) {
    std::string path;
    if (!is_one) append_path(path, KeyView::of(std::string_view(item->name)), DigitMark::kNever);
    auto built = item->problem ? Result<std::uint32_t>(tl::unexpected<Error>(*item->problem))
                               : item->item->build(path, parts);
    if (!built) {
      if (ends_all(built.error().code)) return built;
      if (!first) first = built.error();
      const Error& error = built.error();
      parts.notes.add({Note::Kind::kLoss, path,
                       "this item cannot be read: " +
                           (error.file.empty() ? "" : error.file + ": ") + error.message});
      continue;
    }
    has_tree = true;
    only = *built;
    if (!is_one) parts.tree.add_child(root, item->name, *built);
  }
  if (!has_tree) return tl::unexpected<Error>(std::move(*first));
  if (first && !parts.damage) parts.damage = std::move(first);
  return is_one ? only : root;
}

Result<std::uint32_t> OrbaxOpener::build_metadata(OrbaxParts& parts) {
  const std::uint32_t root = parts.tree.add({});
  const std::uint32_t said = parts.tree.add({});
  const auto add = [&](std::uint32_t parent, std::string_view key, JsonRef value) {
    if (value.is_null() || ((value.is_object() || value.is_array()) && value.size() == 0)) return;
    parts.tree.add_child(parent, key, parts.tree.add_json(value));
  };
  if (checkpoint_root_) {
    for (const auto& [key, value] : checkpoint_root_->members()) {
      if (key != "item_handlers") add(said, key, value);
    }
  }
  const std::uint32_t trees = parts.tree.add({});
  for (Item& item : items_) {
    if (item.item) {
      const auto custom = item.item->custom_metadata();
      if (custom) add(trees, item.name, *custom);
      continue;
    }
    for (WholeFile* const file : {&item.json, &item.new_json}) {
      if (!file->is_there()) continue;
      const auto object = file->object();
      if (object && *object) {
        parts.tree.add_child(root, item.name, parts.tree.add_json(**object));
      } else {
        parts.notes.add({Note::Kind::kLoss,
                         {},
                         "the item '" + item.name + "' cannot be read: " + file->name() +
                             " is not a JSON object"});
      }
      break;
    }
  }
  if (!parts.tree[trees].children.empty()) {
    // Of an item that is the whole state, without its name.
    const bool is_one = parts.tree[trees].children.size() == 1;
    parts.tree.add_child(said, "pytree_metadata",
                         is_one ? parts.tree[trees].children[0].node : trees);
  }
  const bool has_own = !parts.tree[said].children.empty();
  const bool is_taken = std::any_of(items_.begin(), items_.end(),
                                    [](const Item& item) { return item.name == kOrbaxKey; });
  if (has_own && !is_taken) parts.tree.add_child(root, kOrbaxKey, said);
  return root;
}

// A file for each large array, and for many small ones.
Result<void> make_orbax_files(OrbaxParts& parts, FileSet& files) {
  // Most of the files that were looked for need not be there.
  for (std::uint32_t number = 1; number < files.size(); ++number) {
    FileEntry& file = files[number];
    if (file.problem && !parts.lost.contains(number)) {
      file.problem.reset();
      file.length = 0;
    }
  }
  std::uint64_t all = 0;
  for (const auto& made : parts.made) {
    const auto sum = checked_add(all, made.part.array->bytes());
    if (!sum) {
      return fail(ErrorCode::kLimitExceeded,
                  "the arrays of the checkpoint take more than 2^64 bytes");
    }
    all = *sum;
  }
  const std::uint64_t together = std::max(kMadeTogether, all / kMostMadeFiles);
  const auto keeper =
      std::make_shared<const std::vector<std::shared_ptr<const void>>>(std::move(parts.keepers));
  std::vector<ZarrPart> group;
  std::vector<std::uint32_t> nodes;
  FileEntry file;
  const auto close = [&]() -> Result<void> {
    if (group.empty()) return {};
    if (files.size() >= kMostOrbaxFiles) {
      return fail(ErrorCode::kLimitExceeded,
                  "the checkpoint has more than 65535 files, with those that are made when they "
                  "are read");
    }
    file.name = "arrays";
    file.maker = std::make_shared<ZarrMaker>(std::exchange(group, {}), keeper);
    for (const std::uint32_t node : nodes) {
      parts.tree[node].tensor.file = static_cast<std::uint16_t>(files.size());
    }
    files.push_back(std::exchange(file, {}));
    nodes.clear();
    return {};
  };
  // The small ones first, as they share files.
  for (const bool are_large : {false, true}) {
    for (auto& [places, part] : parts.made) {
      const std::uint64_t bytes = part.array ? part.array->bytes() : 0;
      if (!part.array || (bytes >= together) != are_large) continue;
      file.length = (file.length + kMadeAlignment - 1) / kMadeAlignment * kMadeAlignment;
      part.to = file.length;
      for (const std::uint32_t node : places) parts.tree[node].tensor.offset = file.length;
      file.length += bytes;
      nodes.insert(nodes.end(), places.begin(), places.end());
      group.push_back(std::move(part));
      if (file.length < together) continue;
      if (auto ok = close(); !ok) return ok;
    }
    if (auto ok = close(); !ok) return ok;
  }
  return {};
}

Result<Checkpoint> OrbaxOpener::build() {
  OrbaxParts parts;
  if (!checkpoint_root_ && checkpoint_.is_there()) {
    parts.notes.add({Note::Kind::kLoss, {}, "_CHECKPOINT_METADATA is not JSON; it is left out"});
  }
  const auto state = build_state(parts);
  if (!state) return propagate(state);
  const auto metadata = build_metadata(parts);
  if (!metadata) return propagate(metadata);
  if (auto ok = make_orbax_files(parts, files()); !ok) return propagate(ok);
  auto tables = orbax_tables(parts.tree, *state, *metadata, options().limits);
  if (!tables) return propagate(tables);
  ForeignParts foreign{.format = &kOrbaxFormat,
                       .tables = std::move(*tables),
                       .files = std::move(files()),
                       .notes = std::move(parts.notes),
                       .nest = options().nest};
  if (parts.damage) foreign.files.push_back({.problem = std::move(parts.damage)});
  auto catalog = Catalog::from_foreign(std::move(foreign), options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
