// Checkpoints of Orbax whose files are made here: what is refused and how it is said, and what
// names of files and trees of OCDBT may do. tests/foreign/orbax has those that Orbax writes.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_file.h"
#include "espalier/detail/catalog.h"
#include "espalier/foreign/common/crc32c.h"
#include "espalier/foreign/orbax/opener.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::check_error;
using testing::TemporaryFolder;

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 128; value >>= 7) text += static_cast<char>(value | 128);
  return text + static_cast<char>(value);
}

template <class... Values>
std::string varints(Values... values) {
  return (varint(static_cast<std::uint64_t>(values)) + ...);
}

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string envelope(std::string_view magic, const std::string& body) {
  std::string all =
      std::string(magic) + little(12 + 2 + body.size() + 4, 8) + std::string(2, '\0') + body;
  return all + little(crc32c_after(0, as_bytes(all)), 4);
}
constexpr std::string_view kManifestMagic = "\x0C\xDB\x3A\x2A";
constexpr std::string_view kNodeMagic = "\x0C\xDB\x20\xDE";

// A list of files without common prefixes: a base path and a name each.
using Files = std::vector<std::pair<std::string, std::string>>;
std::string table(const Files& files) {
  std::string text = varint(files.size()) + std::string(files.empty() ? 0 : files.size() - 1, '\0');
  for (const auto& [base, name] : files) text += varint(base.size() + name.size());
  for (const auto& [base, name] : files) text += varint(base.size());
  for (const auto& [base, name] : files) text += base + name;
  return text;
}

struct At {
  std::uint64_t file = 0, offset = 0, length = 0;
};
struct Entry {
  std::string key;
  std::string value = {};  // inline
  bool is_inline = true;
  At at = {};
};

// The columns of keys, without common prefixes.
std::string keys_of(const std::vector<Entry>& entries) {
  std::string text = varint(entries.size()) + std::string(entries.size() - 1, '\0');
  for (const Entry& entry : entries) text += varint(entry.key.size());
  return text;
}

std::string leaf(const Files& files, const std::vector<Entry>& entries) {
  std::string body = std::string(1, '\0') + table(files) + keys_of(entries);
  for (const Entry& entry : entries) body += entry.key;
  for (const Entry& entry : entries) {
    body += varint(entry.is_inline ? entry.value.size() : entry.at.length);
  }
  for (const Entry& entry : entries) body += entry.is_inline ? '\0' : '\1';
  for (const Entry& entry : entries) body += entry.is_inline ? "" : varint(entry.at.file);
  for (const Entry& entry : entries) body += entry.is_inline ? "" : varint(entry.at.offset);
  for (const Entry& entry : entries) body += entry.is_inline ? entry.value : "";
  return envelope(kNodeMagic, body);
}

std::string interior(int height, const Files& files, const std::vector<Entry>& entries) {
  std::string body = std::string(1, static_cast<char>(height)) + table(files) + keys_of(entries) +
                     std::string(entries.size(), '\0');
  for (const Entry& entry : entries) body += entry.key;
  for (const Entry& entry : entries) body += varint(entry.at.file);
  for (const Entry& entry : entries) body += varint(entry.at.offset);
  for (const Entry& entry : entries) body += varint(entry.at.length);
  return envelope(kNodeMagic, body + std::string(3 * entries.size(), '\0'));
}

std::string manifest(int height, const Files& files, const At& root, int kind = 0) {
  std::string body = std::string(16, 'u') + static_cast<char>(kind) + varints(1024, 1 << 20) +
                     static_cast<char>(4) + varint(0);
  if (kind == 0) {
    body += table(files) + varints(1, 1) + static_cast<char>(height) +
            varints(root.file, root.offset, root.length, 1, 1, 1) + std::string(8, 't') + varint(0);
  }
  return envelope(kManifestMagic, body);
}

// An array of two int32 with that name, and its one chunk.
std::vector<Entry> array_of(const std::string& name, std::string_view compressor = "null",
                            std::string_view dtype = "<i4") {
  return {{name + "/.zarray",
           R"({"chunks":[2],"compressor":)" + std::string(compressor) + R"(,"dtype":")" +
               std::string(dtype) +
               R"(","fill_value":null,"filters":null,"order":"C","shape":[2],"zarr_format":2})"},
          {name + "/0", little(7, 4) + little(8, 4)}};
}

std::string tree_of(const std::vector<std::string>& names, std::string_view more = "") {
  std::string text = R"({"tree_metadata":{)";
  for (std::size_t i = 0; i < names.size(); ++i) {
    text +=
        (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"key_metadata":[{"key":")" + names[i] +
        R"(","key_type":2}],"value_metadata":{"value_type":"np.ndarray","skip_deserialize":false}})";
  }
  return text + "}" + std::string(more) + "}";
}

class Folder {
 public:
  void write(const std::string& name, std::string_view bytes) {
    fs::create_directories((folder_.path() / name).parent_path());
    REQUIRE(testing::write_whole(folder_.path() / name, as_bytes(bytes)));
  }
  // A database of one leaf, and the tree of what it has.
  void write_leaf(const std::vector<Entry>& entries, const std::vector<std::string>& names,
                  const Files& files = {}) {
    const std::string node = leaf(files, entries);
    write("d/0", node);
    write("manifest.ocdbt", manifest(0, {{"", "d/0"}}, {0, 0, node.size()}));
    write("_METADATA", tree_of(names));
  }
  Result<CheckpointFile> open(const OpenFileOptions& options = {}) const {
    return CheckpointFile::open(folder_.path(), options);
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

bool has_note(const CheckpointFile& file, std::string_view path, std::string_view text) {
  for (const Note& note : file.checkpoint().catalog().notes().listed()) {
    if (note.path == path && note.message.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("Orbax: an array in the node of a database") {
  Folder folder;
  folder.write_leaf(array_of("w"), {"w"});
  const auto file = folder.open();
  REQUIRE(file);
  const auto view = file->elements<std::int32_t>("w");
  REQUIRE(view);
  CHECK(std::vector(view->begin(), view->end()) == std::vector<std::int32_t>{7, 8});
  CHECK(file->checkpoint().catalog().notes().count() == 0);
  CHECK(file->verify());
}

TEST_CASE("Orbax: no bit of a manifest or a node can change") {
  Folder folder;
  folder.write_leaf(array_of("w"), {"w"});
  const std::string node = leaf({}, array_of("w"));
  const std::string root = manifest(0, {{"", "d/0"}}, {0, 0, node.size()});
  for (const auto& file : {std::pair("manifest.ocdbt", root), std::pair("d/0", node)}) {
    // Not as bindings, which Clang's lambdas cannot capture.
    const char* const name = file.first;
    const std::string& whole = file.second;
    for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 5) {
      CAPTURE(name);
      CAPTURE(bit);
      std::string changed = whole;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
      folder.write(name, changed);
      CHECK_FALSE(folder.open());
    }
    folder.write(name, whole);
  }
  CHECK(folder.open());
}

TEST_CASE("Orbax: files are below the folder, or are not opened") {
  Folder folder;
  folder.write("secret", "12345678");
  const std::string node = leaf({}, array_of("w"));
  folder.write("_METADATA", tree_of({"w"}));
  for (const char* path : {"../d/0", "/etc/passwd", "d//0", "d/./0", "d\\0", "d/0 ", "C:d/0", ""}) {
    CAPTURE(path);
    folder.write("manifest.ocdbt", manifest(0, {{"", path}}, {0, 0, node.size()}));
    check_error(folder.open(), ErrorCode::kForeignInvalid, "", "no plain path below its folder");
  }
  for (const char* base : {"../", "/", "a/../"}) {
    CAPTURE(base);
    auto entries = array_of("w");
    entries[1] = {"w/0", {}, false, {0, 0, 8}};
    const std::string outside = leaf({{base, "secret"}}, entries);
    folder.write("d/1", outside);
    folder.write("manifest.ocdbt", manifest(0, {{"", "d/1"}}, {0, 0, outside.size()}));
    check_error(folder.open(), ErrorCode::kForeignInvalid, "", "no plain path below its folder");
  }
}

TEST_CASE("Orbax: nodes behind a base path name files behind it") {
  Folder folder;
  auto entries = array_of("w");
  entries[1] = {"w/0", {}, false, {0, 4, 8}};
  const std::string low = leaf({{"", "d/values"}}, entries);
  folder.write("ocdbt.process_0/d/values", "xxxx" + little(5, 4) + little(6, 4));
  folder.write("ocdbt.process_0/d/low", low);
  const std::string high =
      interior(1, {{"", "d/low"}}, {{"w/.zarray", {}, false, {0, 0, low.size()}}});
  folder.write("ocdbt.process_0/d/high", high);
  folder.write("manifest.ocdbt",
               manifest(1, {{"ocdbt.process_0/", "d/high"}}, {0, 0, high.size()}));
  folder.write("_METADATA", tree_of({"w"}));
  const auto file = folder.open();
  REQUIRE(file);
  // Uncompressed and whole, so it lies where it is read.
  const auto view = file->elements<std::int32_t>("w");
  REQUIRE(view);
  CHECK(std::vector(view->begin(), view->end()) == std::vector<std::int32_t>{5, 6});
}

TEST_CASE("Orbax: trees that are none are refused") {
  Folder folder;
  const std::string node = leaf({}, array_of("w"));
  const At all{0, 0, node.size()};
  folder.write("_METADATA", tree_of({"w"}));
  folder.write("d/0", node);
  const auto refused = [&](const std::string& root, std::string_view message,
                           ErrorCode code = ErrorCode::kForeignInvalid) {
    folder.write("manifest.ocdbt", root);
    check_error(folder.open(), code, "", message);
  };
  refused(manifest(1, {{"", "d/0"}}, all), "another height");
  refused(manifest(0, {{"", "d/0"}}, {1, 0, node.size()}), "a file that is not listed");
  refused(manifest(0, {{"", "d/0"}}, {0, 1, node.size()}), "beyond the end", ErrorCode::kTruncated);
  refused(manifest(0, {{"", "d/0"}}, {0, ~std::uint64_t{0} - 3, 8}), "beyond the end",
          ErrorCode::kTruncated);
  refused(manifest(0, {{"", "d/0"}}, {0, 0, std::uint64_t{1} << 40}), "are read",
          ErrorCode::kLimitExceeded);
  refused(manifest(0, {{"", "d/none"}}, all), "lies in it", ErrorCode::kFileMissing);
  refused(manifest(0, {}, {}, 1), "its manifests are numbered", ErrorCode::kUnsupportedFeature);
  refused(envelope(kManifestMagic, "x"), "its configuration is unknown");
  const auto above = [&](const std::vector<Entry>& entries) {
    const std::string high = interior(1, {{"", "d/0"}}, entries);
    folder.write("d/high", high);
    return manifest(1, {{"", "d/high"}}, {0, 0, high.size()});
  };
  refused(above({{"w/.zarray", {}, false, all}, {"x", {}, false, all}}), "lead to the same node");
  refused(above({{"w/.zarray", {}, false, all}, {"x", {}, false, {0, 1, node.size() - 1}}}),
          "two nodes overlap");
  refused(above({{"x", {}, false, all}}), "less than its parent's");
  const auto keys = [&](std::vector<Entry> entries) {
    const std::string other = leaf({}, entries);
    folder.write("d/keys", other);
    return manifest(0, {{"", "d/keys"}}, {0, 0, other.size()});
  };
  refused(keys({{"b", "1"}, {"a", "2"}}), "its keys are not in order");
  refused(keys({{"a", "1"}, {"a", "2"}}), "its keys are not in order");
}

TEST_CASE("Orbax: links below the folder are not followed") {
  Folder folder;
  folder.write_leaf(array_of("w"), {"w"});
  const fs::path nodes = folder.path() / "d";
  const fs::path moved = folder.path() / "moved";
  fs::rename(nodes, moved);
  fs::create_directory_symlink(moved, nodes);
  check_error(folder.open(), ErrorCode::kNotARegularFile, "", "symbolic link");
  fs::remove(nodes);
  fs::create_directory(nodes);
  fs::create_symlink(moved / "0", nodes / "0");
  check_error(folder.open(), ErrorCode::kNotARegularFile, "", "link");
  fs::remove(nodes / "0");
  fs::rename(moved / "0", nodes / "0");
  CHECK(folder.open());
}

TEST_CASE("Orbax: an unfinished save is refused") {
  Folder folder;
  folder.write("_METADATA", tree_of({"w"}, R"(,"use_ocdbt":true)"));
  check_error(folder.open(), ErrorCode::kFileMissing, "", "whose manifest is missing");
  folder.write("ocdbt.process_0/manifest.ocdbt", "x");
  check_error(folder.open(), ErrorCode::kForeignInvalid, "", "the save did not finish");
  const fs::path temporary = folder.path() / "5.orbax-checkpoint-tmp-12";
  folder.write("5.orbax-checkpoint-tmp-12/_METADATA", tree_of({"w"}));
  check_error(CheckpointFile::open(temporary), ErrorCode::kNotARegularFile, "", "has not finished");
  check_error(CheckpointFile::open(temporary / "_METADATA"), ErrorCode::kNotARegularFile, "",
              "has not finished");
  folder.write("5.partial_save/_METADATA", tree_of({"w"}));
  check_error(CheckpointFile::open(folder.path() / "5.partial_save"), ErrorCode::kNotARegularFile,
              "", "as .partial_save in its name says");
}

TEST_CASE(
    "Orbax: an unfinished save in an object store is refused, by whichever file it is opened") {
  Folder folder;
  folder.write_leaf(array_of("w"), {"w"});
  const std::string handlers = R"({"item_handlers":"x.StandardCheckpointHandler",)";
  const auto opens = [&] {
    for (const char* name : {"_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt"}) {
      CAPTURE(name);
      CHECK(CheckpointFile::open(folder.path() / name));
    }
  };
  folder.write("_CHECKPOINT_METADATA",
               handlers + R"("init_timestamp_nsecs":7,"commit_timestamp_nsecs":null})");
  for (const char* name : {"_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt"}) {
    CAPTURE(name);
    check_error(CheckpointFile::open(folder.path() / name), ErrorCode::kForeignInvalid, "",
                "none when it was committed");
  }
  folder.write("commit_success.txt", "done");
  opens();
  fs::remove(folder.path() / "commit_success.txt");
  // As older versions write it, and versions without these times.
  for (const char* rest : {R"("init_timestamp_nsecs":7})", R"("commit_timestamp_nsecs":null})",
                           R"("init_timestamp_nsecs":null,"commit_timestamp_nsecs":null})",
                           R"("init_timestamp_nsecs":7,"commit_timestamp_nsecs":8})"}) {
    CAPTURE(rest);
    folder.write("_CHECKPOINT_METADATA", handlers + rest);
    opens();
  }
}

TEST_CASE("Orbax: one array that cannot be read does not stop the others") {
  Folder folder;
  std::vector<Entry> entries = array_of("a", R"({"id":"blosc","cname":"lz4"})");
  for (const auto& more :
       {array_of("b", "null", "<f3"), array_of("c", R"({"id":"bz2"})"), array_of("w")}) {
    entries.insert(entries.end(), more.begin(), more.end());
  }
  // Sorted, as a database has them.
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    REQUIRE(entries[i].key < entries[i + 1].key);
  folder.write_leaf(entries, {"a", "b", "c", "gone", "w"});
  const auto file = folder.open();
  REQUIRE(file);
  CHECK(has_note(*file, "a", "'blosc', which is not read"));
  CHECK(has_note(*file, "b", "its elements are of the dtype '<f3'"));
  CHECK(has_note(*file, "c", "'bz2', which is not read"));
  CHECK(has_note(*file, "gone", "no array of its name"));
  CHECK(file->elements<std::int32_t>("w"));
  // What contradicts itself makes verification fail.
  const auto report = file->verify();
  REQUIRE(report);
  CHECK(report->missing_tensors == 3);
  CHECK(report->error_count == 4);
}

TEST_CASE("Orbax: a chunk that makes more or less than its shape is damage") {
  for (const std::string& chunk : {little(1, 4), little(1, 8) + "x", std::string()}) {
    Folder folder;
    auto entries = array_of("w");
    entries[1].value = chunk;
    folder.write_leaf(entries, {"w"});
    const auto file = folder.open();
    REQUIRE(file);
    check_error(file->elements<std::int32_t>("w"), ErrorCode::kForeignInvalid, "",
                "a stored chunk of the array");
  }
}

TEST_CASE("Orbax: shapes that claim more than the file has make no memory") {
  Folder folder;
  auto entries = array_of("w", R"({"id":"zstd","level":1})");
  entries[0].value =
      R"({"chunks":[4611686018427387],"compressor":{"id":"zstd"},"dtype":"<i4","fill_value":null,)"
      R"("filters":null,"order":"C","shape":[4611686018427387],"zarr_format":2})";
  folder.write_leaf(entries, {"w"});
  auto file = folder.open();
  REQUIRE(file);
  CHECK(has_note(*file, "w", "too few bytes for its shape"));
  // Without its chunk, it would be filled.
  folder.write_leaf({entries[0]}, {"w"});
  file = folder.open();
  REQUIRE(file);
  CHECK(has_note(*file, "w", "Limits::made_bytes"));
}

TEST_CASE("Orbax: verifying makes every array, and claims no checksum") {
  for (const bool is_damaged : {false, true}) {
    Folder folder;
    auto entries = array_of("w");
    if (is_damaged) entries[1].value.pop_back();
    folder.write_leaf(entries, {"w"});
    const auto file = folder.open();
    REQUIRE(file);
    const auto report = file->verify();
    REQUIRE(report);
    CHECK(report->error_count == (is_damaged ? 1 : 0));
    CHECK(report->checksums == 0);
    CHECK(report->bytes == 0);
  }
}

TEST_CASE("Orbax: names that collide have one array, which is made once") {
  Folder folder;
  std::vector<Entry> entries;
  for (Entry& entry : array_of("a.b")) entries.push_back(std::move(entry));
  folder.write_leaf(entries, {});
  folder.write("_METADATA",
               R"({"tree_metadata":{"0":{"key_metadata":[{"key":"a","key_type":2},)"
               R"({"key":"b","key_type":2}],"value_metadata":{"value_type":"np.ndarray"}},)"
               R"("1":{"key_metadata":[{"key":"a.b","key_type":2}],)"
               R"("value_metadata":{"value_type":"np.ndarray"}}}})");
  const auto file = folder.open();
  REQUIRE(file);
  std::uint64_t made = 0;
  for (const FileEntry& entry : file->checkpoint().catalog().files()) {
    if (entry.maker) made += entry.length;
  }
  CHECK(made == 8);
  for (const char* path : {"a/b", "a.b"}) {
    CAPTURE(path);
    const auto view = file->elements<std::int32_t>(path);
    REQUIRE(view);
    CHECK(std::vector(view->begin(), view->end()) == std::vector<std::int32_t>{7, 8});
  }
}

TEST_CASE("Orbax: chunks that are not there are filled, between those that are") {
  for (const char* codec : {"C", "F"}) {
    CAPTURE(codec);
    Folder folder;
    auto entries = array_of("w");
    entries[0].value = R"({"chunks":[1,2],"compressor":null,"dtype":"<i4","fill_value":9,)"
                       R"("filters":null,"order":")" +
                       std::string(codec) + R"(","shape":[3,5],"zarr_format":2})";
    entries[1] = {"w/0.1", little(1, 4) + little(2, 4)};
    entries.push_back({"w/1.2", little(3, 4) + little(0, 4)});
    folder.write_leaf(entries, {"w"});
    const auto file = folder.open();
    REQUIRE(file);
    const auto view = file->elements<std::int32_t>("w");
    REQUIRE(view);
    CHECK(std::vector(view->begin(), view->end()) ==
          std::vector<std::int32_t>{9, 9, 1, 2, 9, 9, 9, 9, 9, 3, 9, 9, 9, 9, 9});
  }
}

TEST_CASE("Orbax: many chunks that are not there take neither memory nor time") {
  Folder folder;
  auto entries = array_of("w");
  const auto shaped = [&](const std::string& shape, const std::string& chunk) {
    entries[0].value = R"({"chunks":)" + chunk +
                       R"(,"compressor":null,"dtype":"|u1","fill_value":9,"filters":null,)"
                       R"("order":"C","shape":)" +
                       shape + R"(,"zarr_format":2})";
    folder.write_leaf({entries[0]}, {"w"});
    return folder.open();
  };
  auto file = shaped("[67108863]", "[1]");
  REQUIRE(file);
  CHECK(has_note(*file, "w", "Limits::made_bytes"));
  file = shaped("[1,1000000]", "[1,1]");
  REQUIRE(file);
  const auto view = file->elements<std::uint8_t>("w");
  REQUIRE(view);
  CHECK(view->size() == 1'000'000);
  CHECK(std::count(view->begin(), view->end(), std::uint8_t{9}) == 1'000'000);
}

TEST_CASE("Orbax: empty paths of files are counted before memory is taken for them") {
  Folder folder;
  const auto opens = [&](std::uint64_t paths, std::uint64_t limit) {
    const std::string node = leaf(Files(paths, {"", ""}), array_of("w"));
    folder.write("d/0", node);
    folder.write("manifest.ocdbt", manifest(0, {{"", "d/0"}}, {0, 0, node.size()}));
    folder.write("_METADATA", tree_of({"w"}));
    OpenFileOptions options;
    options.limits.foreign_header_bytes = limit;
    return folder.open(options);
  };
  CHECK(opens(1000, 100'000));
  check_error(opens(10'000, 100'000), ErrorCode::kLimitExceeded, "", "the paths in the OCDBT");
}

TEST_CASE("Orbax: metadata of arrays beside the nodes are counted for each array that has them") {
  Folder folder;
  std::vector<Entry> entries;
  std::vector<std::string> names;
  const std::string json = array_of("w")[0].value + std::string(100, ' ');
  for (char name = 'a'; name <= 'p'; ++name) {
    names.emplace_back(1, name);
    entries.push_back({names.back() + "/.zarray", {}, false, {0, 0, json.size()}});
  }
  folder.write("d/json", json);
  folder.write_leaf(entries, names, {{"", "d/json"}});
  OpenFileOptions options;
  // Beyond _METADATA.
  REQUIRE(tree_of(names).size() < 16 * json.size());
  options.limits.foreign_header_bytes = 16 * json.size();
  CHECK(folder.open(options));
  options.limits.foreign_header_bytes = 16 * json.size() - 1;
  check_error(folder.open(options), ErrorCode::kLimitExceeded, "", "the metadata of its arrays");
}

TEST_CASE("Orbax: a tree is refused for its depth before paths are made for it") {
  Folder folder;
  folder.write_leaf(array_of("w"), {"w"});
  std::string keys = R"({"key":"w","key_type":2})";
  for (int level = 1; level < 20'000; ++level) keys += R"(,{"key":"a","key_type":2})";
  folder.write("_METADATA", R"({"tree_metadata":{"0":{"key_metadata":[)" + keys +
                                R"(],"value_metadata":{"value_type":"None"}}}})");
  check_error(folder.open(), ErrorCode::kLimitExceeded, "", "20000 keys");
}

TEST_CASE("Orbax: steps and items of a folder") {
  Folder folder;
  const std::string node = leaf({}, array_of("w"));
  const auto item = [&](const std::string& path, int value) {
    auto entries = array_of("w");
    entries[1].value = little(static_cast<std::uint64_t>(value), 4) + little(0, 4);
    const std::string bytes = leaf({}, entries);
    folder.write(path + "d/0", bytes);
    folder.write(path + "manifest.ocdbt", manifest(0, {{"", "d/0"}}, {0, 0, bytes.size()}));
    folder.write(path + "_METADATA", tree_of({"w"}));
  };
  item("9/default/", 9);
  item("10/default/", 10);
  item("11.orbax-checkpoint-tmp-1/default/", 11);
  item("20/a/", 20);
  item("20/b/", 21);
  const auto first = [&](const fs::path& path, const char* key) {
    const auto file = CheckpointFile::open(path);
    REQUIRE(file);
    const auto view = file->elements<std::int32_t>(key);
    REQUIRE(view);
    return view->front();
  };
  CHECK(first(folder.path() / "10", "w") == 10);
  CHECK(first(folder.path() / "9", "w") == 9);
  check_error(folder.open(), ErrorCode::kNotARegularFile, "", "several items of Orbax");
  folder.write(
      "20/_CHECKPOINT_METADATA",
      R"({"item_handlers": {"a": "x.PyTreeCheckpointHandler", "b": "x.PyTreeCheckpointHandler",)"
      R"( "c": "x.PyTreeCheckpointHandler", "../d": "x.JsonCheckpointHandler"}, "metrics": {"loss": NaN}})");
  CHECK(first(folder.path(), "a/w") == 20);
  CHECK(first(folder.path(), "b/w") == 21);
  const auto file = folder.open();
  REQUIRE(file);
  CHECK(has_note(*file, "c", "this item cannot be read"));
  CHECK(has_note(*file, "", "'../d' cannot be read"));
  CHECK(file->metadata().find(KeyView::of(std::string_view("orbax.checkpoint"))));
}

}  // namespace
}  // namespace espalier
