// Reads tell their progress, and can be given up.
#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_dir.h"
#include "espalier/checkpoint_file.h"
#include "espalier/save.h"

namespace espalier {
namespace {

using testing::check_error;
using testing::TemporaryFolder;

constexpr std::uint64_t kBytes = 6'000'000;

Value state() {
  testing::Random random(1);
  std::vector<std::uint8_t> elements(kBytes);
  for (std::uint8_t& element : elements) element = static_cast<std::uint8_t>(random.bits() % 8);
  return Value::dict({{"a", Value::tensor(std::move(elements), {kBytes / 2, 2})},
                      {"b", Value::tensor(std::vector<std::uint8_t>(100, 1), {100})}});
}

using Reader = std::function<Result<void>(const CheckpointFile&, const ReadOptions&)>;

template <class T>
Result<void> only_error(const Result<T>& result) {
  if (!result) return propagate(result);
  return {};
}

std::vector<std::pair<std::string, Reader>> readers() {
  const auto tensor = [](const CheckpointFile& file) { return *file.state().at("a")->tensor(); };
  return {
      {"view",
       [=](const auto& file, const auto& how) { return only_error(file.view(tensor(file), how)); }},
      {"tensor",
       [=](const auto& file, const auto& how) { return only_error(file.tensor("a", how)); }},
      {"slice",
       [=](const auto& file, const auto& how) {
         return only_error(file.slice(tensor(file), std::array{Slice{.step = 2}}, how));
       }},
      {"read_into",
       [=](const auto& file, const auto& how) {
         std::vector<std::byte> out(kBytes);
         return file.read_into(tensor(file), {}, out, how);
       }},
      {"load_into",
       [=](const auto& file, const auto& how) {
         std::vector<std::uint8_t> out(kBytes);
         return file.load_into({{"a", out}}, how);
       }},
      {"load",
       [=](const auto& file, const auto& how) { return only_error(file.load(file.state(), how)); }},
      {"load_writable",
       [=](const auto& file, const auto& how) {
         const NodeRef root = file.state();
         return only_error(file.load_writable(std::span(&root, 1), how));
       }},
      {"verify", [=](const auto& file, const auto& how) { return only_error(file.verify(how)); }},
  };
}

// Calls `check` for each way to read, of files that are mapped, read and compressed.
void for_each_read(const std::function<void(const CheckpointFile&, const Reader&)>& check) {
  const TemporaryFolder folder;
  for (const int level : {0, 1}) {
    REQUIRE(save(folder / "file", state(), {.sync = false, .compression_level = level}));
    for (const Access access : {Access::kMapped, Access::kRead}) {
      const auto file = CheckpointFile::open(folder / "file", {.access = access, .threads = 1});
      REQUIRE(file);
      for (const auto& reader : readers()) {
        CAPTURE(level);
        CAPTURE(static_cast<int>(access));
        CAPTURE(reader.first);
        check(*file, reader.second);
      }
    }
  }
}

TEST_CASE("Every read tells how many of its bytes are done, to the last") {
  for_each_read([](const CheckpointFile& file, const Reader& read) {
    std::uint64_t last = 0;
    std::uint64_t most = 0;
    int calls = 0;
    const auto tell = [&](std::uint64_t done, std::uint64_t total) {
      CHECK(done > last);
      if (calls++ > 0) CHECK(total == most);
      last = done;
      most = total;
    };
    REQUIRE(read(file, {.progress = tell}));
    CHECK(calls >= 3);
    CHECK(last == most);
    CHECK(last >= file.state().at("a")->tensor()->stored_bytes());
  });
}

TEST_CASE("Every read is given up before its next chunk") {
  for_each_read([](const CheckpointFile& file, const Reader& read) {
    std::atomic<bool> cancel = false;
    int calls = 0;
    const auto stop = [&](std::uint64_t, std::uint64_t) {
      if (++calls == 2) cancel = true;
    };
    check_error(read(file, {.progress = stop, .cancel = &cancel}), ErrorCode::kCancelled, "",
                "the read was cancelled");
    CHECK(calls == 2);
    check_error(read(file, {.cancel = &cancel}), ErrorCode::kCancelled, "", "cancelled");
    cancel = false;
    CHECK(read(file, {.cancel = &cancel}));
  });
}

TEST_CASE("What reads no byte is not given up") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "file", state(), {.sync = false}));
  const auto file = CheckpointFile::open(folder / "file");
  REQUIRE(file);
  const std::atomic<bool> cancel = true;
  const auto tell = [](std::uint64_t, std::uint64_t) { FAIL("nothing is read"); };
  CHECK(file->load(file->state(), {.check = Check::kNothing, .progress = tell, .cancel = &cancel}));
}

TEST_CASE("A search for the latest checkpoint that is given up takes no older one") {
  const TemporaryFolder folder;
  const auto dir = CheckpointDir::open(folder.path());
  REQUIRE(dir);
  for (const std::uint64_t step : {1u, 2u}) REQUIRE(dir->save(step, state(), {.sync = false}));
  std::atomic<bool> cancel = false;
  int calls = 0;
  const auto stop = [&](std::uint64_t, std::uint64_t) {
    ++calls;
    cancel = true;
  };
  const auto latest = dir->latest({.progress = stop, .cancel = &cancel});
  check_error(latest, ErrorCode::kCancelled, "", "cancelled");
  CHECK(latest.error().message.find("none of") == std::string::npos);
  CHECK(calls > 0);
  cancel = false;
  CHECK((*dir->latest({.cancel = &cancel}))->step == 2);
}

}  // namespace
}  // namespace espalier
