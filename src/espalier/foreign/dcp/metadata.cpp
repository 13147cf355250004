#include "espalier/foreign/dcp/metadata.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "espalier/base/ascii.h"
#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/utf8.h"
#include "espalier/foreign/pickle/named_code.h"
#include "espalier/foreign/torch/data_globals.h"
#include "espalier/foreign/torch/pickle_rest.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/wanted_files.h"

namespace espalier {
namespace {

// Instances of torch's classes have a handful of fields.
constexpr std::uint64_t kMostFields = 64;
constexpr std::uint64_t kFreeCopies = 65'536;

// Whether `a` comes before `b` where numbers in names count as numbers.
bool natural_less(std::string_view a, std::string_view b) {
  const auto number_at = [](std::string_view text, std::size_t at) {
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    std::string_view digits = text.substr(at, end - at);
    while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
    return std::tuple(digits, end);
  };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const auto [left, left_end] = number_at(a, i);
      const auto [right, right_end] = number_at(b, j);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
      i = left_end;
      j = right_end;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return std::tuple(a.size() - i, a) < std::tuple(b.size() - j, b);
}

class Reader {
 public:
  Reader(const PickleGraph& graph, const Limits& limits, Notes& notes)
      : graph_(graph), limits_(limits), notes_(notes) {}

  Result<DcpMetadata> run() {
    if (!read_root()) return tl::unexpected<Error>(std::move(*error_));
    return std::move(found_);
  }

 private:
  using Refs = std::vector<PickleRef>;

  // Always false. The first error counts.
  bool refuse(std::string_view message, std::string_view name = {},
              ErrorCode code = ErrorCode::kForeignInvalid) {
    if (error_) return false;
    std::string path;
    if (!name.empty()) append_path(path, KeyView::of(name), DigitMark::kNever);
    error_ = Error{code, Error::kNoOffset, std::move(path), message};
    return false;
  }

  void note(Note::Kind kind, std::string_view name, std::string message) {
    std::string path;
    if (!name.empty()) append_path(path, KeyView::of(name), DigitMark::kNever);
    notes_.add({kind, std::move(path), std::move(message)});
  }

  bool is(PickleRef ref, PickleType type) const { return graph_.type(ref) == type; }
  bool is_none(PickleRef ref) const { return is(ref, PickleType::kNone); }

  // Texts occur again and again, and may be long. The number of this one: the same for equal texts.
  // Nothing if it is none, or not UTF-8.
  std::optional<std::uint32_t> text_number(PickleRef ref) {
    if (!is(ref, PickleType::kText)) return std::nullopt;
    const auto [known, is_new] = texts_by_place_.try_emplace(ref.number(), std::nullopt);
    if (is_new) {
      const PickleLiteral literal = graph_.literal(ref);
      const std::string_view found = as_text(literal.bytes);
      if (literal.is_escaped || find_invalid_utf8(found)) return std::nullopt;
      const auto next = static_cast<std::uint32_t>(found_.names.size());
      const auto [number, is_first] = texts_.try_emplace(found, next);
      if (is_first) found_.names.push_back(found);
      known->second = number->second;
    }
    return known->second;
  }

  std::optional<std::string_view> text(PickleRef ref) {
    const auto number = text_number(ref);
    if (!number) return std::nullopt;
    return found_.names[*number];
  }

  std::optional<std::int64_t> integer(PickleRef ref) const {
    if (!is(ref, PickleType::kInt)) return std::nullopt;
    return graph_.literal(ref).integer;
  }

  std::optional<PickleGlobal> global(PickleRef ref) {
    if (!is(ref, PickleType::kGlobal)) return std::nullopt;
    // Its names may be long, and it is used again and again.
    const auto [known, is_new] = globals_.try_emplace(ref.number());
    if (is_new) known->second = graph_.global(ref);
    return known->second;
  }

  // What a call calls, or the class of an instance.
  std::optional<PickleGlobal> maker(PickleRef ref) {
    if (!is(ref, PickleType::kCall) && !is(ref, PickleType::kNew)) return std::nullopt;
    return global(graph_.call(ref).callable);
  }

  bool is_instance(PickleRef ref, std::string_view name) {
    if (!is(ref, PickleType::kNew)) return false;
    const auto cls = maker(ref);
    return cls && cls->name == name && cls->module.starts_with("torch.distributed.");
  }

  // Keys and values by turns of a dict, or of the fields of an instance.
  std::optional<Refs> pairs(PickleRef ref) const {
    if (is(ref, PickleType::kNew)) {
      const PickleRef* const state = graph_.state(ref);
      if (state == nullptr) return Refs();
      ref = *state;
      if (is(ref, PickleType::kDict) && graph_.element_count(ref) > 2 * kMostFields) {
        return std::nullopt;
      }
    }
    if (!is(ref, PickleType::kDict)) return std::nullopt;
    Refs found;
    graph_.elements(ref, found);
    return found;
  }

  std::optional<PickleRef> field(const Refs& pairs, std::string_view name) const {
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      if (is(pairs[i], PickleType::kText) && as_text(graph_.literal(pairs[i]).bytes) == name) {
        return pairs[i + 1];
      }
    }
    return std::nullopt;
  }

  // The numbers of a torch.Size, appended to `out`: how many, or nothing if it is none, which the
  // caller refuses.
  std::optional<std::size_t> size(PickleRef ref, std::vector<std::uint64_t>& out) {
    for (int i = 0; i < 2 && is(ref, PickleType::kCall); ++i) {
      const auto function = maker(ref);
      const PickleRef args = graph_.call(ref).args;
      if (!function || function->name != "Size" || !is(args, PickleType::kTuple)) {
        return std::nullopt;
      }
      if (graph_.element_count(args) != 1) return std::nullopt;
      Refs inner;
      graph_.elements(args, inner);
      ref = inner[0];
    }
    if (!is(ref, PickleType::kTuple) && !is(ref, PickleType::kList)) return std::nullopt;
    if (const std::uint64_t count = graph_.element_count(ref); count > limits_.rank) {
      refuse("a tensor has " + counted(count, "axis") + " and readers accept " +
                 std::to_string(limits_.rank) + " (Limits::rank)",
             {}, ErrorCode::kLimitExceeded);
      return std::nullopt;
    }
    Refs axes;
    graph_.elements(ref, axes);
    if (!count_copies(axes.size(), {})) return std::nullopt;
    for (const PickleRef axis : axes) {
      const auto number = integer(axis);
      if (!number || *number < 0) return std::nullopt;
      out.push_back(static_cast<std::uint64_t>(*number));
    }
    return axes.size();
  }

  // Numbers and keys are copied for each use of the object that has them, and many may share one: a
  // megabyte that names one box of 64 axes over and over took a gigabyte.
  bool count_copies(std::uint64_t count, std::string_view name) {
    copies_ += count;
    if (copies_ <= graph_.size() + kFreeCopies) return true;
    return refuse(
        "objects in .metadata are shared so often that there would be more numbers and keys than "
        "bytes",
        name, ErrorCode::kLimitExceeded);
  }

  bool read_root() {
    const auto members = is(graph_.root(), PickleType::kNew) ? pairs(graph_.root()) : std::nullopt;
    const auto state = members ? field(*members, "state_dict_metadata") : std::nullopt;
    const auto storage = members ? field(*members, "storage_data") : std::nullopt;
    if (!state || !storage) {
      return refuse("the pickle is not the metadata of a distributed checkpoint");
    }
    // First of all, as it may refuse a checkpoint of very many files.
    if (!read_storage(*storage) || !name_code()) return false;
    for (std::size_t i = 0; i + 1 < members->size(); i += 2) {
      const auto name = text((*members)[i]).value_or("");
      const bool is_known = name == "state_dict_metadata" || name == "planner_data" ||
                            name == "storage_data" || name == "storage_meta" || name == "version";
      if (!is_known && !is_none((*members)[i + 1])) {
        note(Note::Kind::kLoss, {}, "the field " + shown(name) + " of .metadata is not shown");
      }
    }
    if (const auto version = field(*members, "version")) found_.version = text(*version);
    if (const auto meta = field(*members, "storage_meta")) read_storage_meta(*meta);
    if (!read_state(*state)) return false;
    const auto planner = field(*members, "planner_data");
    if (!read_paths(planner && !is_none(*planner) ? planner : std::nullopt)) return false;
    note_unused();
    return true;
  }

  bool name_code() {
    NamedCode code(is_data_global);
    if (auto named = code.add(graph_); !named) {
      return refuse(named.error().message, {}, named.error().code);
    }
    code.add_to(notes_);
    found_.calls = code.summary(true);
    return true;
  }

  // Text of the file in a message.
  static std::string shown(std::string_view text) {
    constexpr std::size_t kMost = 100;
    return "'" + std::string(text.substr(0, kMost)) + (text.size() > kMost ? "...'" : "'");
  }

  static bool is_path(const PickleGlobal& cls) {
    const bool is_pathlib = cls.module == "pathlib" || cls.module == "pathlib._local";
    return is_pathlib && cls.name.ends_with("Path");
  }

  void read_storage_meta(PickleRef ref) {
    if (is_none(ref)) return;
    const auto members = pairs(ref);
    if (!members) {
      return note(Note::Kind::kLoss, {}, "the field 'storage_meta' of .metadata is not shown");
    }
    for (std::size_t i = 0; i + 1 < members->size(); i += 2) {
      const auto name = text((*members)[i]).value_or("");
      PickleRef value = (*members)[i + 1];
      if (is_none(value)) continue;
      if (name == "modules" && is(value, PickleType::kList)) {
        if (read_modules(value)) continue;
      } else if (name == "checkpoint_id" || name == "save_id") {
        if (name == "checkpoint_id" && is(value, PickleType::kCall) &&
            is_path(maker(value).value_or(PickleGlobal()))) {
          found_.checkpoint_id = path_text(graph_.call(value).args);
          if (found_.checkpoint_id) continue;
        }
        const auto id = text(value);
        if (id && name == "save_id") found_.save_id = id;
        if (id && name == "checkpoint_id") found_.checkpoint_id = *id;
        if (id) continue;
      }
      note(Note::Kind::kLoss, {},
           "the field " + shown(name) + " of storage_meta in .metadata is not shown");
    }
  }

  // The parts of a path, joined.
  std::optional<std::string> path_text(PickleRef args) {
    if (!is(args, PickleType::kTuple) || graph_.element_count(args) == 0 ||
        graph_.element_count(args) > kMostFields) {
      return std::nullopt;
    }
    Refs parts;
    graph_.elements(args, parts);
    std::string joined;
    for (const PickleRef part : parts) {
      const auto name = text(part);
      if (!name) return std::nullopt;
      if (!joined.empty() && !joined.ends_with('/')) joined += '/';
      joined += *name;
    }
    return joined;
  }

  bool read_modules(PickleRef list) {
    if (graph_.element_count(list) > limits_.nodes) return false;
    Refs elements;
    graph_.elements(list, elements);
    for (const PickleRef element : elements) {
      const auto module = text(element);
      if (!module) {
        found_.modules.clear();
        return false;
      }
      found_.modules.push_back(*module);
    }
    return true;
  }

  // Where the item with an index lies: of a value, or of the part of a tensor at an offset.
  struct Place {
    std::uint32_t name = 0;
    bool has_offset = false;
    std::size_t first = 0;  // in offsets_
    std::size_t rank = 0;
    std::uint32_t item = 0;
    bool is_used = false;
  };

  std::span<const std::uint64_t> offset_of(const Place& place) const {
    return std::span(offsets_).subspan(place.first, place.rank);
  }

  bool less(const Place& place, std::uint32_t name, bool has_offset,
            std::span<const std::uint64_t> offset) const {
    if (place.name != name) return place.name < name;
    if (place.has_offset != has_offset) return !place.has_offset;
    const auto own = offset_of(place);
    return std::lexicographical_compare(own.begin(), own.end(), offset.begin(), offset.end());
  }

  bool read_storage(PickleRef ref) {
    if (is_none(ref)) return true;
    const auto all = pairs(ref);
    if (!all || !is(ref, PickleType::kDict)) {
      return refuse(
          "the storage data of .metadata are not a dict; another writer than torch's made "
          "this checkpoint");
    }
    for (std::size_t i = 0; i + 1 < all->size(); i += 2) {
      if (!read_place((*all)[i], (*all)[i + 1])) return false;
    }
    if (auto ok = WantedFiles(limits_).check_count(found_.files.size()); !ok) {
      error_ = std::move(ok.error());
      return false;
    }
    std::sort(places_.begin(), places_.end(), [&](const Place& a, const Place& b) {
      return less(a, b.name, b.has_offset, offset_of(b));
    });
    for (std::size_t i = 1; i < places_.size(); ++i) {
      const Place& place = places_[i];
      if (!less(places_[i - 1], place.name, place.has_offset, offset_of(place))) {
        return refuse("the storage data of .metadata have the same index twice");
      }
    }
    // Numbered as they are sorted.
    std::vector<std::uint32_t> order(found_.files.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return natural_less(found_.files[a], found_.files[b]);
    });
    std::vector<std::uint32_t> numbers(order.size());
    std::vector<std::string_view> names;
    for (const std::uint32_t file : order) {
      numbers[file] = static_cast<std::uint32_t>(names.size());
      names.push_back(found_.files[file]);
    }
    for (DcpItem& item : found_.items) item.file = numbers[item.file];
    found_.files = std::move(names);
    return true;
  }

  bool read_place(PickleRef index, PickleRef info) {
    const auto key = is_instance(index, "MetadataIndex") ? pairs(index) : std::nullopt;
    const auto fqn = key ? field(*key, "fqn") : std::nullopt;
    const auto name = fqn ? text_number(*fqn) : std::nullopt;
    if (!name) return refuse("an index in the storage data of .metadata is malformed");
    const std::string_view own_name = found_.names[*name];
    Place place{.name = *name, .first = offsets_.size()};
    const auto offset = field(*key, "offset");
    if (offset && !is_none(*offset)) {
      const auto rank = size(*offset, offsets_);
      if (!rank) return refuse("the offset of a part of a tensor is malformed", own_name);
      place.has_offset = true;
      place.rank = *rank;
    }

    const auto members = is(info, PickleType::kNew) ? pairs(info) : std::nullopt;
    const auto path = members ? field(*members, "relative_path") : std::nullopt;
    const auto begin = members ? field(*members, "offset") : std::nullopt;
    const auto length = members ? field(*members, "length") : std::nullopt;
    const auto file = path ? text_number(*path) : std::nullopt;
    const std::int64_t first = begin ? integer(*begin).value_or(-1) : -1;
    const std::int64_t bytes = length ? integer(*length).value_or(-1) : -1;
    if (!file || first < 0 || bytes < 0) {
      return refuse("the storage data of .metadata are malformed", own_name);
    }
    const auto [number, is_new] =
        files_.try_emplace(*file, static_cast<std::uint32_t>(found_.files.size()));
    if (is_new) {
      const std::string_view file_name = found_.names[*file];
      // The name comes from anywhere: "../../.ssh/id_rsa" must not be opened.
      if (!is_sibling_name(file_name)) {
        return refuse("the checkpoint names the file " + shown(file_name) +
                          "; its files must have plain names, in the folder of .metadata",
                      own_name);
      }
      found_.files.push_back(file_name);
    }
    place.item = static_cast<std::uint32_t>(found_.items.size());
    found_.items.push_back({.file = number->second,
                            .offset = static_cast<std::uint64_t>(first),
                            .length = static_cast<std::uint64_t>(bytes)});
    if (const auto transforms = field(*members, "transform_descriptors")) {
      if (!is_none(*transforms)) found_.items.back().transform = transform_name(*transforms);
    }
    places_.push_back(place);
    return true;
  }

  std::string_view transform_name(PickleRef ref) {
    constexpr std::string_view kUnknownExtension = "an unknown extension";
    if (!is(ref, PickleType::kList) && !is(ref, PickleType::kTuple)) return kUnknownExtension;
    const std::uint64_t count = graph_.element_count(ref);
    if (count == 0) return {};
    if (count > kMostFields) return kUnknownExtension;
    Refs names;
    graph_.elements(ref, names);
    const auto first = text(names[0]);
    return first && !first->empty() ? *first : kUnknownExtension;
  }

  Place* find_place(std::uint32_t name, bool has_offset, std::span<const std::uint64_t> offset) {
    const auto found = std::partition_point(
        places_.begin(), places_.end(),
        [&](const Place& place) { return less(place, name, has_offset, offset); });
    if (found == places_.end() || found->name != name || found->has_offset != has_offset ||
        !std::equal(offset.begin(), offset.end(), offset_of(*found).begin(),
                    offset_of(*found).end())) {
      return nullptr;
    }
    return &*found;
  }

  bool read_state(PickleRef ref) {
    const auto all = is(ref, PickleType::kDict) ? pairs(ref) : std::nullopt;
    if (!all) return refuse("the state_dict_metadata of .metadata are not a dict");
    found_.entries.reserve(all->size() / 2);
    entries_.reserve(all->size() / 2);
    for (std::size_t i = 0; i + 1 < all->size(); i += 2) {
      const auto number = text_number((*all)[i]);
      if (!number) return refuse("a name in .metadata is not a text");
      DcpEntry entry{.name = *number};
      if (!entries_.try_emplace(*number, found_.entries.size()).second) {
        return refuse("a name is in .metadata twice", name_of(entry));
      }
      const PickleRef value = (*all)[i + 1];
      if (is_instance(value, "BytesStorageMetadata")) {
        entry.item = use(find_place(*number, false, {}));
      } else if (!read_tensor(value, entry)) {
        return false;
      }
      found_.entries.push_back(std::move(entry));
    }
    return true;
  }

  static std::optional<std::uint32_t> use(Place* place) {
    if (place == nullptr) return std::nullopt;
    place->is_used = true;
    return place->item;
  }

  std::string_view name_of(const DcpEntry& entry) const { return found_.names[entry.name]; }

  bool read_tensor(PickleRef ref, DcpEntry& entry) {
    const auto members = is_instance(ref, "TensorStorageMetadata") ? pairs(ref) : std::nullopt;
    const auto shape = members ? field(*members, "size") : std::nullopt;
    const auto chunks = members ? field(*members, "chunks") : std::nullopt;
    if (!shape || !size(*shape, entry.shape) || !chunks || !is(*chunks, PickleType::kList)) {
      return refuse("the metadata of a tensor are malformed", name_of(entry));
    }
    entry.is_tensor = true;
    if (const auto properties = field(*members, "properties")) read_properties(*properties, entry);
    // One list may stand in many places.
    const std::uint64_t count = graph_.element_count(*chunks);
    box_count_ += count;
    if (box_count_ > graph_.size()) {
      return refuse(
          "objects in .metadata are shared so often that there would be more parts of "
          "tensors than bytes",
          name_of(entry), ErrorCode::kLimitExceeded);
    }
    Refs elements;
    graph_.elements(*chunks, elements);
    entry.boxes.reserve(elements.size());
    for (const PickleRef element : elements) {
      if (!read_box(element, entry)) return false;
    }
    return true;
  }

  // (dtype, layout, ...), or the same as fields.
  void read_properties(PickleRef ref, DcpEntry& entry) {
    if (!is_instance(ref, "TensorProperties")) return;
    const PickleRef* const state = graph_.state(ref);
    if (state == nullptr) return;
    std::optional<PickleRef> dtype;
    if (is(*state, PickleType::kTuple) && graph_.element_count(*state) > 0 &&
        graph_.element_count(*state) <= kMostFields) {
      Refs parts;
      graph_.elements(*state, parts);
      dtype = parts[0];
    } else if (const auto members = pairs(ref)) {
      dtype = field(*members, "dtype");
    }
    const auto named = dtype ? global(*dtype) : std::nullopt;
    if (named && named->module == "torch") entry.element = find_torch_type(named->name);
  }

  bool read_box(PickleRef ref, DcpEntry& entry) {
    const auto members = is_instance(ref, "ChunkStorageMetadata") ? pairs(ref) : std::nullopt;
    const auto offsets = members ? field(*members, "offsets") : std::nullopt;
    const auto sizes = members ? field(*members, "sizes") : std::nullopt;
    const std::size_t first = found_.numbers.size();
    const std::size_t rank = entry.shape.size();
    if (!offsets || !sizes || size(*offsets, found_.numbers) != rank ||
        size(*sizes, found_.numbers) != rank) {
      return refuse("a part of a tensor is malformed, or has other axes than the tensor",
                    name_of(entry));
    }
    const auto at = std::span<const std::uint64_t>(found_.numbers).subspan(first, rank);
    entry.boxes.push_back({first, use(find_place(entry.name, true, at))});
    return true;
  }

  // Where each entry stands in the nested tree.
  bool read_paths(std::optional<PickleRef> ref) {
    const auto all = ref && is(*ref, PickleType::kDict) ? pairs(*ref) : std::nullopt;
    if (ref && !all) {
      note(
          Note::Kind::kLoss, {},
          "the planner data of .metadata are those of an unknown planner, so names are not nested");
    }
    const Refs none;
    const Refs& paths = all ? *all : none;
    std::vector<bool> is_named(found_.entries.size());
    for (std::size_t i = 0; i + 1 < paths.size(); i += 2) {
      const auto number = text_number(paths[i]);
      if (!number) return refuse("a name in the planner data of .metadata is not a text");
      const std::string_view name = found_.names[*number];
      const auto entry = entries_.find(*number);
      if (entry == entries_.end()) {
        note(Note::Kind::kLoss, name,
             ".metadata has a path for this name, and nothing is saved under it");
        continue;
      }
      if (is_named[entry->second]) return refuse("a name has two paths in .metadata", name);
      is_named[entry->second] = true;
      if (!read_path(paths[i + 1], found_.entries[entry->second])) return false;
    }
    // torch puts the others under their names.
    for (std::size_t i = 0; i < found_.entries.size(); ++i) {
      if (is_named[i]) continue;
      found_.entries[i].first_key = found_.keys.size();
      found_.entries[i].key_count = 1;
      found_.keys.push_back({false, found_.entries[i].name});
    }
    return true;
  }

  bool read_path(PickleRef ref, DcpEntry& entry) {
    const bool is_sequence = is(ref, PickleType::kTuple) || is(ref, PickleType::kList);
    const std::uint64_t count = is_sequence ? graph_.element_count(ref) : 0;
    if (count == 0) return refuse("the path of a name in .metadata is malformed", name_of(entry));
    if (count > limits_.depth) {
      return refuse("the tree is deeper than the " + counted(limits_.depth, "level") +
                        " that readers accept (Limits::depth)",
                    name_of(entry), ErrorCode::kLimitExceeded);
    }
    if (!count_copies(count, name_of(entry))) return false;
    Refs parts;
    graph_.elements(ref, parts);
    entry.first_key = found_.keys.size();
    entry.key_count = parts.size();
    for (const PickleRef part : parts) {
      if (const auto key = text_number(part)) {
        found_.keys.push_back({false, *key});
      } else if (const auto index = integer(part)) {
        found_.keys.push_back({true, *index});
      } else {
        return refuse("the path of a name in .metadata is malformed", name_of(entry));
      }
    }
    return true;
  }

  void note_unused() {
    const auto unused = static_cast<std::uint64_t>(std::count_if(
        places_.begin(), places_.end(), [](const Place& place) { return !place.is_used; }));
    if (unused == 0) return;
    note(Note::Kind::kLoss, {},
         counted(unused, "item") + " in the files belong to no name in .metadata");
  }

  const PickleGraph& graph_;
  const Limits& limits_;
  Notes& notes_;
  DcpMetadata found_;
  // Numbers in found_.names by the place of a text in the pickle, and by the text.
  std::unordered_map<std::uint32_t, std::optional<std::uint32_t>> texts_by_place_;
  std::unordered_map<std::string_view, std::uint32_t> texts_;
  std::unordered_map<std::uint32_t, PickleGlobal> globals_;  // by object
  std::unordered_map<std::uint32_t, std::uint32_t> files_;   // by the number of the name
  std::unordered_map<std::uint32_t, std::size_t> entries_;   // by the number of the name
  std::vector<Place> places_;
  std::vector<std::uint64_t> offsets_;
  std::uint64_t box_count_ = 0;
  std::uint64_t copies_ = 0;
  std::optional<Error> error_;
};

}  // namespace

// The class of the root and its first field come first, whatever the pickle's protocol.
bool looks_like_dcp(ByteSpan front, std::uint64_t) {
  constexpr std::size_t kSearched = 512;
  const std::string_view text = as_text(front).substr(0, kSearched);
  if (text.size() < 2 || text[0] != '\x80' || text[1] < 2 || text[1] > 5) return false;
  // The class comes first: after GLOBAL, or as a text, which may stand in a frame.
  const std::size_t module = text.find("torch.distributed.");
  if (module != 3 && module != 4 && module != 13) return false;
  const std::size_t cls = text.find("Metadata", module);
  return cls != text.npos && text.find("state_dict_metadata", cls) != text.npos;
}

Result<DcpMetadata> read_dcp_metadata(ByteSpan bytes, const Limits& limits, Notes& notes) {
  auto graph = run_pickle(bytes, 0);
  if (!graph) return propagate(graph);
  if (graph->size() != bytes.size()) {
    const auto begin = static_cast<std::size_t>(graph->size());
    return fail(ErrorCode::kTrailingBytes,
                "the file goes on for " + counted(bytes.size() - begin, "byte") +
                    " after its pickle" + describe_rest(bytes.subspan(begin)),
                begin);
  }
  return Reader(*graph, limits, notes).run();
}

}  // namespace espalier
