#include "espalier/foreign/hdf5/file.h"

#include <algorithm>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/base/release.h"
#include "espalier/foreign/hdf5/checksums.h"
#include "espalier/foreign/hdf5/chunk_maker.h"

namespace espalier {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1A\n";
constexpr std::uint32_t kMostGroups = 64;
constexpr std::uint32_t kMostSoftLinks = 16;
// On the way of one soft link, others included.
constexpr std::uint32_t kMostNames = 256;
// Bytes of an array of texts, whose references are read when the file is opened.
constexpr std::uint64_t kMostReferences = std::uint64_t{64} << 20;
// Structures are gone through again each time that something was lacking.
constexpr std::uint64_t kWorkForByte = 32;
constexpr std::uint64_t kLeastWork = std::uint64_t{64} << 20;

bool has_message(const std::vector<Hdf5Message>& messages, Hdf5MessageType type) {
  return find_message(messages, type) != nullptr;
}

}  // namespace

std::optional<std::uint64_t> find_hdf5_signature(ByteSpan front) {
  const std::string_view text = as_text(front);
  for (std::size_t at = 0; at < text.size(); at = at == 0 ? 512 : 2 * at) {
    if (text.substr(at).starts_with(kSignature)) return at;
  }
  return std::nullopt;
}

const Hdf5Attribute* Hdf5Object::attribute(std::string_view wanted) const {
  for (const Hdf5Attribute& attribute : attributes) {
    if (attribute.name == wanted) return &attribute;
  }
  return nullptr;
}

std::optional<std::string_view> Hdf5Object::text(std::string_view attribute_name) const {
  const Hdf5Attribute* found = attribute(attribute_name);
  if (found == nullptr || found->problem || found->value.kind != Hdf5Value::Kind::kText ||
      found->value.is_bytes) {
    return std::nullopt;
  }
  return as_text(found->value.text);
}

Hdf5File::Hdf5File(std::uint64_t begin, std::uint64_t length, const Limits& limits)
    : limits_(limits),
      begin_(begin),
      length_(length),
      pieces_(begin + length, limits.foreign_header_bytes),
      work_left_(kWorkForByte * std::min(length, limits.foreign_header_bytes) + kLeastWork) {}

Result<bool> Hdf5File::step(FunctionRef<void(std::uint64_t offset, MutableByteSpan to)> want) {
  if (objects_.empty()) {
    if (auto ok = read_superblock(); !ok) return propagate(ok);
  }
  // Objects that are found now are read now, too, if they are there.
  std::vector<Work> rest;
  while (!pending_.empty()) {
    std::vector<Work> now = std::exchange(pending_, {});
    for (Work& work : now) {
      const auto is_done = go_on(work);
      if (!is_done) return propagate(is_done);
      if (!*is_done) rest.push_back(std::move(work));
    }
  }
  pending_ = std::move(rest);
  if (!pending_.empty()) {
    if (auto ok = pieces_.take_wants(want); !ok) return propagate(ok);
    return false;
  }
  const Hdf5Object& root = objects_.front();
  if (root.problem) return tl::unexpected<Error>(*root.problem);
  if (root.kind != Hdf5Object::Kind::kGroup) {
    return fail(ErrorCode::kForeignInvalid, "the root of the HDF5 file is no group",
                layout_.base + root.address);
  }
  find_overlaps();
  return true;
}

Result<void> Hdf5File::read_superblock() {
  // All of it is in the front.
  const std::uint64_t most = std::min<std::uint64_t>(length_, 64 * 1024);
  const std::byte* bytes = most == 0 ? nullptr : pieces_.find(begin_, most, 0);
  const ByteSpan front{bytes, bytes == nullptr ? 0 : static_cast<std::size_t>(most)};
  const auto at = find_hdf5_signature(front);
  if (!at) return fail(ErrorCode::kForeignInvalid, "the file has no signature of HDF5", begin_);
  layout_.base = begin_ + *at;
  layout_.end = length_ - *at;
  Hdf5Reading reading(pieces_, layout_, work_left_);
  const ByteSpan block = front.subspan(static_cast<std::size_t>(*at));
  Hdf5Cursor cursor(reading, block, 0);
  cursor.skip(kSignature.size());
  const std::uint8_t version = cursor.u8();
  if (cursor.ok() && version > 3) {
    return fail(ErrorCode::kUnsupportedVersion,
                "the HDF5 file has a superblock of version " + std::to_string(version) +
                    ", which is not known; write it again with h5repack",
                layout_.base);
  }
  if (version <= 1) cursor.skip(4);
  layout_.address_bytes = cursor.u8();
  layout_.length_bytes = cursor.u8();
  if (!reading.ok()) return tl::unexpected<Error>(*reading.error());
  const auto is_width = [](std::uint8_t width) { return width == 4 || width == 8; };
  if (!is_width(layout_.address_bytes) || !is_width(layout_.length_bytes)) {
    return fail(ErrorCode::kUnsupportedFeature,
                "the HDF5 file has addresses of " + std::to_string(layout_.address_bytes) +
                    " bytes and lengths of " + std::to_string(layout_.length_bytes) +
                    "; 4 and 8 are read",
                layout_.base);
  }
  cursor.skip(1);
  if (version <= 1) cursor.skip(version == 1 ? 12 : 8);
  const std::uint64_t base = cursor.address();
  cursor.address();
  const std::uint64_t end = cursor.address();
  std::uint64_t root = 0;
  if (version <= 1) {
    cursor.address();
    cursor.length();
    root = cursor.address();
  } else {
    root = cursor.address();
    const std::size_t summed = cursor.place();
    const std::uint32_t sum = cursor.u32();
    if (cursor.ok() && lookup3(block.first(summed)) != sum) {
      cursor.bad("the superblock does not match its checksum; copy or download the file again");
    }
  }
  if (!reading.ok()) return tl::unexpected<Error>(*reading.error());
  if (base != *at) {
    return fail(ErrorCode::kForeignInvalid,
                "the HDF5 file says that it begins elsewhere than it does", layout_.base);
  }
  if (end == kHdf5Undefined || end > length_) {
    return fail(ErrorCode::kTruncated,
                "the HDF5 file ends before the " + counted(end, "byte") +
                    " that it says it has; copy or download it again",
                begin_ + length_);
  }
  if (end < *at) {
    return fail(ErrorCode::kForeignInvalid, "the HDF5 file says that it ends before it begins",
                layout_.base);
  }
  layout_.end = end - *at;
  add_object(root, Hdf5Object::kNone, {}, 0);
  return {};
}

std::uint32_t Hdf5File::add_object(std::uint64_t address, std::uint32_t parent,
                                   std::string_view name, std::uint32_t depth) {
  const auto number = static_cast<std::uint32_t>(objects_.size());
  const auto [known, is_new] = by_address_.try_emplace(address, number);
  if (!is_new) return known->second;
  Hdf5Object& object = objects_.emplace_back();
  object.address = address;
  object.parent = parent;
  object.name = name;
  object.depth = depth;
  pending_.push_back({.object = number, .messages = {}});
  return number;
}

// True once the object is read, or found to be bad.
Result<bool> Hdf5File::go_on(Work& work) {
  bool is_complete = true;
  const auto run = [&](bool& is_done, auto read) -> Result<void> {
    if (is_done || !is_complete) return {};
    Hdf5Reading reading(pieces_, layout_, work_left_);
    read(reading);
    if (!reading.ok()) {
      if (ends_all(reading.error()->code)) return tl::unexpected<Error>(*reading.error());
      auto& problem = objects_[work.object].problem;
      if (!problem) problem = reading.error();
    }
    is_done = !reading.ok() || reading.is_complete();
    return {};
  };
  if (auto ok = run(work.has_header, [&](Hdf5Reading& r) { read_header(work, r); }); !ok) {
    return propagate(ok);
  }
  if (!work.has_header) return false;
  if (auto ok = run(work.has_contents, [&](Hdf5Reading& r) { read_contents(work, r); }); !ok) {
    return propagate(ok);
  }
  const auto read_all = [&](Hdf5Reading& r) {
    auto attributes = read_attributes(r, heap_, work.messages);
    if (r.is_complete()) objects_[work.object].attributes = std::move(attributes);
  };
  if (auto ok = run(work.has_attributes, read_all); !ok) return propagate(ok);
  is_complete = work.has_contents && work.has_attributes;
  if (!is_complete) return false;
  if (objects_[work.object].kind == Hdf5Object::Kind::kGroup) add_children(work.object);
  return true;
}

void Hdf5File::read_header(Work& work, Hdf5Reading& reading) {
  Hdf5Object& object = objects_[work.object];
  if (object.depth > kMostGroups) return reading.bad("groups are nested too deep", object.address);
  work.messages = read_object_header(reading, object.address);
  if (!reading.is_complete()) return;
  const auto& messages = work.messages;
  if (has_message(messages, Hdf5MessageType::kLinkInfo) ||
      has_message(messages, Hdf5MessageType::kLink) ||
      has_message(messages, Hdf5MessageType::kSymbolTable) ||
      has_message(messages, Hdf5MessageType::kGroupInfo)) {
    object.kind = Hdf5Object::Kind::kGroup;
  } else if (has_message(messages, Hdf5MessageType::kLayout)) {
    object.kind = Hdf5Object::Kind::kArray;
  } else if (has_message(messages, Hdf5MessageType::kDatatype)) {
    object.kind = Hdf5Object::Kind::kType;
  } else {
    reading.bad("an object is neither a group nor an array nor a type", object.address);
  }
}

void Hdf5File::read_contents(Work& work, Hdf5Reading& reading) {
  Hdf5Object& object = objects_[work.object];
  if (object.kind == Hdf5Object::Kind::kGroup) {
    auto links = read_links(reading, work.messages);
    if (reading.is_complete()) object.links = std::move(links);
  } else if (object.kind == Hdf5Object::Kind::kArray) {
    if (!object.dataset) {
      auto dataset = read_hdf5_dataset(reading, work.messages);
      // Of what is refused, type and shape are shown.
      if (reading.is_complete() || !reading.ok()) {
        object.dataset = std::make_shared<Hdf5Dataset>(std::move(dataset));
      }
    }
    if (object.dataset && reading.ok() && object.dataset->type.is_variable()) {
      read_value(work, reading);
    }
  }
}

// Elements of variable length are references into the global heap: values, and no tensor.
void Hdf5File::read_value(Work& work, Hdf5Reading& reading) {
  Hdf5Object& object = objects_[work.object];
  const Hdf5Dataset& dataset = *object.dataset;
  if (dataset.space.is_null) return;
  if (dataset.bytes > std::min(kMostReferences, limits_.foreign_header_bytes)) {
    return reading.refuse(
        "it has more texts or elements of variable length than are read when a "
        "file is opened: " +
        counted(dataset.bytes, "byte") + " of references");
  }
  if (dataset.bytes > 0 && work.elements.empty()) {
    if (dataset.place != Hdf5Dataset::Place::kChunked && dataset.address != kHdf5Undefined) {
      const ByteSpan bytes = reading.at(dataset.address, dataset.bytes);
      if (bytes.empty()) return;
      work.elements.assign(bytes.begin(), bytes.end());
    } else {
      work.elements.resize(static_cast<std::size_t>(dataset.bytes));
      work.machine =
          Hdf5ChunkMaker(object.dataset, layout_, 0, pieces_.length(), limits_.foreign_header_bytes)
              .start(work.elements);
    }
  }
  if (work.machine && !make_elements(work, reading)) return;
  auto value = read_hdf5_value(reading, heap_, dataset.type, dataset.space.shape, work.elements);
  if (!reading.is_complete()) return;
  object.value = std::move(value);
  release_memory(work.elements);
}

// Whether the elements of a chunked array are all there.
bool Hdf5File::make_elements(Work& work, Hdf5Reading& reading) {
  while (!work.machine->needs().empty()) {
    ByteSpan first;
    for (const Extent& need : work.machine->needs()) {
      const ByteSpan bytes = reading.at(need.offset - layout_.base, need.length);
      if (need == work.machine->needs().front()) first = bytes;
    }
    if (first.empty()) return false;
    const Extent need = work.machine->needs().front();
    if (auto ok = work.machine->feed(need, first); !ok) break;
  }
  if (auto ok = work.machine->finish(); !ok) {
    reading.fail(ok.error());
    return false;
  }
  work.machine.reset();
  return true;
}

void Hdf5File::add_children(std::uint32_t group) {
  const std::uint32_t depth = objects_[group].depth + 1;
  const std::size_t count = objects_[group].links.size();
  objects_[group].children.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Hdf5Link link = objects_[group].links[i];
    const std::uint32_t child = link.kind == Hdf5Link::Kind::kHard
                                    ? add_object(link.address, group, link.name, depth)
                                    : Hdf5Object::kNone;
    objects_[group].children.push_back(child);
    objects_[group].by_name.push_back(i);
  }
  const auto& links = objects_[group].links;
  std::sort(objects_[group].by_name.begin(), objects_[group].by_name.end(),
            [&](std::uint32_t a, std::uint32_t b) { return links[a].name < links[b].name; });
}

std::string Hdf5File::path(std::uint32_t object) const {
  std::vector<std::string_view> names;
  for (; objects_[object].parent != Hdf5Object::kNone; object = objects_[object].parent) {
    names.push_back(objects_[object].name);
  }
  std::string path;
  for (std::size_t i = names.size(); i-- > 0;) (path += '/') += names[i];
  return path.empty() ? "/" : path;
}

std::optional<std::uint32_t> Hdf5File::find_link(std::uint32_t group, std::string_view name) const {
  const Hdf5Object& object = objects_[group];
  const auto found = std::lower_bound(
      object.by_name.begin(), object.by_name.end(), name,
      [&](std::uint32_t i, std::string_view wanted) { return object.links[i].name < wanted; });
  if (found == object.by_name.end() || object.links[*found].name != name) return std::nullopt;
  return *found;
}

// Two arrays with the same bytes, or one over the header of an object, are made to deceive.
void Hdf5File::find_overlaps() {
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint32_t object;
    bool is_header;
  };
  std::vector<Range> ranges;
  for (std::uint32_t i = 0; i < objects_.size(); ++i) {
    const Hdf5Object& object = objects_[i];
    ranges.push_back({object.address, object.address + 1, i, true});
    if (object.kind != Hdf5Object::Kind::kArray || object.problem || !object.dataset) continue;
    const Hdf5Dataset& dataset = *object.dataset;
    if (dataset.place == Hdf5Dataset::Place::kContiguous && dataset.bytes > 0 &&
        dataset.address != kHdf5Undefined) {
      ranges.push_back({dataset.address, dataset.address + dataset.bytes, i, false});
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (std::size_t i = 1, last = 0; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[last].end) {
      const Range& bad = ranges[i].is_header ? ranges[last] : ranges[i];
      if (!bad.is_header) {
        objects_[bad.object].problem =
            Error{ErrorCode::kForeignInvalid,
                  layout_.base + ranges[i].begin,
                  {},
                  "its elements overlap those of another array, or a structure of the file"};
      }
    }
    if (ranges[i].end > ranges[last].end) last = i;
  }
}

std::optional<std::uint32_t> Hdf5File::follow(std::uint32_t group, const Hdf5Link& link) const {
  std::uint32_t names = 0;
  return follow(group, link.target, 0, names);
}

// It recurses for each soft link on the way.
std::optional<std::uint32_t> Hdf5File::follow(std::uint32_t group, std::string_view path,
                                              std::uint32_t depth, std::uint32_t& names) const {
  if (depth == kMostSoftLinks) return std::nullopt;
  std::uint32_t at = path.starts_with('/') ? 0 : group;
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    if (name.empty() || name == ".") continue;
    if (++names > kMostNames) return std::nullopt;
    const auto number = find_link(at, name);
    if (!number) return std::nullopt;
    const Hdf5Link& link = objects_[at].links[*number];
    std::optional<std::uint32_t> next;
    if (link.kind == Hdf5Link::Kind::kHard) next = objects_[at].children[*number];
    if (link.kind == Hdf5Link::Kind::kSoft) next = follow(at, link.target, depth + 1, names);
    if (!next) return std::nullopt;
    at = *next;
  }
  return at;
}

}  // namespace espalier
