#include "espalier/foreign/msgpack/arrays_beside.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/foreign/common/foreign_tensor.h"
#include "espalier/foreign/orbax/opener.h"
#include "espalier/key_path.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

constexpr std::string_view kOfOrbax = "PLACEHOLDER://";
constexpr std::string_view kOfFlax = "//GDAPlaceholder:";
constexpr std::string_view kFolderOfFlax = "_gda/";

// The texts that begin so, each once, in the order of the file. Keys are none.
std::vector<std::string_view> texts_with(const MsgpackTree& tree, std::string_view beginning) {
  std::vector<std::string_view> texts;
  std::set<std::string_view> known;
  struct Level {
    std::uint32_t end;
    bool has_keys;
    bool is_key;
  };
  std::vector<Level> levels = {{static_cast<std::uint32_t>(tree.nodes.size()), false, false}};
  for (std::uint32_t at = 0; at < tree.nodes.size(); ++at) {
    while (levels.size() > 1 && at == levels.back().end) levels.pop_back();
    Level& level = levels.back();
    const MsgpackNode& node = tree.nodes[at];
    const bool is_key = level.has_keys && level.is_key;
    level.is_key = !level.is_key;
    const bool is_map = node.type == MsgpackNode::Type::kMap;
    if (is_map || node.type == MsgpackNode::Type::kArray) {
      levels.push_back({at + node.span, is_map, true});
    } else if (node.type == MsgpackNode::Type::kText && !is_key &&
               node.as_text().starts_with(beginning) && known.insert(node.as_text()).second) {
      texts.push_back(node.as_text());
    }
  }
  return texts;
}

}  // namespace

MsgpackArraysBeside::MsgpackArraysBeside(FolderFiles::Opener opener, std::string_view file_name,
                                         const Limits& limits)
    : folder_(std::move(opener)), file_name_(file_name), limits_(limits) {}

void MsgpackArraysBeside::begin(const MsgpackTree& tree) {
  add_group(texts_with(tree, kOfOrbax), kOfOrbax, "");
  add_group(texts_with(tree, kOfFlax), kOfFlax,
            file_name_.empty() ? "" : file_name_ + std::string(kFolderOfFlax));
  if (!groups_.empty() && groups_.back().texts.front().starts_with(kOfFlax) && file_name_.empty()) {
    groups_.back().is_done = true;
    groups_.back().problem = Error{ErrorCode::kFileMissing,
                                   Error::kNoOffset,
                                   {},
                                   "their folder is called after the file, whose name is not known "
                                   "here; say it, or open the file by its path"};
  }
}

void MsgpackArraysBeside::add_group(std::vector<std::string_view> texts, std::string_view beginning,
                                    const std::string& folder) {
  if (texts.empty()) return;
  std::vector<std::string> names;
  names.reserve(texts.size());
  for (const std::string_view text : texts) names.emplace_back(text.substr(beginning.size()));
  groups_.push_back(
      {.texts = std::move(texts),
       .item = std::make_unique<OrbaxItem>(folder_, folder, limits_, std::move(names))});
}

Result<void> MsgpackArraysBeside::step() {
  bool is_done = false;
  do {
    folder_.begin_step();
    is_done = true;
    for (Group& group : groups_) {
      if (group.is_done) continue;
      auto done = group.item->step();
      if (!done) {
        if (ends_all(done.error().code)) return propagate(done);
        group.problem = std::move(done.error());
      }
      group.is_done = !done || *done;
      is_done = is_done && group.is_done;
    }
    // Nothing was wanted: what comes next needs no more bytes.
  } while (!is_done && !folder_.has_wanted());
  return {};
}

Result<void> MsgpackArraysBeside::build(FileSet& files, Notes& notes) {
  for (Group& group : groups_) {
    if (auto ok = build_group(group, notes); !ok) return ok;
  }
  return make_orbax_files(parts_, files);
}

Result<void> MsgpackArraysBeside::build_group(Group& group, Notes& notes) {
  auto root = group.problem ? Result<std::uint32_t>(tl::unexpected<Error>(*group.problem))
                            : group.item->build({}, parts_);
  if (!root) {
    if (ends_all(root.error().code)) return propagate(root);
    Error& error = root.error();
    const std::uint32_t unknown = parts_.tree.add({.type = OrbaxNode::Type::kPlaceholder,
                                                   .tensor = {.dtype = DType::kOpaque,
                                                              .block = {kUnknownDtype, 1, 1},
                                                              .shape = {1},
                                                              .strides = {}}});
    for (const std::string_view text : group.texts) found_[text] = {&parts_.tree[unknown]};
    notes.add({Note::Kind::kLoss,
               {},
               "only the names are known of " + counted(group.texts.size(), "array") +
                   " in folders beside the file: " + (error.file.empty() ? "" : error.file + ": ") +
                   error.message});
    if (!parts_.damage) parts_.damage = std::move(error);
    return {};
  }
  // What is said of an array, by the path of its name.
  std::map<std::string, std::string_view> texts;
  const auto& arrays = parts_.tree[*root].children;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    found_[group.texts[i]] = {&parts_.tree[arrays[i].node]};
    std::string path;
    append_path(path, KeyView::of(arrays[i].key), DigitMark::kNever);
    texts.emplace(std::move(path), group.texts[i]);
  }
  const Notes said = std::exchange(parts_.notes, {});
  for (const Note& note : said.listed()) {
    const auto text = texts.find(note.path);
    if (text == texts.end()) {
      notes.add(note);
    } else {
      found_[text->second].notes.push_back(note);
    }
  }
  for (std::uint64_t i = said.listed().size(); i < said.count(); ++i) notes.add({});
  if (parts_.damage && damaged_text_.empty()) {
    if (const auto text = texts.find(parts_.damage->path); text != texts.end()) {
      damaged_text_ = text->second;
    }
  }
  return {};
}

const MsgpackArraysBeside::Found* MsgpackArraysBeside::find(std::string_view text) const {
  const auto found = found_.find(text);
  return found == found_.end() ? nullptr : &found->second;
}

}  // namespace espalier
