// Msgpack files whose arrays lie in folders beside them, made here. tests/foreign/msgpack has those
// of Orbax and flax.
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_file.h"
#include "espalier/detail/catalog.h"
#include "espalier/notes.h"

namespace espalier {
namespace {

using namespace std::string_literals;

std::string text(const std::string& value) {
  REQUIRE(value.size() < 256);
  return "\xD9" + std::string(1, static_cast<char>(value.size())) + value;
}

std::string map(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string bytes(1, static_cast<char>(0x80 + members.size()));
  for (const auto& [key, value] : members) bytes += text(key) + value;
  return bytes;
}

std::string notes_of(const Checkpoint& checkpoint) {
  std::string lines;
  for (const Note& note : checkpoint.catalog().notes().listed()) {
    lines += note.path + ": " + note.message + '\n';
  }
  return lines;
}

// An array of zarr in a folder, of one chunk without compression.
void write_zarr(const std::filesystem::path& folder, const std::string& data,
                const std::string& shape = "[2]") {
  std::filesystem::create_directories(folder);
  const std::string metadata =
      R"({"chunks":)" + shape + R"(,"compressor":null,"dtype":"|u1","fill_value":null,)" +
      R"("filters":null,"order":"C","shape":)" + shape + R"(,"zarr_format":2})";
  REQUIRE(testing::write_whole(folder / ".zarray", as_bytes(metadata)));
  REQUIRE(testing::write_whole(folder / "0", as_bytes(data)));
}

struct Beside {
  testing::TemporaryFolder folder;
  Result<CheckpointFile> open(const std::string& file, const std::string& name = "checkpoint",
                              const OpenFileOptions& options = {}) const {
    REQUIRE(testing::write_whole(folder.path() / name, as_bytes(file)));
    return CheckpointFile::open(folder.path() / name, options);
  }
};

TEST_CASE("Texts stand for arrays that lie beside the file") {
  const Beside beside;
  write_zarr(beside.folder.path() / "params.a", "ab");
  write_zarr(beside.folder.path() / "run_gda/p/b", "cd");
  const std::string file = map({{"PLACEHOLDER://key", "\x01"},
                                {"list", "\x92" + text("PLACEHOLDER://params.a") + "\xC0"},
                                {"b", text("//GDAPlaceholder:p/b")},
                                {"c", text("a PLACEHOLDER://")}});
  const auto opened = beside.open(file, "run");
  REQUIRE_MESSAGE(opened, opened.error().describe());
  const NodeRef state = opened->state();
  CHECK(state.key(0).text == "PLACEHOLDER://key");
  CHECK(state.at("c")->as_string() == "a PLACEHOLDER://");
  for (const auto& [path, data] : {std::pair("list/0", "ab"), std::pair("b", "cd")}) {
    const auto tensor = opened->view(*state.at(path)->tensor());
    REQUIRE_MESSAGE(tensor, tensor.error().describe());
    const auto bytes = tensor->bytes();
    CHECK(as_text(bytes) == data);
  }
  CHECK(notes_of(opened->checkpoint()).empty());
  // A folder is opened by that file, if it is called as Orbax calls it.
  REQUIRE(beside.open(map({{"w", text("PLACEHOLDER://params.a")}})));
  const auto folder = CheckpointFile::open(beside.folder.path());
  REQUIRE_MESSAGE(folder, folder.error().describe());
  CHECK(folder->state().at("w")->kind() == Kind::kTensor);
}

TEST_CASE("Two texts for one array are a tie") {
  const Beside beside;
  write_zarr(beside.folder.path() / "a", "ab");
  const auto opened =
      beside.open(map({{"x", text("PLACEHOLDER://a")}, {"y", text("PLACEHOLDER://a")}}));
  REQUIRE_MESSAGE(opened, opened.error().describe());
  CHECK(opened->checkpoint().tensor_count() == 1);
  CHECK(notes_of(opened->checkpoint()) ==
        "y: an earlier value of the file stands for the same array, so both are one (a tie)\n");
}

TEST_CASE("An array that is not beside the file is named, and the others open") {
  const Beside beside;
  write_zarr(beside.folder.path() / "a", "ab");
  write_zarr(beside.folder.path() / "short", "a");
  const std::string file = map({{"lost", "\x91" + text("PLACEHOLDER://params.w")},
                                {"a", text("PLACEHOLDER://a")},
                                {"short", text("PLACEHOLDER://short")}});
  const auto opened = beside.open(file);
  REQUIRE_MESSAGE(opened, opened.error().describe());
  CHECK(opened->state().at("lost/0")->kind() == Kind::kPlaceholder);
  CHECK(opened->state().at("a")->kind() == Kind::kTensor);
  CHECK(notes_of(opened->checkpoint()) ==
        "lost/0: this array cannot be read: its file params.w/.zarray is missing\n");
}

TEST_CASE("Nothing is read outside of the folder") {
  const Beside beside;
  write_zarr(beside.folder.path() / "in/checkpoint_1", "ab");
  write_zarr(beside.folder.path() / "out", "ab");
  const std::string outside = (beside.folder.path() / "out").string();
  for (const std::string& name : {"../out"s, outside, "in/../../out"s, "in/./x"s, "in//x"s,
                                  "in\\x"s, "C:x"s, ".."s, "a\nb"s}) {
    CAPTURE(name);
    for (const std::string& beginning : {"PLACEHOLDER://"s, "//GDAPlaceholder:"s}) {
      const auto opened = beside.open(map({{"w", text(beginning + name)}}), "in/file");
      REQUIRE_MESSAGE(opened, opened.error().describe());
      CHECK(opened->state().at("w")->kind() == Kind::kPlaceholder);
      CHECK(notes_of(opened->checkpoint()).find("is no path below the checkpoint's folder") !=
            std::string::npos);
      const auto report = opened->verify();
      REQUIRE(report);
      CHECK(!report->errors.empty());
      CHECK(report->errors.front().path == "w");
    }
  }
  // Nor behind a link.
  std::filesystem::create_symlink(outside, beside.folder.path() / "in/link");
  const auto linked = beside.open(map({{"w", text("PLACEHOLDER://link")}}), "in/file");
  REQUIRE_MESSAGE(linked, linked.error().describe());
  CHECK(linked->state().at("w")->kind() == Kind::kPlaceholder);
}

TEST_CASE("Arrays beside a file count as files") {
  const Beside beside;
  OpenFileOptions options;
  options.limits.files = 4;
  const std::string file = map({{"w", text("PLACEHOLDER://w")}});
  testing::check_error(beside.open(file, "checkpoint", options), ErrorCode::kLimitExceeded, "",
                       "further files and Limits::files allows 4");
}

}  // namespace
}  // namespace espalier
