// A checkpoint whose tensors lie in two files of a folder: all of it can be read, and if the second
// file is missing, cut short or another one, the rest can.
#include "espalier/format/file_set.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/equal.h"
#include "support/memory_file.h"
#include "support/random.h"
#include "support/tables_copy.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_file.h"
#include "espalier/foreign/safetensors/format.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/format/owned_tables.h"
#include "espalier/read/opening_machine.h"
#include "files/open/machine_opening.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kRows = 700;
constexpr std::uint64_t kRowElements = 512;  // 1.4 MiB of f32, so two chunks

Value tensor_of(std::uint64_t seed) {
  testing::Random random(seed);
  Bytes bytes(kRows * kRowElements * 4);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  return Value::tensor(Tensor{.shape = {kRows, kRowElements}, .data = TensorData::owned(bytes)});
}

// Tensors a and c stay in the first file; b and d go to the second one.
Value state() {
  return Value::dict(
      {{"a", tensor_of(1)}, {"b", tensor_of(2)}, {"c", tensor_of(3)}, {"d", tensor_of(4)}});
}

struct TwoFiles {
  OwnedTables tables;
  Hash128 digest;
  Bytes first;
  Bytes second;
};

// The second file has something else before, between and after its tensors.
TwoFiles split(std::uint64_t gap) {
  auto whole = testing::write_file(state());
  REQUIRE(whole);
  const auto checkpoint = testing::open_file(*whole);
  REQUIRE(checkpoint);
  const Catalog& catalog = checkpoint->catalog();
  TwoFiles files{testing::copy_of(catalog.tables()), *catalog.tree_digest(), *whole, {}};
  for (std::uint32_t t = 1; t < 4; t += 2) {
    files.second.resize(files.second.size() + gap, std::byte{0xEE});
    for (std::uint32_t k = 0; k < 2; ++k) {
      ChunkRecord& chunk = files.tables.chunks[2 * t + k];
      const auto* begin = whole->data() + chunk.offset;
      chunk.file = 1;
      chunk.offset = files.second.size();
      files.second.insert(files.second.end(), begin, begin + chunk.stored);
    }
  }
  files.second.resize(files.second.size() + gap, std::byte{0xEE});
  return files;
}

// Opens what split() made. It knows the tables; a real format would read them from the first file.
class TwoFileMachine : public OpeningMachine {
 public:
  TwoFileMachine(const TwoFiles& files, std::string name, std::uint64_t file_size)
      : tables_(files.tables), digest_(files.digest) {
    REQUIRE(wanted_.want({name}));
    files_.push_back({.length = file_size});
    files_.push_back({.name = name, .length = files.second.size()});
  }

  const WantedFiles* wanted_files() const override { return &wanted_; }
  Result<void> answer(std::uint32_t number, const Result<std::uint64_t>& size) override {
    if (auto ok = wanted_.take_answer(number); !ok) return ok;
    FileEntry& file = files_[1];
    if (!size) {
      file.problem = size.error();
    } else if (*size != file.length) {
      file.problem = Error{ErrorCode::kTruncated, *size, {}, "the file is cut short", file.name};
    }
    return {};
  }
  std::span<const Extent> needs() const override { return {}; }
  Result<void> feed(const Extent&, ByteSpan) override { return {}; }
  Result<Checkpoint> finish() override {
    auto catalog = Catalog::from_foreign({.format = &kSafetensorsFormat,
                                          .tables = std::move(tables_),
                                          .files = std::move(files_),
                                          .tree_digest = digest_},
                                         Limits());
    if (!catalog) return propagate(catalog);
    return Checkpoint(std::move(*catalog));
  }

 private:
  OwnedTables tables_;
  Hash128 digest_;
  FileSet files_;
  WantedFiles wanted_{Limits()};
};

Result<CheckpointFile> open(const TwoFiles& files, const fs::path& path, Access access,
                            const std::string& name = "second") {
  return MachineOpening::open(
      path, {.access = access, .threads = 2}, [&](const OpenOptions& options) {
        return std::make_unique<TwoFileMachine>(files, name, options.file_size);
      });
}

TensorRef tensor(const CheckpointFile& file, const char* path) {
  return *file.state().at(path)->tensor();
}

TEST_CASE("Further files come from the function that the caller gives, by name") {
  const TwoFiles files = split(100);
  std::vector<std::string> asked;
  OpenFileOptions options{.sibling = [&](const std::string& name) {
    asked.push_back(name);
    return Result<std::shared_ptr<const Source>>(memory_source(files.second));
  }};
  const auto machine = [&](const std::string& name) {
    return [&files, name](const OpenOptions& opening) {
      return std::make_unique<TwoFileMachine>(files, name, opening.file_size);
    };
  };
  const auto file = MachineOpening::open(memory_source(files.first), options, machine("second"));
  REQUIRE(file);
  CHECK(asked == std::vector<std::string>{"second"});
  const auto loaded = file->load(file->state());
  REQUIRE(loaded);
  CHECK(testing::first_difference(*loaded, state()) == "");
  // No path reaches the function.
  REQUIRE(MachineOpening::open(memory_source(files.first), options, machine("../second")));
  CHECK(asked.size() == 1);
  // Without it, they are missing, and the rest is there.
  const auto alone = MachineOpening::open(memory_source(files.first), {}, machine("second"));
  REQUIRE(alone);
  CHECK(alone->view(tensor(*alone, "a")));
  const auto missing = alone->view(tensor(*alone, "b"));
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kFileMissing);
}

TEST_CASE("A checkpoint in two files lists, reads, slices and verifies") {
  const TemporaryFolder folder;
  for (const std::uint64_t gap : {0u, 100u}) {
    const TwoFiles files = split(gap);
    REQUIRE(testing::write_whole(folder / "first", files.first));
    REQUIRE(testing::write_whole(folder / "second", files.second));
    for (const Access access : {Access::kMapped, Access::kRead}) {
      const auto file = open(files, folder / "first", access);
      REQUIRE(file);
      const auto loaded = file->load(file->state());
      REQUIRE(loaded);
      CHECK(testing::first_difference(*loaded, state()) == "");
      const auto lazy = file->load_lazily(file->state());
      REQUIRE(lazy);
      CHECK(testing::first_difference(*lazy, state()) == "");
      const Slice slices[] = {{1, 699, 7}, {3, 9, 1}};
      for (const char* path : {"a", "b", "d"}) {
        const auto view = file->view(tensor(*file, path));
        REQUIRE(view);
        const auto slice = file->slice(tensor(*file, path), slices);
        REQUIRE(slice);
        const auto bytes = view->bytes();
        const auto sliced = slice->bytes();
        const std::byte* row = bytes.data() + (1 * kRowElements + 3) * 4;
        CHECK(std::equal(row, row + 24, sliced.data()));
        CHECK(slice->shape == std::vector<std::uint64_t>{100, 6});
      }
      const auto report = file->verify();
      REQUIRE(report);
      CHECK(report->error_count == 0);
      CHECK(report->chunks == 8);
      // In place where the files are mapped.
      CHECK((file->source().mapping(1).has_value()) == (access == Access::kMapped));
    }
  }
}

// All of the first file can be read; b gives `code` and names the second file.
void check_rest(const Result<CheckpointFile>& file, ErrorCode code) {
  REQUIRE(file);
  CHECK(file->state().size() == 4);
  CHECK(tensor(*file, "b").shape().size() == 2);
  for (const char* path : {"a", "c"}) CHECK(file->view(tensor(*file, path)));
  const Slice slices[] = {{0, 10, 1}};
  CHECK(file->slice(tensor(*file, "c"), slices));
  CHECK(file->load(*file->state().at("a")));
  const auto check = [&](const auto& failed) {
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code == code);
    CHECK(failed.error().file == "second");
    CHECK(failed.error().path == "b");
    CHECK(failed.error().describe().find("in file second") != std::string::npos);
  };
  check(file->view(tensor(*file, "b")));
  check(file->slice(tensor(*file, "b"), slices));
  check(file->load(file->state()));
  CheckpointFile::ChunkBuffer buffer;
  check(file->read_chunk(tensor(*file, "b"), 0, buffer));
  const auto report = file->verify();
  REQUIRE(report);
  REQUIRE(report->error_count > 0);
  CHECK(report->errors.front().code == code);
  CHECK(report->errors.front().file == "second");
}

TEST_CASE("Without its second file, the rest of a checkpoint can be read") {
  const TemporaryFolder folder;
  const TwoFiles files = split(10);
  REQUIRE(testing::write_whole(folder / "first", files.first));
  for (const Access access : {Access::kMapped, Access::kRead}) {
    fs::remove(folder / "second");
    check_rest(open(files, folder / "first", access), ErrorCode::kFileMissing);
    Bytes other = files.second;
    other.pop_back();
    REQUIRE(testing::write_whole(folder / "second", other));
    check_rest(open(files, folder / "first", access), ErrorCode::kTruncated);
    // Another file of the same length: its bytes do not match the hashes.
    other.push_back(std::byte{0xEE});
    other[20] ^= std::byte{1};
    REQUIRE(testing::write_whole(folder / "second", other));
    check_rest(open(files, folder / "first", access), ErrorCode::kChunkCorrupt);
  }
}

TEST_CASE("A second file is looked for in the folder of the first one alone") {
  const TemporaryFolder folder;
  const TwoFiles files = split(0);
  fs::create_directory(folder / "in");
  REQUIRE(testing::write_whole(folder / "in/first", files.first));
  REQUIRE(testing::write_whole(folder / "second", files.second));
  for (const std::string& name :
       {std::string("../second"), (folder / "second").string(), std::string("."), std::string(".."),
        std::string(), std::string("..\\second"), std::string("c:second")}) {
    CAPTURE(name);
    const auto file = open(files, folder / "in/first", Access::kMapped, name);
    REQUIRE(file);
    const auto view = file->view(tensor(*file, "b"));
    REQUIRE_FALSE(view);
    CHECK(view.error().code == ErrorCode::kFileMissing);
  }
}

}  // namespace
}  // namespace espalier
