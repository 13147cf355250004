#include "espalier/foreign/ocdbt/database.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/base/release.h"
#include "espalier/foreign/common/varint.h"
#include "espalier/foreign/ocdbt/envelope.h"
#include "espalier/read/wanted_files.h"

namespace espalier {
namespace {

// tensorstore's own bounds.
constexpr std::uint64_t kMostPathBytes = 0xFFFF;
constexpr std::uint64_t kMostInlineBytes = 1 << 20;
constexpr std::uint64_t kMostNodeEntries = 1 << 20;
// A node of Orbax has 100 MB at most. The configuration says, too, but comes from the same file.
constexpr std::uint64_t kMostNodeBytes = std::uint64_t{128} << 20;
// Nodes that are asked for at the same time.
constexpr std::uint64_t kBatchBytes = std::uint64_t{32} << 20;
constexpr std::size_t kBatchNodes = 1024;
constexpr std::uint64_t kMissing = std::numeric_limits<std::uint64_t>::max();

// OCDBT itself takes any path. Orbax's are "ocdbt.process_0/" and "d/" with 32 hexadecimal digits.
bool is_plain_path(std::string_view path) {
  return is_name_below(path) && std::all_of(path.begin(), path.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '_' || c == '-' || c == '/';
         });
}

// What stands in a body is counted as text once it is read.
std::uint64_t most_body_bytes(const Limits& limits) {
  return std::min(kMostNodeBytes, limits.text_bytes);
}

std::string as_string(ByteSpan bytes) { return std::string(as_text(bytes)); }

}  // namespace

// Takes the fields of a body. After the first that is not there or too large, is_bad() and all
// further numbers are 0.
class OcdbtDatabase::Reader {
 public:
  explicit Reader(ByteSpan bytes) : bytes_(bytes) {}

  bool is_bad() const { return is_bad_; }
  bool is_at_end() const { return !is_bad_ && at_ == bytes_.size(); }
  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }
  void fail() { is_bad_ = true; }

  std::uint64_t number(std::uint64_t most = kMissing) {
    const auto value = is_bad_ ? std::nullopt : read_varint(bytes_, at_);
    is_bad_ = is_bad_ || !value || *value > most;
    return is_bad_ ? 0 : *value;
  }
  unsigned byte() {
    const ByteSpan one = take(1);
    return one.empty() ? 0 : std::to_integer<unsigned>(one[0]);
  }
  ByteSpan take(std::uint64_t count) {
    is_bad_ = is_bad_ || count > left();
    if (is_bad_) return {};
    const ByteSpan taken = bytes_.subspan(at_, static_cast<std::size_t>(count));
    at_ += taken.size();
    return taken;
  }
  // How many entries columns have: each takes at least a byte.
  std::size_t count(std::uint64_t most) {
    const std::uint64_t value = number(most);
    is_bad_ = is_bad_ || value > left();
    return is_bad_ ? 0 : static_cast<std::size_t>(value);
  }
  std::vector<std::uint64_t> column(std::size_t count, std::uint64_t most = kMissing) {
    std::vector<std::uint64_t> values(count);
    for (std::uint64_t& value : values) value = number(most);
    return values;
  }

 private:
  ByteSpan bytes_;
  std::size_t at_ = 0;
  bool is_bad_ = false;
};

namespace {

tl::unexpected<Error> bad_body(std::string_view what, std::string_view why, std::uint64_t at) {
  return fail(ErrorCode::kForeignInvalid,
              std::string(what) +
                  " of the OCDBT database is not as its checksum and its format "
                  "have it: " +
                  std::string(why) + " (byte " + std::to_string(at) +
                  " of the body); it was not written by tensorstore, or by a newer one");
}

tl::unexpected<Error> in_file(tl::unexpected<Error> failed, const std::string& name,
                              std::uint64_t offset) {
  if (failed.value().file.empty()) failed.value().file = name;
  failed.value().offset = offset;
  return failed;
}

}  // namespace

OcdbtDatabase::OcdbtDatabase(FolderFiles& files, std::string folder, const Limits& limits)
    : files_(files),
      folder_(std::move(folder)),
      limits_(limits),
      bodies_(std::make_shared<std::vector<std::vector<std::byte>>>()) {}
OcdbtDatabase::~OcdbtDatabase() = default;

Result<void> OcdbtDatabase::begin(ByteSpan manifest) {
  auto body = open_ocdbt_envelope(manifest, OcdbtMagic::kManifest, most_body_bytes(limits_));
  if (!body) return propagate(body);
  if (auto ok = read_manifest(*body); !ok) return ok;
  return want_nodes();
}

Result<void> OcdbtDatabase::read_manifest(ByteSpan body) {
  constexpr std::uint64_t kMost32 = 0xFFFFFFFF;
  Reader in(body);
  in.take(16);  // of the database, random
  const unsigned kind = in.byte();
  in.number(kMost32);  // bytes of values that stand in nodes
  in.number(kMost32);  // bytes of nodes
  const unsigned arity = in.byte();
  if (in.number(1) == 1) in.take(4);  // level of the compression
  if (in.is_bad() || kind > 1 || arity == 0 || arity > 16) {
    return bad_body("the manifest", "its configuration is unknown", in.at());
  }
  if (kind == 1) {
    return fail(ErrorCode::kUnsupportedFeature,
                "its manifests are numbered, which Orbax does not do; open the newest of them in "
                "place of this file: the last one that is called manifest.<16 digits>");
  }
  const auto files = read_files(in, {});
  if (!files) return propagate(files);
  const std::size_t count = in.count(std::uint64_t{1} << arity);
  in.column(count);  // generations
  std::vector<unsigned> heights(count);
  for (unsigned& height : heights) height = in.byte();
  const auto file = in.column(count);
  const auto offset = in.column(count);
  const auto length = in.column(count);
  for (int statistic = 0; statistic < 3; ++statistic) in.column(count);
  in.take(8 * std::uint64_t{count});  // times of commits
  // Older versions, which are not read.
  const std::size_t nodes = in.count(63);
  for (int column = 0; column < 5; ++column) in.column(nodes);
  in.take(9 * std::uint64_t{nodes});
  if (!in.is_at_end() || count == 0) {
    return bad_body("the manifest", "its versions are damaged", in.at());
  }
  height_ = heights.back();
  if (offset.back() == kMissing && length.back() == kMissing) return {};
  return add_node(level_, *files, file.back(), offset.back(), length.back(), {}, {});
}

Result<std::vector<OcdbtDatabase::File>> OcdbtDatabase::read_files(Reader& in,
                                                                   const std::string& folder) {
  const std::size_t count = in.count(kMissing);
  std::vector<File> files;
  if (count == 0) return files;
  const auto too_long = [] {
    return fail(ErrorCode::kLimitExceeded, "the paths in the OCDBT database are too long");
  };
  // Empty paths take three bytes in the file and much more here.
  std::uint64_t all = count * std::uint64_t{sizeof(File)};
  if (all > limits_.foreign_header_bytes) return too_long();
  std::vector<std::uint64_t> prefix = in.column(count - 1, kMostPathBytes);
  prefix.insert(prefix.begin(), 0);
  const auto suffix = in.column(count, kMostPathBytes);
  const auto base = in.column(count, kMostPathBytes);
  std::string path;
  for (std::size_t i = 0; i < count; ++i) {
    const ByteSpan rest = in.take(suffix[i]);
    if (in.is_bad() || prefix[i] > path.size() || base[i] > prefix[i] + suffix[i]) {
      return bad_body("a list of files", "a path is damaged", in.at());
    }
    path.resize(static_cast<std::size_t>(prefix[i]));
    path += as_string(rest);
    all += folder.size() + path.size();
    if (folder.size() + path.size() > kMostPathBytes || all > limits_.foreign_header_bytes) {
      return too_long();
    }
    const auto end = static_cast<std::size_t>(base[i]);
    files.push_back({folder + path.substr(0, end), path.substr(end)});
  }
  return files;
}

Result<void> OcdbtDatabase::add_node(std::vector<Node>& level, const std::vector<File>& files,
                                     std::uint64_t file, std::uint64_t offset, std::uint64_t length,
                                     std::string prefix, std::string least) {
  if (file >= files.size()) return bad_body("a node", "it names a file that is not listed", 0);
  const File& named = files[static_cast<std::size_t>(file)];
  const std::string name = named.folder + named.name;
  if (!is_plain_path(name)) {
    return fail(ErrorCode::kForeignInvalid,
                "the OCDBT database has a node in '" + name +
                    "', which is no plain path below its folder; such files are never opened");
  }
  if (length > kMostNodeBytes) {
    return fail(ErrorCode::kLimitExceeded, "a node of the OCDBT database has " +
                                               counted(length, "byte") + " and " +
                                               std::to_string(kMostNodeBytes) + " are read");
  }
  auto number = files_.number_of(folder_ + name);
  if (!number) return propagate(number);
  // Else a node that is its own sibling's, level by level, would be read 2^height times.
  if (!visited_.emplace(*number, offset).second) {
    return bad_body("the tree", "two branches lead to the same node", 0);
  }
  kept_bytes_ += prefix.size() + least.size();
  if (kept_bytes_ > limits_.text_bytes) {
    return fail(ErrorCode::kLimitExceeded,
                "the keys of the OCDBT database have more bytes than Limits::text_bytes allows");
  }
  level.push_back({.folder = named.folder,
                   .file_name = folder_ + name,
                   .file = *number,
                   .offset = offset,
                   .length = length,
                   .prefix = std::move(prefix),
                   .least = std::move(least)});
  return {};
}

// Wants the bytes of the next nodes whose files are known.
Result<void> OcdbtDatabase::want_nodes() {
  std::uint64_t bytes = 0;
  std::vector<const Node*> batch;
  for (; wanted_ < level_.size() && bytes < kBatchBytes && batch.size() < kBatchNodes; ++wanted_) {
    Node& node = level_[wanted_];
    const FileEntry& file = files_[node.file];
    if (!files_.is_answered(node.file)) break;
    if (file.problem) {
      Error problem = *file.problem;
      problem.file = node.file_name;
      problem.message = "a node of the OCDBT database lies in it: " + problem.message;
      return tl::unexpected<Error>(std::move(problem));
    }
    if (!range_fits(node.offset, node.length, file.length)) {
      return in_file(
          fail(ErrorCode::kTruncated,
               "a node of the OCDBT database lies beyond the end of the file, which has " +
                   counted(file.length, "byte") + "; copy or download it again"),
          node.file_name, std::min(node.offset, file.length));
    }
    bytes += node.length;
    node.bytes.resize(static_cast<std::size_t>(node.length));
    batch.push_back(&node);
  }
  std::sort(batch.begin(), batch.end(), [](const Node* a, const Node* b) {
    return std::pair(a->file, a->offset) < std::pair(b->file, b->offset);
  });
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Node& node = *batch[i];
    if (i > 0 && batch[i - 1]->file == node.file &&
        batch[i - 1]->offset + batch[i - 1]->length > node.offset) {
      return in_file(bad_body("the tree", "two nodes overlap", 0), node.file_name, node.offset);
    }
    files_.want({node.file, node.offset, node.length}, const_cast<Node&>(node).bytes);
  }
  return {};
}

Result<bool> OcdbtDatabase::step() {
  for (; done_ < wanted_; ++done_) {
    Node& node = level_[done_];
    if (auto ok = read_node(node); !ok) {
      return in_file(propagate(ok), node.file_name, node.offset);
    }
    release_memory(node.bytes);
  }
  if (wanted_ == level_.size()) {
    if (next_.empty()) return true;
    level_ = std::move(next_);
    next_.clear();
    done_ = wanted_ = 0;
    --height_;
  }
  if (auto ok = want_nodes(); !ok) return propagate(ok);
  return false;
}

Result<void> OcdbtDatabase::read_node(Node& node) {
  auto opened = open_ocdbt_envelope(node.bytes, OcdbtMagic::kNode, most_body_bytes(limits_));
  if (!opened) return propagate(opened);
  Reader in(*opened);
  const auto bad = [&](std::string_view why) { return bad_body("a node", why, in.at()); };
  if (in.byte() != height_ || in.is_bad()) return bad("it has another height than its parent says");
  const auto files = read_files(in, node.folder);
  if (!files) return propagate(files);
  const std::size_t count = in.count(kMostNodeEntries);
  if (count == 0) return bad("it has no entries");
  std::vector<std::uint64_t> prefix = in.column(count - 1, kMostPathBytes);
  prefix.insert(prefix.begin(), 0);
  const auto suffix = in.column(count, kMostPathBytes);
  const bool is_leaf = height_ == 0;
  const auto common = is_leaf ? std::vector<std::uint64_t>() : in.column(count, kMostPathBytes);
  std::vector<std::string_view> rests(count);
  for (std::size_t i = 0; i < count; ++i) rests[i] = as_text(in.take(suffix[i]));
  // What follows the keys, column by column.
  std::vector<std::uint64_t> file(count), offset(count), length;
  std::vector<unsigned> kind;
  std::vector<ByteSpan> inline_bytes(count);
  if (is_leaf) {
    length = in.column(count);
    for (std::size_t i = 0; i < count; ++i) kind.push_back(in.byte());
    for (std::size_t i = 0; i < count; ++i) file[i] = kind[i] == 1 ? in.number() : 0;
    for (std::size_t i = 0; i < count; ++i) offset[i] = kind[i] == 1 ? in.number() : 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (kind[i] > 1) return bad("the kind of a value is unknown");
      if (kind[i] == 1) continue;
      if (length[i] > kMostInlineBytes) return bad("a value in it has more than 1 MiB");
      inline_bytes[i] = in.take(length[i]);
    }
  } else {
    file = in.column(count);
    offset = in.column(count);
    length = in.column(count);
    for (int statistic = 0; statistic < 3; ++statistic) in.column(count);
  }
  if (!in.is_at_end()) return bad("its columns do not fill it");
  std::string key;
  std::string before;
  for (std::size_t i = 0; i < count; ++i) {
    if (prefix[i] > key.size()) return bad("a key repeats more than the one before has");
    before = key;
    key.resize(static_cast<std::size_t>(prefix[i]));
    key += rests[i];
    if (key.size() + node.prefix.size() > kMostPathBytes) return bad("a key is too long");
    if (i > 0 && key <= before) return bad("its keys are not in order");
    if (i == 0 && node.prefix + key < node.least)
      return bad("its first key is less than its parent's");
    if (!is_leaf) {
      if (common[i] > key.size()) return bad("a branch has a longer prefix than its key");
      if (auto ok = add_node(next_, *files, file[i], offset[i], length[i],
                             node.prefix + key.substr(0, static_cast<std::size_t>(common[i])),
                             node.prefix + key);
          !ok) {
        return ok;
      }
      continue;
    }
    OcdbtValue value{.inline_bytes = inline_bytes[i], .is_inline = kind[i] == 0};
    if (kind[i] == 1) {
      if (file[i] >= files->size()) return bad("a value lies in a file that is not listed");
      const File& named = (*files)[static_cast<std::size_t>(file[i])];
      const std::string name = named.folder + named.name;
      if (!is_plain_path(name)) {
        return fail(ErrorCode::kForeignInvalid,
                    "the OCDBT database has values in '" + name +
                        "', which is no plain path below its folder; such files are never opened");
      }
      const auto number = files_.number_of(folder_ + name);
      if (!number) return propagate(number);
      value.extent = {*number, offset[i], length[i]};
    }
    if (auto ok = add_entry(node.prefix, key, value); !ok) return ok;
  }
  const bool has_inline = std::any_of(kind.begin(), kind.end(), [](unsigned k) { return k == 0; });
  if (has_inline) {
    kept_bytes_ += opened->size();
    bodies_->push_back(std::move(*opened));
  }
  if (kept_bytes_ > limits_.text_bytes) {
    return fail(ErrorCode::kLimitExceeded,
                "the keys of the OCDBT database have more bytes than Limits::text_bytes allows");
  }
  return {};
}

Result<void> OcdbtDatabase::add_entry(std::string_view prefix, std::string_view key,
                                      const OcdbtValue& value) {
  kept_bytes_ += prefix.size() + key.size() + sizeof(OcdbtEntry);
  if (kept_bytes_ > limits_.text_bytes) {
    return fail(ErrorCode::kLimitExceeded,
                "the keys of the OCDBT database have more bytes than Limits::text_bytes allows");
  }
  const std::string_view kept = keep(prefix, key);
  if (!entries_.empty() && kept <= entries_.back().key) {
    return bad_body("the tree", "its keys are not in order", 0);
  }
  entries_.push_back({kept, value});
  return {};
}

std::string_view OcdbtDatabase::keep(std::string_view prefix, std::string_view key) {
  constexpr std::size_t kBlock = 256 * 1024;
  const std::size_t size = prefix.size() + key.size();
  if (size > text_room_) {
    text_room_ = std::max(kBlock, size);
    texts_.push_back(std::make_unique<char[]>(text_room_));
    text_next_ = texts_.back().get();
  }
  char* const begin = text_next_;
  text_next_ = std::copy(key.begin(), key.end(), std::copy(prefix.begin(), prefix.end(), begin));
  text_room_ -= size;
  return {begin, size};
}

}  // namespace espalier
