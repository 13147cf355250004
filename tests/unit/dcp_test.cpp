// Distributed checkpoints of torch: what opens, and what becomes of metadata that lie.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include "support/zip_maker.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_file.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/common/boxes.h"
#include "espalier/foreign/dcp/format.h"
#include "espalier/foreign/dcp/metadata.h"
#include "espalier/format/file_set.h"
#include "espalier/notes.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using testing::check_error;
using testing::TemporaryFolder;
using Sizes = std::vector<std::uint64_t>;

constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata";

// Opcodes of pickles.
std::string text(std::string_view value) {
  std::string made = "X";
  testing::append_number(made, value.size(), 4);
  return made += value;
}
std::string number(std::uint64_t value) {
  std::string made = "\x8a\x08";
  testing::append_number(made, value, 8);
  return made;
}
std::string tuple(const std::string& parts) { return '(' + parts + 't'; }
std::string list(const std::string& parts) { return "](" + parts + 'e'; }
std::string dict(const std::string& pairs) { return "}(" + pairs + 'u'; }
std::string global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + '\n' + std::string(name) + '\n';
}
std::string call(std::string_view module, std::string_view name, const std::string& args) {
  return global(module, name) + tuple(args) + 'R';
}
std::string instance(std::string_view name, const std::string& state) {
  return global(kModule, name) + ")\x81" + state + 'b';
}
std::string size(const Sizes& sizes) {
  std::string parts;
  for (const std::uint64_t axis : sizes) parts += number(axis);
  return call("torch", "Size", tuple(parts));
}

// What lies at a place of a file.
struct Item {
  std::string file = "__0_0.distcp";
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::string more = {};  // fields
};

// Parts of .metadata.
std::string index(std::string_view name, const std::optional<Sizes>& offset) {
  return instance("MetadataIndex", dict(text("fqn") + text(name) + text("offset") +
                                        (offset ? size(*offset) : "N") + text("index") + 'N'));
}
std::string info(const Item& item) {
  return global("torch.distributed.checkpoint.filesystem", "_StorageInfo") + ")\x81" +
         dict(text("relative_path") + text(item.file) + text("offset") + number(item.offset) +
              text("length") + number(item.length) + item.more) +
         'b';
}
std::string chunk(const Sizes& offset, const Sizes& sizes) {
  return instance("ChunkStorageMetadata",
                  dict(text("offsets") + size(offset) + text("sizes") + size(sizes)));
}
std::string tensor(const Sizes& shape, const std::string& chunks,
                   std::string_view dtype = "uint8") {
  const std::string properties = instance(
      "TensorProperties", tuple(global("torch", dtype) +
                                call("torch.serialization", "_get_layout", text("torch.strided")) +
                                "\x89" + call(kModule, "_MEM_FORMAT_ENCODING", "K\0"s) + "\x89"));
  return instance("TensorStorageMetadata", dict(text("properties") + properties + text("size") +
                                                size(shape) + text("chunks") + list(chunks)));
}

// A file of torch.save() with a tensor of bytes.
std::string saved(const Sizes& shape, const std::string& bytes, const Sizes& strides = {},
                  std::string_view storage = "ByteStorage", std::uint64_t width = 1) {
  Sizes steps = strides;
  if (steps.empty()) {
    steps.assign(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) steps[i - 1] = steps[i] * shape[i];
  }
  std::string axes;
  for (const std::uint64_t axis : shape) axes += number(axis);
  std::string stride;
  for (const std::uint64_t step : steps) stride += number(step);
  const std::string id = tuple(text("storage") + global("torch", storage) + text("0") +
                               text("cpu") + number(bytes.size() / width)) +
                         'Q';
  const std::string pickle = "\x80\x02" +
                             call("torch._utils", "_rebuild_tensor_v2",
                                  id + number(0) + tuple(axes) + tuple(stride) + "\x89" +
                                      call("collections", "OrderedDict", "")) +
                             '.';
  return testing::make_zip({{"archive/data.pkl", pickle}, {"archive/data/0", bytes}});
}
// The same of any value.
std::string saved_value(const std::string& opcodes) {
  return testing::make_zip({{"archive/data.pkl", "\x80\x02" + opcodes + '.'}});
}

// A checkpoint that grows piece by piece.
struct Folder {
  std::map<std::string, std::string> files = {};
  std::string state = {};
  std::string storage = {};
  std::string paths = {};
  std::string more = {};  // fields of the metadata
  bool has_paths = true;
  std::vector<Item> items = {};

  Item add(const std::string& bytes, const std::string& file = "__0_0.distcp") {
    std::string& whole = files[file];
    items.push_back({file, whole.size(), bytes.size()});
    whole += bytes;
    return items.back();
  }
  void path(std::string_view name, const std::string& parts) { paths += text(name) + tuple(parts); }
  // A tensor of bytes in these parts: each has an offset, a shape and bytes.
  struct Part {
    Sizes offset;
    Sizes sizes;
    std::string bytes;
    std::string file = "__0_0.distcp";
  };
  void add_tensor(std::string_view name, const Sizes& shape, const std::vector<Part>& parts) {
    std::string chunks;
    for (const Part& part : parts) {
      chunks += chunk(part.offset, part.sizes);
      storage += index(name, part.offset) + info(add(saved(part.sizes, part.bytes), part.file));
    }
    state += text(name) + tensor(shape, chunks);
  }
  void add_value(std::string_view name, const std::string& opcodes) {
    state += text(name) + instance("BytesStorageMetadata", dict(""));
    storage += index(name, std::nullopt) + info(add(saved_value(opcodes)));
  }
  std::string metadata() const {
    return "\x80\x02" +
           instance("Metadata", dict(text("state_dict_metadata") + dict(state) +
                                     text("planner_data") + (has_paths ? dict(paths) : "N") +
                                     text("storage_data") + dict(storage) + more)) +
           '.';
  }
  // Writes and opens it.
  Result<CheckpointFile> open(const OpenFileOptions& options = {}) const {
    const TemporaryFolder folder;
    for (const auto& [name, bytes] : files) {
      REQUIRE(testing::write_whole(folder / name, as_bytes(bytes)));
    }
    REQUIRE(testing::write_whole(folder / ".metadata", as_bytes(metadata())));
    return CheckpointFile::open(folder.path(), options);
  }
};

std::string letters(const CheckpointFile& file, std::string_view path) {
  const auto node = file.state().at(path);
  REQUIRE(node);
  REQUIRE(node->tensor());
  const auto view = file.slice(*node->tensor(), {});
  if (!view) return "error: " + view.error().message;
  const auto bytes = view->bytes();
  return std::string(as_text(bytes));
}

std::string notes(const CheckpointFile& file) {
  std::string all;
  for (const Note& note : file.checkpoint().catalog().notes().listed()) {
    all += note.path + ": " + note.message + '\n';
  }
  return all;
}

// A line for each node.
std::string tree(const NodeRef& node, const std::string& at = "") {
  std::string all = at + ' ' + std::string(kind_name(node.kind())) + '\n';
  for (std::uint32_t i = 0; i < node.size(); ++i) {
    std::string key;
    append_segment(key, node.key(i));
    all += tree(node.child(i), at + '/' + key);
  }
  return all;
}

// A tensor of 4 x 4 bytes, cut along both axes.
Folder quarters() {
  Folder folder;
  folder.add_tensor("w", {4, 4},
                    {{{0, 0}, {2, 2}, "abef", "__0_0.distcp"},
                     {{0, 2}, {2, 2}, "cdgh", "__1_0.distcp"},
                     {{2, 0}, {2, 2}, "ijmn", "__2_0.distcp"},
                     {{2, 2}, {2, 2}, "klop", "__10_0.distcp"}});
  return folder;
}

TEST_CASE("Tensors lie where their items have them, or are put together from their parts") {
  Folder folder = quarters();
  folder.add_tensor("one", {2, 3}, {{{0, 0}, {2, 3}, "uvwxyz"}});
  folder.add_tensor("none", {0, 3}, {{{0, 0}, {0, 3}, ""}});
  folder.add_tensor("zero-d", {}, {{{}, {}, "0"}});
  folder.add_tensor("rows", {3, 2},
                    {{{0, 0}, {1, 2}, "ab"}, {{1, 0}, {2, 2}, "cdef"}, {{3, 0}, {0, 2}, ""}});
  const auto file = folder.open();
  REQUIRE(file);
  CHECK(notes(*file) == "");
  CHECK(letters(*file, "w") == "abcdefghijklmnop");
  CHECK(letters(*file, "one") == "uvwxyz");
  CHECK(letters(*file, "none") == "");
  CHECK(letters(*file, "zero-d") == "0");
  CHECK(letters(*file, "rows") == "abcdef");
  const Catalog& catalog = file->checkpoint().catalog();
  CHECK(catalog.format() == kDcpFormat);
  // The files are sorted as people sort them, and the cut tensors come last.
  std::vector<std::string> names;
  for (const FileEntry& entry : catalog.files()) names.push_back(entry.name);
  CHECK(names == std::vector<std::string>{"", "__0_0.distcp", "__1_0.distcp", "__2_0.distcp",
                                          "__10_0.distcp", "w", "rows"});
  // A tensor of one part is not copied.
  const auto where =
      file->state().find(KeyView::of(std::string_view("one")))->tensor()->raw_extent();
  REQUIRE(where);
  CHECK(where->file == 1);
}

TEST_CASE("Parts of whole mebibytes are read where they lie") {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  Folder folder;
  folder.add_tensor("w", {5, kMiB},
                    {{{0, 0}, {2, kMiB}, std::string(2 * kMiB, 'a'), "__0_0.distcp"},
                     {{2, 0}, {2, kMiB}, std::string(2 * kMiB, 'b'), "__1_0.distcp"},
                     {{4, 0}, {1, kMiB}, std::string(kMiB, 'c'), "__2_0.distcp"}});
  const auto file = folder.open({.limits = {.made_bytes = 0}});
  REQUIRE(file);
  CHECK(file->checkpoint().catalog().files().size() == 4);
  CHECK(letters(*file, "w") ==
        std::string(2 * kMiB, 'a') + std::string(2 * kMiB, 'b') + std::string(kMiB, 'c'));
}

TEST_CASE("A part may have its elements in another order") {
  Folder folder;
  folder.state = text("w") + tensor({2, 4}, chunk({0, 0}, {2, 2}) + chunk({0, 2}, {2, 2}));
  folder.storage = index("w", Sizes{0, 0}) + info(folder.add(saved({2, 2}, "aebf", {1, 2}))) +
                   index("w", Sizes{0, 2}) + info(folder.add(saved({2, 2}, "cdgh")));
  const auto file = folder.open();
  REQUIRE(file);
  CHECK(letters(*file, "w") == "abcdefgh");
}

TEST_CASE("Paths of the planner make the nested tree") {
  Folder folder;
  for (const char* name : {"a.b", "a.c.0", "a.c.2.x", "d"}) {
    folder.add_tensor(name, {1}, {{{0}, {1}, "t"}});
  }
  folder.add_value("a.n", "N");
  folder.add_value("a.v", dict(text("lr") + number(3) + text("t") + tuple(number(1))));
  folder.path("a.b", text("a") + text("b"));
  folder.path("a.c.0", text("a") + text("c") + number(0));
  folder.path("a.c.2.x", text("a") + text("c") + number(2) + text("x"));
  folder.path("a.n", text("a") + text("n"));
  folder.path("a.v", text("a") + text("v"));
  folder.path("gone", text("gone"));
  const auto file = folder.open();
  REQUIRE(file);
  CHECK(tree(file->state()) ==
        " dict\n/a dict\n/a/b tensor\n/a/c list\n/a/c/0 tensor\n/a/c/1 null\n/a/c/2 dict\n"
        "/a/c/2/x tensor\n/a/n null\n/a/v dict\n/a/v/lr int64\n/a/v/t tuple\n/a/v/t/0 int64\n"
        "/d tensor\n");
  CHECK(notes(*file) ==
        "gone: .metadata has a path for this name, and nothing is saved under it\n"
        ": 1 element of lists are null because nothing was saved for them, as for empty dicts\n");

  // Without paths, the names are the keys, and nest as in other formats.
  folder.has_paths = false;
  const auto flat = folder.open();
  REQUIRE(flat);
  CHECK(flat->state().size() == 6);
  CHECK(flat->state().find(KeyView::of(std::string_view("a.c.2.x"))));
  const auto nested = folder.open({.nest = true});
  REQUIRE(nested);
  CHECK(nested->state().at("a/c/2/x"));
}

TEST_CASE("Values keep their tensors, ties and notes") {
  Folder folder;
  folder.add_tensor("w", {1}, {{{0}, {1}, "t"}});
  folder.storage += index("v", std::nullopt) + info(folder.add(saved({2}, "hi")));
  folder.state += text("v") + instance("BytesStorageMetadata", dict(""));
  folder.add_value("c", call("posix", "system", text("true")));
  const auto file = folder.open();
  REQUIRE(file);
  CHECK(letters(*file, "v") == "hi");
  CHECK(file->state().find(KeyView::of(std::string_view("c")))->label() == "call:posix.system");
  CHECK(notes(*file).starts_with("c: "));
  CHECK(notes(*file).find("posix.system") != std::string::npos);
}

TEST_CASE("What the metadata say of the checkpoint is its metadata") {
  Folder folder = quarters();
  folder.more = text("storage_meta") +
                instance("StorageMeta",
                         dict(text("checkpoint_id") +
                              call("pathlib", "PosixPath", text("/") + text("runs") + text("1")) +
                              text("save_id") + text("id") + text("load_id") + 'N' +
                              text("modules") + list(text("model")))) +
                text("version") + text("1.0.0") + text("mcore_data") + dict("");
  const auto file = folder.open();
  REQUIRE(file);
  const std::string at = "torch.distributed.checkpoint/";
  CHECK(file->metadata().at(at + "version")->as_string() == "1.0.0");
  CHECK(file->metadata().at(at + "checkpoint_id")->as_string() == "/runs/1");
  CHECK(file->metadata().at(at + "save_id")->as_string() == "id");
  CHECK(file->metadata().at(at + "modules/0")->as_string() == "model");
  CHECK(notes(*file) == ": the field 'mcore_data' of .metadata is not shown\n");
}

TEST_CASE("Tensors whose parts do not make them are placeholders with a note") {
  struct Case {
    std::string what;
    std::string note;
    std::function<void(Folder&)> make;
    bool is_damage = true;
  };
  const auto two = [](const Sizes& first, const Sizes& first_size, const Sizes& second,
                      const Sizes& second_size) {
    return [=](Folder& folder) {
      const auto bytes = [](const Sizes& s) { return std::string(s[0] * s[1], 'x'); };
      folder.add_tensor(
          "w", {4, 4},
          {{first, first_size, bytes(first_size)}, {second, second_size, bytes(second_size)}});
    };
  };
  // One part, whose item is not what the metadata say.
  const auto one = [](const std::string& bytes, std::string_view dtype = "uint8",
                      const std::string& more = {}, std::int64_t shift = 0,
                      std::int64_t longer = 0) {
    return [=](Folder& folder) {
      Item item = folder.add(bytes);
      item.offset += static_cast<std::uint64_t>(shift);
      item.length += static_cast<std::uint64_t>(longer);
      item.more = more;
      folder.state = text("w") + tensor({4}, chunk({0}, {4}), dtype);
      folder.storage = index("w", Sizes{0}) + info(item);
    };
  };
  const Case cases[] = {
      {"overlap", "two parts of it overlap", two({0, 0}, {3, 4}, {2, 0}, {2, 4})},
      {"the volume is right", "two parts of it overlap", two({0, 0}, {2, 4}, {1, 0}, {2, 4})},
      {"hole", "its parts do not make all of it", two({0, 0}, {1, 4}, {2, 0}, {2, 4})},
      {"beyond", "a part of it reaches beyond its shape", two({0, 0}, {2, 4}, {2, 1}, {2, 4})},
      {"wraps", "a part of it reaches beyond its shape",
       two({0, 0}, {2, 4}, {~std::uint64_t{0} >> 1, 0}, {2, 4})},
      {"a corner alone", "its parts do not make all of it",
       [](Folder& folder) {
         folder.add_tensor("w", {4, 4}, {{{0, 0}, {2, 2}, "abcd"}});
       }},
      {"no parts", "nothing was saved of it",
       [](Folder& folder) { folder.state = text("w") + tensor({4}, ""); }},
      {"no item", "no item in the files belongs to a part of it",
       [](Folder& folder) { folder.state = text("w") + tensor({4}, chunk({0}, {4})); }},
      {"another shape", "another dtype or shape", one(saved({2, 2}, "abcd"))},
      {"fewer elements", "another dtype or shape", one(saved({3}, "abc"))},
      {"another dtype", "another dtype or shape", one(saved({4}, "abcd", {}, "CharStorage"))},
      {"an unknown dtype", "its dtype is unknown", one(saved({4}, "abcd"), "uint7"), false},
      {"beyond the file", "it lies beyond the end of __0_0.distcp",
       one(saved({4}, "abcd"), "uint8", "", 1)},
      {"at the end of all numbers", "it lies beyond the end of __0_0.distcp",
       one(saved({4}, "abcd"), "uint8", "", INT64_MAX - 1)},
      {"longer than the file", "it lies beyond the end",
       one(saved({4}, "abcd"), "uint8", "", 0, 1)},
      {"shorter than its archive", "no end record", one(saved({4}, "abcd"), "uint8", "", 0, -1)},
      {"not from its beginning", "the zip archive", one(saved({4}, "abcd"), "uint8", "", 4, -4)},
      {"no bytes at all", "no end record",
       one(saved({4}, "abcd"), "uint8", "", 0,
           -static_cast<std::int64_t>(saved({4}, "abcd").size()))},
      {"no archive", "no end record", one(std::string(10000, 'x'))},
      {"no pickle", "it is a zip archive without a data.pkl", one(testing::make_zip({{"a", "b"}}))},
      {"an extension", "the extension 'stream.zstd/1'",
       one(saved({4}, "abcd"), "uint8",
           text("transform_descriptors") + list(text("stream.zstd/1"))),
       false},
      {"a storage that is too short", "storage 0 has 3 bytes", one(saved({4}, "abc"))},
      {"the same place for two parts", "it overlaps another item in __0_0.distcp",
       [](Folder& folder) {
         const Item item = folder.add(saved({2}, "ab"));
         folder.state = text("w") + tensor({4}, chunk({0}, {2}) + chunk({2}, {2}));
         folder.storage = index("w", Sizes{0}) + info(item) + index("w", Sizes{2}) + info(item);
       }},
      {"a safetensors file", "which is a file of safetensors",
       [](Folder& folder) {
         const Item item = folder.add(saved({2}, "ab"), "a.safetensors");
         folder.state = text("w") + tensor({2}, chunk({0}, {2}));
         folder.storage = index("w", Sizes{0}) + info(item);
       },
       false},
      {"a part that is no tensor", "a tensor of a special class, or no tensor",
       [](Folder& folder) {
         folder.add_tensor("w", {4}, {{{0}, {2}, "ab"}});
         folder.state = text("w") + tensor({4}, chunk({0}, {2}) + chunk({2}, {2}));
         folder.storage += index("w", Sizes{2}) + info(folder.add(saved_value(number(5))));
       },
       false},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    Folder folder;
    c.make(folder);
    folder.add_tensor("other", {2}, {{{0}, {2}, "ok", "__1_0.distcp"}});
    const auto file = folder.open();
    REQUIRE_MESSAGE(file, file.error().message);
    const auto w = file->state().find(KeyView::of(std::string_view("w")));
    CHECK(w->kind() == Kind::kPlaceholder);
    CHECK(letters(*file, "other") == "ok");
    const std::string all = notes(*file);
    CHECK_MESSAGE(all.find("w: this tensor cannot be read: ") != std::string::npos, all);
    CHECK_MESSAGE(all.find(c.note) != std::string::npos, all);
    // Verification says the same, and fails, unless only this library cannot read it.
    const auto report = file->verify();
    REQUIRE(report);
    CHECK(report->error_count - report->missing_tensors == (c.is_damage ? 1 : 0));
    CHECK(report->verdict() ==
          (c.is_damage ? VerifyVerdict::kDamaged : VerifyVerdict::kIncomplete));
    if (!c.is_damage) continue;
    const std::string& damage = report->errors[report->missing_tensors].message;
    CHECK_MESSAGE(damage.find(c.note) != std::string::npos, damage);
  }
}

TEST_CASE("A part whose place is not told does not take that of another name") {
  Folder folder;
  folder.add_tensor("w", {4}, {{{0}, {2}, "ab"}});
  // Both lack a part: w one that begins where the only one of x does.
  folder.state = text("w") + tensor({4}, chunk({0}, {2}) + chunk({2}, {2}));
  folder.add_tensor("x", {4}, {{{2}, {2}, "cd"}});
  const auto file = folder.open();
  REQUIRE(file);
  for (const char* const name : {"w", "x"}) {
    CHECK(file->state().at(name)->kind() == Kind::kPlaceholder);
    CHECK(notes(*file).find(std::string(name) + ": ") != std::string::npos);
  }
}

TEST_CASE("A file that is missing is a note, and all else opens") {
  Folder folder = quarters();
  folder.add_tensor("other", {2}, {{{0}, {2}, "ok"}});
  folder.state += text("v") + instance("BytesStorageMetadata", dict(""));
  folder.storage += index("v", std::nullopt) + info({"__1_0.distcp", 0, 100});
  folder.files.erase("__1_0.distcp");
  const auto file = folder.open();
  REQUIRE(file);
  CHECK(tree(file->state()) == " dict\n/w placeholder\n/other tensor\n/v null\n");
  CHECK(file->state().at("w")->tensor()->shape()[1] == 4);
  CHECK(
      notes(*file) ==
      ": only the names are known of 2 entries with bytes in __1_0.distcp, which cannot be opened "
      "(file_missing)\n");
}

TEST_CASE("Each file that is missing is a note, which counts a tensor once") {
  Folder folder = quarters();
  folder.add_tensor("x", {2}, {{{0}, {1}, "a", "__1_0.distcp"}, {{1}, {1}, "b", "__1_0.distcp"}});
  folder.files.erase("__1_0.distcp");
  folder.files.erase("__10_0.distcp");
  const auto file = folder.open();
  REQUIRE(file);
  const std::string lost = ", which cannot be opened (file_missing)\n";
  CHECK(notes(*file) ==
        ": only the names are known of 2 entries with bytes in __1_0.distcp" + lost +
            ": only the names are known of 1 entry with bytes in __10_0.distcp" + lost);
}

TEST_CASE("Parts of whole mebibytes that are no runs, or do not ascend, are put together") {
  const auto side = static_cast<std::size_t>(kChunkBytes);
  const std::string row(side, 'a');
  const std::string other(side, 'b');
  Folder folder;
  // Each part has two runs.
  folder.add_tensor(
      "w", {2, 2 * kChunkBytes},
      {{{0, 0}, {2, kChunkBytes}, row + other}, {{0, kChunkBytes}, {2, kChunkBytes}, row + other}});
  folder.add_tensor("x", {2 * kChunkBytes},
                    {{{0}, {kChunkBytes}, row, "__1_0.distcp"},
                     {{kChunkBytes}, {kChunkBytes}, other, "__0_0.distcp"}});
  folder.add_tensor("y", {2 * kChunkBytes},
                    {{{kChunkBytes}, {kChunkBytes}, other}, {{0}, {kChunkBytes}, row}});
  const auto file = folder.open();
  REQUIRE_MESSAGE(file, file.error().message);
  CHECK((letters(*file, "w") == row + row + other + other));
  CHECK((letters(*file, "x") == row + other));
  CHECK((letters(*file, "y") == row + other));
}

TEST_CASE("Paths that collide keep both values, or the checkpoint is refused") {
  Folder folder;
  folder.add_tensor("a", {1}, {{{0}, {1}, "1"}});
  folder.add_tensor("a.b", {1}, {{{0}, {1}, "2"}});
  folder.add_tensor("c", {1}, {{{0}, {1}, "3"}});
  folder.add_tensor("l.0", {1}, {{{0}, {1}, "4"}});
  folder.add_tensor("l.x", {1}, {{{0}, {1}, "5"}});
  folder.path("a", text("a"));
  folder.path("a.b", text("a") + text("b"));
  folder.path("c", text("a"));
  folder.path("l.0", text("l") + number(0));
  folder.path("l.x", text("l") + text("x"));
  const auto refused = folder.open();
  // "c" has one key, so there is no other place for it.
  check_error(refused, ErrorCode::kForeignInvalid, "a",
              "two values of the checkpoint are at the same path");
  folder.paths = {};
  folder.path("a", text("a"));
  folder.path("a.b", text("a") + text("b"));
  folder.path("l.0", text("l") + number(0));
  folder.path("l.x", text("l") + text("x"));
  const auto file = folder.open();
  REQUIRE(file);
  CHECK(tree(file->state()) ==
        " dict\n/a tensor\n/a.b tensor\n/c tensor\n/l list\n/l/0 tensor\n/l.x tensor\n");
  CHECK(letters(*file, "l.x") == "5");
  CHECK(notes(*file).starts_with("a.b: the path of this name leads to another value"));
}

TEST_CASE("Metadata that torch does not write are refused with a sentence") {
  struct Case {
    std::string what;
    std::string message;
    std::function<void(Folder&)> change;
    ErrorCode code = ErrorCode::kForeignInvalid;
    Limits limits = {};
  };
  const auto file_named = [](const std::string& name) {
    return [=](Folder& folder) { folder.storage += index("x", Sizes{0}) + info({name, 0, 10}); };
  };
  std::string deep;
  for (int i = 0; i < 300; ++i) deep += text("k");
  const std::string shared = "q\x07";  // remembers a value
  std::string named =
      text(std::string(4000, 'A')) + "q\x08" + text(std::string(4000, 'B')) + "q\x09";
  for (int i = 0; i < 60'000; ++i) named += "h\x08h\x09\x93";
  const Case cases[] = {
      {"a class that is named again and again", "names of classes in this pickle are used so often",
       [&](Folder& folder) { folder.more = text("version") + list(named); },
       ErrorCode::kLimitExceeded},
      {"a path upwards", "the checkpoint names the file '../../etc/passwd'",
       file_named("../../etc/passwd")},
      {"an absolute path", "the checkpoint names the file '/etc/passwd'",
       file_named("/etc/passwd")},
      {"a folder", "the checkpoint names the file 'sub/__0_0.distcp'",
       file_named("sub/__0_0.distcp")},
      {"a drive", "the checkpoint names the file 'C:x'", file_named("C:x")},
      {"a folder's own name", "the checkpoint names the file '..'", file_named("..")},
      {"an empty name", "the checkpoint names the file ''", file_named("")},
      {"negative offsets", "the storage data of .metadata are malformed",
       [](Folder& folder) {
         folder.storage += index("x", Sizes{0}) +
                           global("torch.distributed.checkpoint.filesystem", "_StorageInfo") +
                           ")\x81" +
                           dict(text("relative_path") + text("f") + text("offset") +
                                "J\xff\xff\xff\xff" + text("length") + number(1)) +
                           'b';
       }},
      {"the same index twice", "the same index twice",
       [](Folder& folder) {
         folder.storage += index("w", Sizes{0, 0}) + info({"__0_0.distcp", 0, 1});
       }},
      {"the same name twice", "a name is in .metadata twice",
       [](Folder& folder) { folder.state += text("w") + tensor({1}, ""); }},
      {"two paths", "a name has two paths in .metadata",
       [](Folder& folder) {
         folder.path("w", text("a"));
         folder.path("w", text("b"));
       }},
      {"an empty path", "the path of a name in .metadata is malformed",
       [](Folder& folder) { folder.path("w", ""); }},
      {"a key that is a list", "the path of a name in .metadata is malformed",
       [](Folder& folder) { folder.path("w", list("")); }},
      {"a deep path", "Limits::depth", [&](Folder& folder) { folder.path("w", deep); },
       ErrorCode::kLimitExceeded},
      {"a huge list", "lack more elements than the file has bytes",
       [](Folder& folder) { folder.path("w", text("l") + number(std::uint64_t{1} << 40)); },
       ErrorCode::kLimitExceeded},
      {"the largest list", "lack more elements than the file has bytes",
       [](Folder& folder) { folder.path("w", text("l") + number(INT64_MAX)); },
       ErrorCode::kLimitExceeded},
      {"parts with other axes", "has other axes than the tensor",
       [](Folder& folder) {
         folder.state += text("x") + tensor({4}, chunk({0, 0}, {4, 4}));
       }},
      {"a shape of texts", "the metadata of a tensor are malformed",
       [](Folder& folder) {
         folder.state +=
             text("x") + instance("TensorStorageMetadata", dict(text("size") + tuple(text("1")) +
                                                                text("chunks") + list("")));
       }},
      {"a huge tensor", "the shape has 2^64 elements or more",
       [](Folder& folder) {
         folder.state += text("x") + tensor({std::uint64_t{1} << 62, 1024}, "");
       }},
      {"many axes", "a tensor has 65 axes and readers accept 64 (Limits::rank)",
       [](Folder& folder) { folder.state += text("x") + tensor(Sizes(65, 1), ""); },
       ErrorCode::kLimitExceeded},
      {"a million parts", "objects in .metadata are shared so often",
       [](Folder& folder) {
         // One list of a thousand parts, in a thousand tensors.
         std::string parts = chunk({0}, {1}) + "q\x01";
         for (int i = 1; i < 1000; ++i) parts += "h\x01";
         for (int i = 0; i < 1000; ++i) {
           folder.state +=
               text(std::to_string(i)) +
               instance("TensorStorageMetadata", dict(text("size") + size({1}) + text("chunks") +
                                                      (i == 0 ? list(parts) + "q\x02" : "h\x02")));
         }
       },
       ErrorCode::kLimitExceeded},
      {"a thousand paths in one tuple", "there would be more numbers and keys than bytes",
       [](Folder& folder) {
         std::string keys;
         for (int i = 0; i < 200; ++i) keys += text("a");
         for (int i = 0; i < 1000; ++i) {
           const std::string name = text(std::to_string(i));
           folder.state +=
               name + (i == 0 ? instance("BytesStorageMetadata", dict("")) + "q\x03" : "h\x03");
           folder.paths += name + (i == 0 ? tuple(keys) + "q\x04" : "h\x04");
         }
       },
       ErrorCode::kLimitExceeded},
      {"no metadata", "the pickle is not the metadata of a distributed checkpoint",
       [](Folder& folder) { folder.storage = "N", folder.state = "x"; }},
      {"a pickle over its limit",
       "Limits::pickle_bytes",
       [](Folder&) {},
       ErrorCode::kLimitExceeded,
       {.pickle_bytes = 100}},
  };
  for (const Case& c : cases) {
    INFO(c.what);
    if (c.what == "no metadata") {
      const std::string bytes =
          "\x80\x02" + global(kModule, "Metadata") + text("state_dict_metadata") + "0.";
      CHECK(looks_like_dcp(as_bytes(bytes), bytes.size()));
      Notes ignored;
      CHECK_FALSE(read_dcp_metadata(as_bytes(bytes), {}, ignored));
      continue;
    }
    Folder folder = quarters();
    c.change(folder);
    const auto file = folder.open({.limits = c.limits});
    REQUIRE_FALSE(file);
    CHECK(to_string(file.error().code) == to_string(c.code));
    CHECK_MESSAGE(file.error().message.find(c.message) != std::string::npos, file.error().message);
  }
  // Bytes after the pickle, and too few of it.
  const TemporaryFolder folder;
  const std::string metadata = quarters().metadata();
  REQUIRE(testing::write_whole(folder / ".metadata", as_bytes(metadata + "x")));
  check_error(CheckpointFile::open(folder / ".metadata"), ErrorCode::kTrailingBytes, "",
              "goes on for 1 byte");
  REQUIRE(testing::write_whole(folder / ".metadata", as_bytes(metadata.substr(0, 600))));
  CHECK_FALSE(CheckpointFile::open(folder / ".metadata"));
}

TEST_CASE("Calls in the metadata are noted, and refused where there are no tensors") {
  Folder folder = quarters();
  folder.more = text("version") + call("posix", "system", text("true"));
  const auto file = folder.open();
  REQUIRE(file);
  CHECK(notes(*file) == ": Loading this with pickle would call posix.system; nothing was run.\n");
  Folder bare;
  bare.add_value("v", call("posix", "system", text("true")));
  check_error(
      bare.open(), ErrorCode::kForeignInvalid, "",
      "this checkpoint holds no tensors, and loading it with torch would call posix.system");
  bare.storage = bare.state = {};
  bare.add_value("v", "N");
  CHECK(bare.open());
}

TEST_CASE("Names beyond one round of items open, and the requests are few") {
  // More items than are opened at a time, and more than one file.
  Folder folder;
  for (int i = 0; i < 5000; ++i) {
    folder.add_tensor("t" + std::to_string(i), {2},
                      {{{0}, {2}, "ab", "__" + std::to_string(i % 3) + "_0.distcp"}});
  }
  // Items longer than both of their ends.
  folder.add_tensor("large", {100'000}, {{{0}, {100'000}, std::string(100'000, 'l')}});
  const std::string metadata = folder.metadata();
  std::vector<const std::string*> files = {&metadata};
  AnyOpener opener({.file_size = metadata.size()});
  int rounds = 0;
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  while (!opener.wants().empty() || !opener.needs().empty()) {
    while (!opener.wants().empty()) {
      files.push_back(&folder.files.at(opener.wants().front().name));
      REQUIRE(opener.answer(opener.wants().front().number, files.back()->size()));
    }
    const std::vector<Extent> needs(opener.needs().begin(), opener.needs().end());
    ++rounds;
    for (const Extent& need : needs) {
      ++requests;
      bytes += need.length;
      REQUIRE(opener.feed(need, as_bytes(*files[need.file])
                                    .subspan(static_cast<std::size_t>(need.offset),
                                             static_cast<std::size_t>(need.length))));
    }
  }
  REQUIRE(opener.finish());
  // The metadata take two, and the items two: neighbours are read together.
  CHECK(rounds == 4);
  CHECK(requests < 30);
  CHECK(bytes < metadata.size() + 5001 * 1000);
}

TEST_CASE("A tensor that was cut is read within its limit") {
  const auto file = quarters().open({.limits = {.made_bytes = 15}});
  REQUIRE(file);
  CHECK(letters(*file, "w").starts_with("error: this part of the checkpoint takes 16 bytes"));
}

TEST_CASE("A folder that is no checkpoint says what it is") {
  const TemporaryFolder folder;
  const auto says = [&](const char* name, const char* message) {
    const fs::path inner = folder / ("of " + std::string(name));
    fs::create_directories(inner);
    REQUIRE(testing::write_whole(inner / name, as_bytes(std::string_view("x"))));
    check_error(CheckpointFile::open(inner), ErrorCode::kNotARegularFile, "", message);
  };
  says("model.safetensors.index.json", "open its file model.safetensors.index.json");
  says("saved_model.pb", "it is a SavedModel of TensorFlow");
  says("ckpt-1.data-00000-of-00001", "it holds a checkpoint of TensorFlow");
  says("__0_0.distcp", "without their .metadata");
  says("step-1.espalier", "open one of them, such as step-1.espalier");
  says("zarr.json", "it is a zarr store");
  says(".zgroup", "it is a zarr store");
  says("Manifest.json", "it is a model of Core ML");
  says("a.pt", "open one of them, such as a.pt");
  says("a.npy", "open one of them, such as a.npy");
  says("a.gguf", "open one of them, such as a.gguf");
  says("a.msgpack", "open one of them, such as a.msgpack");
  says("readme", "a checkpoint is one file");
  // A file of the model has a name that stands before that of the index.
  const fs::path variant = folder / "of a variant";
  fs::create_directories(variant);
  for (const char* name :
       {"model.fp16-00001-of-00002.safetensors", "model.safetensors.index.fp16.json"}) {
    REQUIRE(testing::write_whole(variant / name, as_bytes(std::string_view("x"))));
  }
  check_error(CheckpointFile::open(variant), ErrorCode::kNotARegularFile, "",
              "open its file model.safetensors.index.fp16.json");
  fs::create_directories(folder / "empty");
  check_error(CheckpointFile::open(folder / "empty"), ErrorCode::kNotARegularFile, "",
              "it is empty");
  const fs::path steps = folder / "of steps";
  fs::create_directories(steps);
  for (const char* name : {"step_00000009.espalier", "step_100000000.espalier", "best.espalier",
                           "step_99999999.espalier", "step_x.espalier", "step_2.espalier"}) {
    REQUIRE(testing::write_whole(steps / name, as_bytes(std::string_view("x"))));
  }
  check_error(CheckpointFile::open(steps), ErrorCode::kNotARegularFile, "",
              "open one of them, such as the newest, step_100000000.espalier");
}

TEST_CASE("Only pickles of the right class look like a distributed checkpoint") {
  const auto looks = [](std::string_view front) {
    return looks_like_dcp(as_bytes(front), front.size());
  };
  const std::string module(kModule);
  const std::string rest = "Metadata state_dict_metadata";
  const std::string names = 'c' + module + '\n' + rest;
  for (const char protocol : {'\2', '\3', '\4', '\5'}) {
    CHECK(looks("\x80"s + protocol + names));
  }
  for (const char protocol : {'\1', '\6'}) CHECK_FALSE(looks("\x80"s + protocol + names));
  // As protocols 4 and 5 write it, in a frame.
  CHECK(looks("\x80\x04\x95\xA5\4\0\0\0\0\0\0\x8C%"s + module + "\x94\x8C\x08" + rest));
  CHECK(looks("\x80\x04\x8C%"s + module + "\x94\x8C\x08" + rest));
  CHECK_FALSE(looks("\x81\x02" + names));
  CHECK_FALSE(
      looks("\x80\x02"
            "c" +
            module + "\nstate_dict_metadata Metadata"));
  // Keys of a dict: with these words, and with the name of the module as well.
  CHECK_FALSE(looks("\x80\x04\x95.\0\0\0\0\0\0\0}\x94(\x8C\x08"s + rest));
  CHECK_FALSE(looks("\x80\x02}q\0(X%\0\0\0"s + module + "q\1K\1X\x08\0\0\0"s + rest));
  CHECK_FALSE(looks(""));
  CHECK_FALSE(looks("\x80"));
}

TEST_CASE("An item whose pickle does not fit in what is read first opens in more steps") {
  Folder folder = quarters();
  folder.add_value("v", list(text(std::string(10'000, 'a')) + text(std::string(80'000, 'b'))));
  const auto file = folder.open();
  REQUIRE_MESSAGE(file, file.error().message);
  CHECK(notes(*file) == "");
  CHECK(file->state().at("v/1")->as_string() == std::string(80'000, 'b'));
}

TEST_CASE("The names of modules are nodes of the tree, and as many of them are read") {
  const std::string modules = list(text("a") + text("b") + text("c"));
  const std::string file =
      "\x80\x02" +
      instance("Metadata", dict(text("state_dict_metadata") + dict("") + text("storage_data") +
                                dict("") + text("storage_meta") +
                                instance("StorageMeta", dict(text("modules") + modules)))) +
      '.';
  for (const std::uint64_t nodes : {2u, 3u}) {
    Limits limits;
    limits.nodes = nodes;
    Notes notes;
    const auto metadata = read_dcp_metadata(as_bytes(file), limits, notes);
    REQUIRE(metadata);
    CHECK(metadata->modules.size() == (nodes == 3 ? 3 : 0));
    CHECK(notes.count() == (nodes == 3 ? 0 : 1));
  }
}

TEST_CASE("Boxes are put together from the bytes that were asked for alone") {
  BoxCopy copy{.from = {1, 100, 4}, .to = 0, .run = 2, .axes = {{2, 4}}};
  const BoxMaker maker({copy});
  std::vector<std::byte> out(8);
  const auto machine = maker.start(out);
  REQUIRE(machine->needs().size() == 1);
  const auto bytes = as_bytes(std::string_view("abcde"));
  for (const Extent& wrong : {Extent{2, 100, 4}, Extent{1, 101, 3}, Extent{1, 100, 5}}) {
    const auto fed = machine->feed(wrong, bytes.first(static_cast<std::size_t>(wrong.length)));
    REQUIRE_FALSE(fed);
    CHECK(to_string(fed.error().code) == to_string(ErrorCode::kInvalidArgument));
  }
  REQUIRE(machine->feed({1, 100, 3}, bytes.first(3)));
  const auto early = machine->finish();
  REQUIRE_FALSE(early);
  CHECK(to_string(early.error().code) == to_string(ErrorCode::kIncomplete));
  REQUIRE(machine->feed({1, 103, 1}, bytes.subspan(3, 1)));
  CHECK(machine->finish());
  CHECK(std::string(as_text(out)) == "ab\0\0cd\0\0"s);
  const auto more = machine->feed({1, 104, 1}, bytes.first(1));
  REQUIRE_FALSE(more);
  CHECK(to_string(more.error().code) == to_string(ErrorCode::kInvalidArgument));
}

TEST_CASE("A cover is exact, or says what is wrong") {
  testing::Random random(7);
  for (int round = 0; round < 300; ++round) {
    // Cuts one box after the other in two.
    struct Made {
      Sizes offset;
      Sizes size;
    };
    const Sizes shape = {1 + random.below(6), 1 + random.below(6), 1 + random.below(6)};
    std::vector<Made> made = {{{0, 0, 0}, shape}};
    for (int cut = 0; cut < 6; ++cut) {
      Made& box = made[random.below(made.size())];
      const std::size_t axis = random.below(3);
      if (box.size[axis] < 2) continue;
      const std::uint64_t first = 1 + random.below(box.size[axis] - 1);
      Made other = box;
      other.offset[axis] += first;
      other.size[axis] -= first;
      box.size[axis] = first;
      made.push_back(other);
    }
    const auto cover = [&] {
      std::vector<Box> boxes;
      for (const Made& box : made) boxes.push_back({box.offset, box.size});
      return check_cover(shape, boxes);
    };
    CHECK(cover() == Cover::kExact);
    // Any change is seen.
    Made& changed = made[random.below(made.size())];
    const Made before = changed;
    const std::size_t axis = random.below(3);
    ++changed.size[axis];
    const Cover larger = cover();
    CHECK((larger == Cover::kBeyond || larger == Cover::kOverlap));
    changed = before;
    if (changed.size[axis] > 1) {
      --changed.size[axis];
      CHECK(cover() == Cover::kHole);
      changed = before;
    }
    made.push_back(before);
    CHECK(cover() == Cover::kOverlap);
  }
  // Rows that are cut at different places each: looking at each slab takes the square of them.
  constexpr std::uint64_t kRows = 4000;
  std::vector<Sizes> numbers;
  for (std::uint64_t i = 0; i < kRows; ++i) {
    numbers.insert(numbers.end(), {{i, 0}, {1, i + 1}, {i, i + 1}, {1, kRows - i}});
  }
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < numbers.size(); i += 2) boxes.push_back({numbers[i], numbers[i + 1]});
  const Sizes shape = {kRows, kRows + 1};
  CHECK(check_cover(shape, boxes) == Cover::kExact);
  for (Sizes& pair : numbers) std::swap(pair[0], pair[1]);
  const Sizes turned = {kRows + 1, kRows};
  CHECK(check_cover(turned, boxes) == Cover::kTangled);
}

}  // namespace
}  // namespace espalier
