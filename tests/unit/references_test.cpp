// Files that refer to chunks of other files: what a save finds there, and what opens again.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/memory_file.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_dir.h"
#include "espalier/checkpoint_file.h"
#include "espalier/format/file_set.h"
#include "espalier/format/file_table.h"
#include "espalier/read/plan.h"
#include "espalier/save.h"
#include "espalier/save_foreign.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::Random;
using testing::read_whole;
using testing::TemporaryFolder;
using testing::write_whole;

constexpr std::uint64_t kMiB = kChunkBytes;

std::vector<std::byte> noise(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

Value f32(std::vector<std::byte> bytes) {
  Tensor tensor;
  tensor.dtype = DType::kF32;
  tensor.shape = {bytes.size() / 4};
  tensor.data = TensorData::owned(std::move(bytes));
  return Value::tensor(std::move(tensor));
}

// A frozen tensor of 2.5 MiB, one of 3 MiB whose middle chunk has `step`, and one that is all new.
Value state_at(std::uint64_t step) {
  auto trained = noise(3 * kMiB, 2);
  trained[kMiB + 5] = static_cast<std::byte>(step);
  return Value::dict({{"frozen", f32(noise(5 * kMiB / 2, 1))},
                      {"trained", f32(std::move(trained))},
                      {"step", Value::integer(static_cast<std::int64_t>(step))},
                      {"fresh", f32(noise(400, 100 + step))}});
}

CheckpointFile open_at(const fs::path& path, const OpenFileOptions& options = {}) {
  auto file = CheckpointFile::open(path, options);
  REQUIRE_MESSAGE(file, file.error().describe());
  return std::move(*file);
}

// That the file at `path` holds `state`, and is intact.
void check_holds(const fs::path& path, const Value& state) {
  const auto whole = save_to_memory(state);
  REQUIRE(whole);
  for (const Access access : {Access::kMapped, Access::kRead}) {
    const CheckpointFile file = open_at(path, {.access = access});
    const auto report = file.verify();
    REQUIRE(report);
    CHECK(report->errors == std::vector<Error>{});
    for (const bool is_lazy : {false, true}) {
      const auto value = is_lazy ? file.load_lazily(file.state()) : file.load(file.state());
      REQUIRE_MESSAGE(value, value.error().describe());
      const auto again = save_to_memory(*value);
      REQUIRE_MESSAGE(again, again.error().describe());
      CHECK(*again == *whole);
    }
  }
}

TEST_CASE("A save against a base writes what changed, and holds the same state") {
  const TemporaryFolder folder;
  for (const int level : {0, 1}) {
    REQUIRE(save(folder / "base.espalier", state_at(1), {.compression_level = level}));
    const CheckpointFile base = open_at(folder / "base.espalier");
    const Value next = state_at(2);
    const auto path = folder / "next.espalier";
    REQUIRE(
        save(path, next,
             {.compression_level = level, .bases = {{&base, "base.espalier"}}, .patches = false}));
    CHECK(fs::file_size(path) < kMiB + 3000);
    check_holds(path, next);
    const CheckpointFile file = open_at(path);
    const auto whole = save_to_memory(next);
    const auto plain = CheckpointFile::open(*whole);
    CHECK(file.checkpoint().catalog().tree_digest() == plain->checkpoint().catalog().tree_digest());
    // Two more, each against the one before: their files are those of both.
    const Value last = state_at(3);
    REQUIRE(
        save(folder / "last.espalier", last,
             {.compression_level = level, .bases = {{&file, "next.espalier"}}, .patches = false}));
    check_holds(folder / "last.espalier", last);
    const CheckpointFile opened = open_at(folder / "last.espalier");
    const auto files = opened.checkpoint().catalog().files();
    REQUIRE(files.size() == 2);
    CHECK(files[1].name == "base.espalier");
  }
}

TEST_CASE("The chunks of a plan are in the order of their files, also in a nested tree") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "base.espalier", state_at(1)));
  const CheckpointFile base = open_at(folder / "base.espalier");
  Value next = state_at(2);
  next.add(Key("x.y"), Value::null());
  REQUIRE(save(folder / "next.espalier", next, {.bases = {{&base, "base.espalier"}}}));
  for (const bool nest : {false, true}) {
    const CheckpointFile file = open_at(folder / "next.espalier", {.nest = nest});
    CHECK(file.checkpoint().catalog().is_nested() == nest);
    const auto plan = ReadPlan::make(*file.state().at("trained")->tensor());
    REQUIRE(plan);
    REQUIRE(plan->chunks().size() == 3);
    CHECK(plan->chunks()[0].begin == kMiB);  // the one that is here
    CHECK(plan->chunks()[0].stored.file == 0);
    CHECK(plan->chunks()[1].begin == 0);
    CHECK(plan->chunks()[2].begin == 2 * kMiB);
  }
}

TEST_CASE("A save of an equal state has no bytes of tensors, and one of another has no files") {
  const TemporaryFolder folder;
  const Value state = state_at(1);
  REQUIRE(save(folder / "base.espalier", state));
  const CheckpointFile base = open_at(folder / "base.espalier");
  const auto path = folder / "equal.espalier";
  REQUIRE(save(path, state, {.bases = {{&base, "base.espalier"}}}));
  const CheckpointFile equal = open_at(path);
  CHECK(equal.checkpoint().catalog().data_begin() == fs::file_size(path));
  check_holds(path, state);
  // What was loaded from the base is known to be equal without reading it.
  const auto lazy = base.contents();
  REQUIRE(lazy);
  REQUIRE(save(path, *lazy, {.bases = {{&base, "base.espalier"}}}));
  check_holds(path, state);

  const Value other = Value::dict({{"frozen", f32(noise(5 * kMiB / 2, 9))},
                                   {"more", f32(noise(5 * kMiB / 2, 8))},
                                   {"step", Value::dict({{"frozen", Value::null()}})}});
  REQUIRE(save(path, other, {.bases = {{&base, "base.espalier"}}}));
  REQUIRE(save(folder / "plain.espalier", other));
  const auto plain = open_source(folder / "plain.espalier");
  const auto written = open_source(path);
  CHECK(std::equal((*plain)->mapping()->begin(), (*plain)->mapping()->end(),
                   (*written)->mapping()->begin(), (*written)->mapping()->end()));
}

TEST_CASE("Tensors that were renamed are found by what they hold") {
  const auto zeros = [] { return f32(std::vector<std::byte>(3 * kMiB / 2)); };
  const Value a = f32(noise(5 * kMiB / 2, 1));
  const Value b = f32(noise(5 * kMiB / 2, 2));
  const Value before = Value::dict({{"a", a}, {"b", b}, {"zeros", zeros()}});
  const Value after = Value::dict(
      {{"model", Value::dict({{"a", b}, {"b", a}})}, {"zeros", zeros()}, {"more", zeros()}});
  const TemporaryFolder folder;
  REQUIRE(save(folder / "base.espalier", before, {.sync = false}));
  const CheckpointFile base = open_at(folder / "base.espalier");
  REQUIRE(
      save(folder / "new.espalier", after, {.sync = false, .bases = {{&base, "base.espalier"}}}));
  CHECK(fs::file_size(folder / "new.espalier") < 2000);
  check_holds(folder / "new.espalier", after);
}

TEST_CASE("Files of other formats are bases too, and can be sealed") {
  const TemporaryFolder folder;
  const Value state =
      Value::dict({{"frozen", f32(noise(5 * kMiB / 2, 1))}, {"small", f32(noise(12, 2))}});
  const auto flat = folder / "model.safetensors";
  REQUIRE(save_safetensors(flat, state));
  const CheckpointFile model = open_at(flat);
  const auto sealed = folder / "model.espalier";
  const auto contents = model.load(model.state());
  REQUIRE(contents);
  REQUIRE(save(sealed, *contents, {.bases = {{&model, "model.safetensors"}}}));
  CHECK(fs::file_size(sealed) < 2000);
  check_holds(sealed, state);
  // A flipped bit shows.
  {
    std::fstream file(flat, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(flat) - kMiB));
    file.put('\x55').put('\x55').put('\x55');
  }
  const auto report = open_at(sealed).verify();
  REQUIRE(report);
  REQUIRE(report->errors.size() == 1);
  CHECK(report->errors.front().code == ErrorCode::kChunkCorrupt);
  CHECK(report->errors.front().file == "model.safetensors");
  CHECK(report->errors.front().path == "frozen");
}

TEST_CASE("A base that is missing, or another, leaves all else readable") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "base.espalier", state_at(1)));
  const CheckpointFile base = open_at(folder / "base.espalier");
  const auto path = folder / "next.espalier";
  REQUIRE(save(path, state_at(2), {.bases = {{&base, "base.espalier"}}}));
  const auto check_lost = [&](ErrorCode code) {
    const CheckpointFile file = open_at(path);
    CHECK(file.state().at("step")->as_int64() == 2);
    CHECK(file.tensor("fresh"));
    const auto frozen = file.tensor("frozen");
    REQUIRE_FALSE(frozen);
    CHECK(to_string(frozen.error().code) == to_string(code));
    CHECK(frozen.error().file == "base.espalier");
    CHECK(frozen.error().path == "frozen");
    const auto report = file.verify();
    REQUIRE(report);
    REQUIRE(report->errors.size() == 1);
    CHECK(to_string(report->errors.front().code) == to_string(code));
    CHECK(report->missing_files == 1);
    CHECK(report->unchecked >= 9 * kMiB / 2);
    CHECK(verdict_name(report->verdict()) == "incomplete");
  };
  // Another state of the same size, one that is longer, none.
  REQUIRE(save(folder / "base.espalier", state_at(7)));
  check_lost(ErrorCode::kBaseMismatch);
  std::ofstream(folder / "base.espalier", std::ios::app) << 'x';
  check_lost(ErrorCode::kBaseMismatch);
  fs::remove(folder / "base.espalier");
  check_lost(ErrorCode::kFileMissing);
  fs::create_directory(folder / "base.espalier");
  check_lost(ErrorCode::kNotARegularFile);
  // Damage is said before what is missing.
  {
    auto bytes = read_whole(path);
    bytes.back() ^= std::byte{1};
    REQUIRE(write_whole(path, bytes));
    const auto report = open_at(path).verify();
    REQUIRE(report);
    CHECK(report->verdict() == VerifyVerdict::kDamaged);
    CHECK(report->missing_files == 1);
    REQUIRE(report->errors.size() == 2);
    CHECK(report->errors[0].code == ErrorCode::kNotARegularFile);
    CHECK(report->errors[1].code == ErrorCode::kChunkCorrupt);
    bytes.back() ^= std::byte{1};
    REQUIRE(write_whole(path, bytes));
  }
  // A reader may say where it is.
  fs::create_directory(folder / "elsewhere");
  REQUIRE(save(folder / "elsewhere" / "kept", state_at(1)));
  const CheckpointFile file = open_at(path, {.sibling = [&](const std::string& name) {
                                        CHECK(name == "base.espalier");
                                        return open_source(folder / "elsewhere" / "kept");
                                      }});
  CHECK(file.verify()->errors.empty());
}

TEST_CASE("A base whose dotted names were nested is a base too, and so is what refers to others") {
  const TemporaryFolder folder;
  const Value flat = Value::dict({{"a.w", f32(noise(4000, 1))}, {"a.b", f32(noise(400, 2))}});
  const Value nested =
      Value::dict({{"a", Value::dict({{"w", f32(noise(4000, 1))}, {"b", f32(noise(400, 2))}})}});
  REQUIRE(save(folder / "one.espalier", flat));
  const CheckpointFile one = open_at(folder / "one.espalier", {.nest = true});
  REQUIRE(save(folder / "two.espalier", nested, {.bases = {{&one, "one.espalier"}}}));
  REQUIRE(save(folder / "flat.espalier", flat, {.bases = {{&one, "one.espalier"}}}));
  check_holds(folder / "two.espalier", nested);
  const CheckpointFile plain = open_at(folder / "one.espalier");
  REQUIRE(save(folder / "flat.espalier", flat, {.bases = {{&plain, "one.espalier"}}}));
  const CheckpointFile again = open_at(folder / "flat.espalier", {.nest = true});
  REQUIRE(save(folder / "three.espalier", nested, {.bases = {{&again, "flat.espalier"}}}));
  check_holds(folder / "three.espalier", nested);
  const CheckpointFile three = open_at(folder / "three.espalier");
  REQUIRE(three.checkpoint().catalog().files().size() == 2);
  CHECK(three.checkpoint().catalog().files()[1].name == "one.espalier");
}

TEST_CASE("A save never replaces a file that it refers to") {
  const TemporaryFolder folder;
  const Value state = state_at(1);
  REQUIRE(save(folder / "base.espalier", state));
  fs::create_symlink("base.espalier", folder / "link.espalier");
  const CheckpointFile base = open_at(folder / "base.espalier");
  for (const char* name : {"base.espalier", "link.espalier"}) {
    CAPTURE(name);
    const auto saved = save(folder / name, state, {.bases = {{&base, "base.espalier"}}});
    REQUIRE_FALSE(saved);
    CHECK(saved.error().code == ErrorCode::kInvalidArgument);
  }
  check_holds(folder / "base.espalier", state);
}

TEST_CASE("A folder of incremental checkpoints keeps what others need, and all of them load") {
  const TemporaryFolder folder;
  SaveOptions no_patches;
  no_patches.patches = false;
  const auto dir =
      CheckpointDir::open(folder / "run", {.keep = Retention{.last = 2}, .incremental = true});
  REQUIRE(dir);
  const auto steps = [&] { return *dir->steps(); };
  std::uint64_t total = 0;
  for (std::uint64_t step = 1; step <= 6; ++step) {
    if (step % 2 == 0) {
      REQUIRE(dir->save(step, state_at(step), no_patches));
    } else {
      REQUIRE(dir->save_async(step, state_at(step), Snapshot::kCopy, no_patches).wait());
    }
    CHECK(dir->problems() == std::vector<Error>{});
    total += fs::file_size(dir->path(step));
    check_holds(dir->path(step), Value(state_at(step)));
  }
  CHECK(total < 12 * kMiB);
  // The first one has the frozen tensor.
  CHECK(steps() == std::vector<std::uint64_t>{1, 5, 6});
  const auto latest = dir->latest();
  REQUIRE(latest);
  CHECK((*latest)->step == 6);
  // It cannot be replaced, and one to which none refers can.
  const auto again = dir->save(1, state_at(1), no_patches);
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::kFileExists);
  CHECK(dir->save(6, state_at(6), no_patches));
  // A file of another name needs a step, too.
  const CheckpointFile five = open_at(dir->path(5));
  REQUIRE(save(folder / "run" / "best.espalier", state_at(5),
               {.bases = {{&five, fs::path(dir->path(5)).filename().string()}}}));
  REQUIRE(dir->save(7, state_at(7), no_patches));
  REQUIRE(dir->save(8, state_at(8), no_patches));
  CHECK(steps() == std::vector<std::uint64_t>{1, 5, 7, 8});
  check_holds(folder / "run" / "best.espalier", state_at(5));
  // Nothing is removed while nobody knows what a file needs.
  fs::resize_file(folder / "run" / "best.espalier",
                  fs::file_size(folder / "run" / "best.espalier") - 1);
  REQUIRE(dir->save(9, state_at(9), no_patches));
  CHECK(steps() == std::vector<std::uint64_t>{1, 5, 7, 8, 9});
  REQUIRE(dir->problems().size() == 1);
  CHECK(dir->problems().front().file == "best.espalier");
  fs::remove(folder / "run" / "best.espalier");
  // What shares nothing with the steps before it lets them go.
  REQUIRE(dir->save(10, Value::dict({{"step", f32(noise(400, 1))}}), no_patches));
  REQUIRE(dir->save(11, Value::dict({{"step", f32(noise(400, 2))}}), no_patches));
  CHECK(steps() == std::vector<std::uint64_t>{10, 11});
}

TEST_CASE("A base that goes during a save of a folder fails the save") {
  bool is_replaced = false;
  SUBCASE("removed") {}
  SUBCASE("replaced") { is_replaced = true; }
  const TemporaryFolder folder;
  const auto dir = CheckpointDir::open(folder / "run", {.incremental = true});
  REQUIRE(dir);
  REQUIRE(dir->save(1, state_at(1)));
  const auto length = fs::file_size(dir->path(1));
  auto state = state_at(2);
  Tensor last;
  last.dtype = DType::kU8;
  last.shape = {100};
  last.data = TensorData::produced([&](std::uint64_t, MutableByteSpan out) -> Result<void> {
    std::fill(out.begin(), out.end(), std::byte{1});
    fs::remove(dir->path(1));
    // Another one of the same length is another one, too.
    if (!is_replaced) return {};
    CHECK(save(dir->path(1), state_at(5),
               {.metadata = Value::dict({{"step", Value::integer(1)}}), .sync = false}));
    CHECK(fs::file_size(dir->path(1)) == length);
    return {};
  });
  state.add(Key("zz"), Value::tensor(std::move(last)));
  const auto saved = dir->save(2, state);
  REQUIRE_FALSE(saved);
  CHECK(saved.error().code == ErrorCode::kFileMissing);
  CHECK_FALSE(fs::exists(dir->path(2)));
}

TEST_CASE("A checkpoint that another one needs through a link stays") {
  const TemporaryFolder folder;
  const auto dir = CheckpointDir::open(folder / "run", {.keep = Retention{.last = 1}});
  REQUIRE(dir);
  REQUIRE(dir->save(1, state_at(1)));
  fs::create_symlink(fs::path(dir->path(1)).filename(), folder / "run/latest.espalier");
  const CheckpointFile base = open_at(folder / "run/latest.espalier");
  REQUIRE(save(folder / "run/other.espalier", state_at(2),
               {.sync = false, .bases = {{&base, "latest.espalier"}}}));
  REQUIRE(dir->save(2, state_at(3)));
  check_holds(folder / "run/other.espalier", state_at(2));
}

TEST_CASE("A base whose name other systems refuse is refused") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "my base.espalier", state_at(1)));
  const CheckpointFile base = open_at(folder / "my base.espalier");
  const auto saved =
      save(folder / "next.espalier", state_at(2), {.bases = {{&base, "my base.espalier"}}});
  REQUIRE_FALSE(saved);
  CHECK(saved.error().code == ErrorCode::kInvalidArgument);
  CHECK(saved.error().file == "my base.espalier");
}

}  // namespace
}  // namespace espalier
