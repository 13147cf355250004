#include "espalier/source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "support/random.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace espalier {
namespace {

using Bytes = std::vector<std::byte>;
using testing::TemporaryFolder;

Bytes contents(std::size_t size) {
  testing::Random random(size);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  return bytes;
}

TEST_CASE("Mapping and reading give the same bytes and the same errors") {
  const TemporaryFolder folder;
  const Bytes bytes = contents(10'000);
  REQUIRE(testing::write_whole(folder / "file", bytes));
  for (const Access access : {Access::kMapped, Access::kRead}) {
    const auto source = open_source(folder / "file", access);
    REQUIRE(source);
    CHECK((*source)->size() == 10'000);
    CHECK((*source)->mapping().has_value() == (access == Access::kMapped));
    Bytes scratch(10'000);
    for (const Extent& extent :
         {Extent{0, 0, 10'000}, Extent{0, 4095, 2}, Extent{0, 9'999, 1}, Extent{0, 10'000, 0}}) {
      (*source)->prefetch(extent);
      (*source)->populate(extent);
      const auto read = (*source)->read(extent, scratch);
      REQUIRE(read);
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(extent.offset);
      const auto length = static_cast<std::ptrdiff_t>(extent.length);
      CHECK(std::equal(read->begin(), read->end(), begin, begin + length));
      Bytes copied(extent.length);
      CHECK((*source)->copy(extent, copied));
      CHECK(std::equal(copied.begin(), copied.end(), begin, begin + length));
      copied.resize(copied.size() + 1);
      CHECK((*source)->copy(extent, copied).error().code == ErrorCode::kInvalidArgument);
    }
    for (const Extent& extent : {Extent{0, 0, 10'001}, Extent{0, 10'001, 0}, Extent{0, 9'999, 2},
                                 Extent{0, ~std::uint64_t{0}, 2}}) {
      (*source)->prefetch(extent);
      (*source)->populate(extent);
      const auto read = (*source)->read(extent, scratch);
      REQUIRE_FALSE(read);
      CHECK(read.error().code == ErrorCode::kTruncated);
      CHECK((*source)->copy(extent, scratch).error().code == ErrorCode::kTruncated);
    }
    const auto other_file = (*source)->read({1, 0, 1}, scratch);
    REQUIRE_FALSE(other_file);
    CHECK(other_file.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("An empty file opens either way") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "empty", {}));
  for (const Access access : {Access::kMapped, Access::kRead}) {
    const auto source = open_source(folder / "empty", access);
    REQUIRE(source);
    CHECK((*source)->size() == 0);
    CHECK((*source)->read({0, 0, 0}, {}));
  }
}

TEST_CASE("A buffer that is too small is an error, not an overflow") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", contents(100)));
  const auto source = open_source(folder / "file", Access::kRead);
  REQUIRE(source);
  Bytes scratch(99);
  const auto read = (*source)->read({0, 0, 100}, scratch);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("Files that are not regular are refused without waiting") {
  const TemporaryFolder folder;
  const auto code = [](const std::filesystem::path& path) {
    const auto source = open_source(path);
    return source ? "opened" : to_string(source.error().code);
  };
  CHECK(code(folder.path()) == "not_a_regular_file");
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(code(folder / "fifo") == "not_a_regular_file");
  CHECK(code("/dev/null") == "not_a_regular_file");
  CHECK(code(folder / "missing") == "file_not_found");
  REQUIRE(testing::write_whole(folder / "file", {}));
  CHECK(code(folder / "file" / "below") == "file_not_found");

  const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(server >= 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = (folder / "socket").string();
  REQUIRE(name.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  CHECK(::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(code(name) == "not_a_regular_file");
  ::close(server);
}

TEST_CASE("A file that is cut while it is read has changed") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", contents(10'000)));
  const auto source = open_source(folder / "file", Access::kRead);
  REQUIRE(source);
  std::filesystem::resize_file(folder / "file", 5'000);
  Bytes scratch(10'000);
  const auto read = (*source)->read({0, 4'000, 2'000}, scratch);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::kFileChanged);
  CHECK(read.error().offset == 5'000);
  CHECK((*source)->read({0, 0, 5'000}, scratch));
}

TEST_CASE("A mapped file that is cut is an error of a copy, not of the process") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", contents(100'000)));
  const auto source = open_source(folder / "file", Access::kMapped);
  REQUIRE(source);
  std::filesystem::resize_file(folder / "file", 5'000);
  Bytes copied(50'000);
  const auto result = (*source)->copy({0, 50'000, 50'000}, copied);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::kFileChanged);
}

}  // namespace
}  // namespace espalier
