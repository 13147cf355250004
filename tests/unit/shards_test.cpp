// Models in several files: what opens, and what becomes of files that are missing or lie.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/checkpoint_file.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/common/foreign_tensor.h"
#include "espalier/foreign/shards/opener.h"
#include "espalier/format/file_set.h"
#include "espalier/format/format_info.h"
#include "espalier/notes.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::Random;
using testing::TemporaryFolder;
using Files = std::map<std::string, std::string>;

constexpr char kIndexName[] = "model.safetensors.index.json";

// A file with that header, and as many bytes after it, which are all `fill`.
std::string safetensors(const std::string& json, std::size_t bytes, char fill = 'x') {
  std::string file(8, '\0');
  store_le(reinterpret_cast<std::byte*>(file.data()), std::uint64_t{json.size()});
  return file + json + std::string(bytes, fill);
}

// A tensor of four bytes.
std::string entry(const std::string& name, int begin) {
  return '"' + name + R"(":{"dtype":"U8","shape":[2,2],"data_offsets":[)" + std::to_string(begin) +
         ',' + std::to_string(begin + 4) + "]}";
}

std::string shard_name(int i) { return "model-" + std::to_string(i) + ".safetensors"; }

// Shard i has the tensors "i.a" and "i.b", whose bytes are all of the letter i.
std::string shard(int i) {
  const std::string number = std::to_string(i);
  return safetensors(R"({"__metadata__":{"format":"pt"},)" + entry(number + ".a", 0) + ',' +
                         entry(number + ".b", 4) + '}',
                     8, static_cast<char>('a' + i));
}

// The index names the tensors from the last to the first, so that the shards come in turn.
Files model(int shards) {
  Files files;
  std::string map;
  for (const char* tensor : {".b", ".a"}) {
    for (int i = shards - 1; i >= 0; --i) {
      map += (map.empty() ? "\"" : ", \"") + std::to_string(i) + tensor + "\": \"" + shard_name(i) +
             '"';
    }
  }
  for (int i = 0; i < shards; ++i) files[shard_name(i)] = shard(i);
  files[kIndexName] = R"({"metadata": {"total_size": 128}, "weight_map": {)" + map + "}}\n";
  return files;
}

// An index of two tensors, and the files that have them.
Files small_model() {
  Files files;
  files[kIndexName] = R"({"metadata": {}, "weight_map": {"x": "one", "y": "two"}})";
  files["one"] = safetensors('{' + entry("x", 0) + '}', 4);
  files["two"] = safetensors('{' + entry("y", 0) + '}', 4);
  return files;
}

// Drives the machine over files in memory: `feed` gets the machine and its needs.
template <class Feed>
Result<Checkpoint> open(const Files& files, Feed feed, const OpenOptions& extra = {}) {
  std::vector<const std::string*> opened = {&files.at(kIndexName)};
  OpenOptions options = extra;
  options.file_size = opened[0]->size();
  AnyOpener opener(options);
  while (!opener.wants().empty() || !opener.needs().empty()) {
    while (!opener.wants().empty()) {
      const WantedFile wanted = opener.wants().front();
      REQUIRE(wanted.number == opened.size());
      const auto file = files.find(wanted.name);
      opened.push_back(file == files.end() ? nullptr : &file->second);
      auto ok =
          opener.answer(wanted.number, opened.back() != nullptr
                                           ? Result<std::uint64_t>(opened.back()->size())
                                           : fail(ErrorCode::kFileMissing, "the file is missing"));
      if (!ok) return propagate(ok);
    }
    if (auto ok = feed(opener, opened); !ok) return propagate(ok);
  }
  return opener.finish();
}

Result<void> feed_piece(OpeningMachine& machine, const std::vector<const std::string*>& files,
                        const Extent& extent) {
  return machine.feed(extent, as_bytes(*files[extent.file])
                                  .subspan(static_cast<std::size_t>(extent.offset),
                                           static_cast<std::size_t>(extent.length)));
}

// What the machine needs, as it needs it.
Result<void> feed_needs(OpeningMachine& machine, const std::vector<const std::string*>& files) {
  return machine.needs().empty() ? Result<void>{}
                                 : feed_piece(machine, files, machine.needs().front());
}

Result<Checkpoint> open(const Files& files, const OpenOptions& extra = {}) {
  return open(files, feed_needs, extra);
}

// One line for each node of the state: its path, and a tensor's file and offset there.
std::string tree_of(const Checkpoint& checkpoint) {
  std::string lines;
  const NodeRef state = checkpoint.state();
  for (std::uint32_t i = 0; i < state.size(); ++i) {
    const auto tensor = state.child(i).tensor();
    REQUIRE(tensor);
    lines += std::string(state.key(i).text) + ' ';
    if (tensor->is_placeholder()) {
      lines += "-";
    } else {
      const auto extent = tensor->raw_extent();
      REQUIRE(extent);
      lines +=
          checkpoint.catalog().files()[extent->file].name + '@' + std::to_string(extent->offset);
    }
    lines += '\n';
  }
  return lines;
}

std::string notes_of(const Checkpoint& checkpoint) {
  std::string lines;
  for (const Note& note : checkpoint.catalog().notes().listed()) {
    lines += (note.kind == Note::Kind::kLoss ? "loss " : "warning ") + note.path + ": " +
             note.message + '\n';
  }
  return lines;
}

TEST_CASE("A model in 16 files opens as one dict in the order of its index") {
  TemporaryFolder folder;
  for (const auto& [name, bytes] : model(16)) {
    REQUIRE(testing::write_whole(folder / name, as_bytes(bytes)));
  }
  const auto file = CheckpointFile::open(folder / kIndexName);
  REQUIRE(file);
  const Catalog& catalog = file->checkpoint().catalog();
  CHECK(catalog.format().name == "sharded");
  CHECK(catalog.files().size() == 17);
  CHECK(catalog.notes().count() == 0);
  const NodeRef state = file->state();
  REQUIRE(state.size() == 32);
  CHECK(state.key(0).text == "15.b");
  CHECK(state.key(31).text == "0.a");
  for (std::uint32_t i = 0; i < state.size(); ++i) {
    const auto view = file->view(*state.child(i).tensor());
    REQUIRE(view);
    CHECK(view->shape == std::vector<std::uint64_t>{2, 2});
    const char letter = static_cast<char>('a' + 15 - i % 16);
    const auto bytes = view->bytes();
    CHECK(as_text(bytes) == std::string(4, letter));
  }
  const NodeRef metadata = file->metadata();
  REQUIRE(metadata.size() == 17);
  CHECK(metadata.key(0).text == "index");
  CHECK(metadata.at("index/metadata/total_size")->as_int64() == 128);
  CHECK(metadata.find(KeyView::of("model-7.safetensors"))->at("format")->as_string() == "pt");
}

TEST_CASE("The bytes may come in odd pieces and in any order") {
  const Files files = model(16);
  const auto plain = open(files);
  REQUIRE(plain);
  const std::string tree = tree_of(*plain);
  for (const std::uint64_t piece : {1u, 7u, 100u}) {
    const auto checkpoint = open(files, [&](OpeningMachine& machine, const auto& opened) {
      if (machine.needs().empty()) return Result<void>{};
      Extent extent = machine.needs().front();
      extent.length = std::min(extent.length, piece);
      return feed_piece(machine, opened, extent);
    });
    REQUIRE(checkpoint);
    CHECK(tree_of(*checkpoint) == tree);
  }
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const auto checkpoint = open(files, [&](OpeningMachine& machine, const auto& opened) {
      const auto file = static_cast<std::uint32_t>(random.below(opened.size()));
      const std::uint64_t size = opened[file]->size();
      const std::uint64_t offset = random.below(size);
      return feed_piece(machine, opened, {file, offset, 1 + random.below(size - offset)});
    });
    REQUIRE(checkpoint);
    CHECK(tree_of(*checkpoint) == tree);
  }
}

TEST_CASE("All files are asked for at once") {
  const Files files = model(16);
  std::size_t most = 0;
  REQUIRE(open(files, [&](OpeningMachine& machine, const auto& opened) {
    most = std::max(most, machine.needs().size());
    return feed_needs(machine, opened);
  }));
  CHECK(most == 16);
}

TEST_CASE("Tensors of a missing or damaged file are placeholders, with a note") {
  Files missing = small_model();
  missing.erase("two");
  auto checkpoint = open(missing);
  REQUIRE(checkpoint);
  CHECK(tree_of(*checkpoint) == "x one@" + std::to_string(missing["one"].size() - 4) + "\ny -\n");
  CHECK(notes_of(*checkpoint) ==
        "loss : only the names are known of the 1 tensor in two, which cannot be opened "
        "(file_missing)\n");
  const TensorRef lost = *checkpoint->state().child(1).tensor();
  CHECK(lost.dtype() == DType::kOpaque);
  CHECK(lost.block().name == kUnknownDtype);
  CHECK(lost.bytes() == 0);
  CHECK(checkpoint->catalog().files()[2].problem->file == "two");

  const std::pair<std::string, std::string> damaged[] = {
      {"", "truncated"},
      {small_model()["two"].substr(0, 30), "safetensors_invalid"},
      {small_model()["two"] + "x", "trailing_bytes"},
      {small_model()["two"].substr(0, small_model()["two"].size() - 1), "truncated"},
      {"hello, world, this is no file of tensors at all", "not_a_checkpoint"},
      // Would open ever more files.
      {small_model()[kIndexName], "foreign_invalid"},
      {R"({"weight_map": {}})", "foreign_invalid"},
  };
  for (const auto& [bytes, code] : damaged) {
    Files files = small_model();
    files["two"] = bytes;
    checkpoint = open(files);
    REQUIRE(checkpoint);
    CHECK(tree_of(*checkpoint).ends_with("\ny -\n"));
    CHECK(notes_of(*checkpoint).ends_with("cannot be opened (" + code + ")\n"));
  }
}

TEST_CASE("An index and its files that do not agree are noted tensor by tensor") {
  Files files = small_model();
  files["two"] = safetensors('{' + entry("x", 0) + ',' + entry("z", 4) + '}', 8);
  const auto checkpoint = open(files);
  REQUIRE(checkpoint);
  const std::string one = std::to_string(files["one"].size() - 4);
  const std::string two = std::to_string(files["two"].size() - 4);
  CHECK(tree_of(*checkpoint) == "x one@" + one + "\ny -\nz two@" + two + '\n');
  CHECK(notes_of(*checkpoint) ==
        "loss y: the index says that this tensor is in two, which does not have it\n"
        "loss x: two has another tensor of this name, which is left out because the index does not "
        "name it\n"
        "warning z: the index does not name this tensor, which is in two\n");
}

TEST_CASE("A bad index is refused") {
  struct Case {
    const char* json;
    const char* path;
    const char* message;
  };
  const Case cases[] = {
      {R"({"weight_map": {"x": "one")", "", "it is not JSON"},
      {R"({"weight_map": ["one"]})", "", "does not have one weight_map"},
      {R"({"weight_map": {}, "weight_map": {}})", "", "does not have one weight_map"},
      {R"({"": {"weight_map": {}}})", "", "does not have one weight_map"},
      {R"({"weight_map": {"x": 1}})", "x", "with a text"},
      {R"({"weight_map": {"x": "\udc00"}})", "x", "with a text"},
      {"{\"weight_map\": {\"x\": \"\xff\"}}", "x", "with a text"},
      {R"({"weight_map": {"x": "one", "y": "two", "x": "one"}})", "x", "the same name twice"},
      {R"({"a": 1, "a": 2, "weight_map": {}})", "(metadata)/index/a", "the same name twice"},
      {R"({"weight_map": {"a.b": "../one"}})", "a.b", "names the file '../one'"},
      {R"({"weight_map": {"x": "/etc/passwd"}})", "x", "plain names"},
      {R"({"weight_map": {"x": "one", "y": "./one"}})", "y", "names the file './one'"},
      {R"({"weight_map": {"x": ".."}})", "x", "plain names"},
      {R"({"weight_map": {"x": ""}})", "x", "plain names"},
      {R"({"weight_map": {"x": "a\\b"}})", "x", "plain names"},
      {R"({"weight_map": {"x": "C:one"}})", "x", "plain names"},
      {R"({"weight_map": {"x": "one\u0000"}})", "x", "plain names"},
      {R"({"weight_map": {"x": "index"}})", "x", "plain names"},
      {"{\"weight_map\": {\"\xff\": \"one\"}}", "", "not UTF-8"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.json);
    Files files = small_model();
    files[kIndexName] = c.json;
    testing::check_error(open(files), ErrorCode::kForeignInvalid, c.path, c.message);
  }
}

TEST_CASE("The opener of an index stays failed, and is incomplete until it has all") {
  const auto is_incomplete = [](OpeningMachine& machine) {
    const auto checkpoint = machine.finish();
    REQUIRE_FALSE(checkpoint);
    return checkpoint.error().code == ErrorCode::kIncomplete;
  };
  const Files files = small_model();
  const std::string& text = files.at(kIndexName);
  AnyOpener opener({.file_size = text.size()});
  REQUIRE(opener.feed({0, 0, text.size() - 1}, as_bytes(text).first(text.size() - 1)));
  CHECK(is_incomplete(opener));
  REQUIRE(opener.feed({0, 0, text.size()}, as_bytes(text)));
  CHECK(is_incomplete(opener));
  for (const std::uint32_t number : {1u, 2u})
    REQUIRE(opener.answer(number, files.at("one").size()));
  CHECK(opener.wants().empty());
  CHECK(is_incomplete(opener));

  const std::string bad = R"({"weight_map": 1})";
  AnyOpener failed({.file_size = bad.size()});
  const auto fed = failed.feed({0, 0, bad.size()}, as_bytes(bad));
  REQUIRE_FALSE(fed);
  for (const std::string& later :
       {failed.feed({0, 0, 1}, as_bytes(bad).first(1)).error().message,
        failed.answer(1, std::uint64_t{1}).error().message, failed.finish().error().message}) {
    CHECK(later == fed.error().message);
  }
}

TEST_CASE("What an index says beside its map is metadata, and is not believed") {
  Files files = small_model();
  // As that of BLOOM, with 72 digits.
  const std::string digits = "71" + std::string(70, '3');
  files[kIndexName] = R"({"metadata": {"total_size": )" + digits +
                      R"(, "list": [null, true, -1, 0.1, "a", 18446744073709551615, {}]},)" +
                      R"("weight_map": {"x": "one", "y": "two"}, "version": 2})";
  const auto checkpoint = open(files);
  REQUIRE(checkpoint);
  const NodeRef index = *checkpoint->metadata().at("index");
  CHECK(index.at("metadata/total_size")->as_double() == std::stod(digits));
  const NodeRef list = *index.at("metadata/list");
  REQUIRE(list.kind() == Kind::kList);
  REQUIRE(list.size() == 7);
  CHECK(list.child(0).kind() == Kind::kNull);
  CHECK(list.child(1).as_bool() == true);
  CHECK(list.child(2).as_int64() == -1);
  CHECK(list.child(3).as_double() == 0.1);
  CHECK(list.child(4).as_string() == "a");
  CHECK(list.child(5).as_bigint()->to_decimal() == "18446744073709551615");
  CHECK(list.child(6).kind() == Kind::kDict);
  CHECK(index.at("version")->as_int64() == 2);
  CHECK_FALSE(index.at("weight_map"));
}

TEST_CASE("An index is told from other files, whatever its length") {
  const auto is_index = [](std::string text) {
    const std::size_t front = std::min<std::size_t>(text.size(), kFirstReadBytes);
    return looks_like_shard_index(as_bytes(text).first(front), text.size());
  };
  CHECK(is_index(R"({"weight_map": {}})"));
  CHECK(is_index("{\n \"abcd\":{},\n  \"weight_map\": {}}"));
  CHECK(
      is_index(R"({ "metadata": {"a": ")" + std::string(70000, 'a') + R"("}, "weight_map": {}})"));
  CHECK_FALSE(is_index(R"({"error": "not found"})"));
  CHECK_FALSE(is_index(R"({"metadata": 1})"));
  CHECK_FALSE(is_index(R"(["weight_map"])"));
  // A header of 8827 bytes begins with the bytes of {".
  std::string json = R"({"weight_map":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  json.resize(8827, ' ');
  CHECK_FALSE(is_index(safetensors(json, 0)));
  const auto with_long_header = open({{kIndexName, safetensors(json, 0)}});
  REQUIRE(with_long_header->state().size() == 1);

  // More than the first 64 KiB, and the map after them.
  Files files = small_model();
  files[kIndexName] = R"({"metadata": {"a": ")" + std::string(2'000'000, 'a') +
                      R"("}, "weight_map": {"x": "one", "y": "two"}})";
  const auto with_long_metadata = open(files);
  CHECK(with_long_metadata->state().size() == 2);
}

TEST_CASE("Names nest in the joined tree, and limits hold for every file") {
  const auto nested = open(model(2), {.nest = true});
  REQUIRE(nested);
  CHECK(nested->state().at("1/b"));
  Limits limits;
  limits.foreign_header_bytes = 100;
  testing::check_error(open(model(1), {.limits = limits}), ErrorCode::kLimitExceeded, "",
                       "the index has");
  limits = {};
  limits.foreign_header_bytes = small_model()[kIndexName].size();
  Files files = small_model();
  files["two"] = shard(1);
  const auto refused = open(files, {.limits = limits});
  testing::check_error(refused, ErrorCode::kLimitExceeded, "", "foreign_header_bytes");
  CHECK(refused.error().file == "two");
  limits = {};
  limits.depth = 3;
  files = small_model();
  files[kIndexName] = R"({"weight_map": {}, "a": [[[[1]]]]})";
  CHECK(open(files, {.limits = limits}).error().code == ErrorCode::kLimitExceeded);
  limits = {};
  limits.nodes = 4;
  testing::check_error(open(model(2), {.limits = limits}), ErrorCode::kLimitExceeded, "",
                       "Limits::nodes");
  CHECK(open(files));
}

TEST_CASE("Files of a cache that are links to blobs elsewhere open") {
  TemporaryFolder folder;
  fs::create_directories(folder / "blobs");
  fs::create_directories(folder / "snapshots");
  int blob = 0;
  for (const auto& [name, bytes] : small_model()) {
    const std::string target = "blobs/" + std::to_string(blob++);
    REQUIRE(testing::write_whole(folder / target, as_bytes(bytes)));
    fs::create_symlink("../" + target, folder / ("snapshots/" + name));
  }
  const auto file = CheckpointFile::open(folder / "snapshots" / kIndexName);
  REQUIRE(file);
  CHECK(file->checkpoint().catalog().notes().count() == 0);
  CHECK(file->state().size() == 2);
}

}  // namespace
}  // namespace espalier
