// HDF5 files: what is asked for and when, chunks that are made in pieces, and what is refused of a
// file that can be bad in many ways. tests/foreign/hdf5 compares real files, and tests/corrupt has
// the hostile ones.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/feed.h"
#include <doctest/doctest.h>

#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/hdf5/checksums.h"
#include "espalier/foreign/hdf5/chunk_filters.h"
#include "espalier/foreign/hdf5/dataset.h"
#include "espalier/foreign/hdf5/format.h"
#include "espalier/foreign/hdf5/opener.h"
#include "espalier/format/file_maker.h"
#include "espalier/format/file_set.h"
#include "espalier/notes.h"

namespace espalier {
namespace {

template <class T>
std::string number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string zeros(std::size_t count) { return std::string(count, '\0'); }

std::string message(std::uint16_t type, std::string body) {
  body.resize((body.size() + 7) / 8 * 8);
  return number(type) + number(static_cast<std::uint16_t>(body.size())) + zeros(4) + body;
}

std::string header(const std::string& messages) {
  return std::string("\1\0", 2) + number(std::uint16_t{1}) + number(std::uint32_t{1}) +
         number(static_cast<std::uint32_t>(messages.size())) + zeros(4) + messages;
}

std::string link(std::string_view name, std::uint64_t address) {
  return message(6, std::string("\1\0", 2) + number(static_cast<std::uint8_t>(name.size())) +
                        std::string(name) + number(address));
}

std::string f32() {
  return message(3, std::string("\x11\x20\x1F\0", 4) + number(std::uint32_t{4}) +
                        number(std::uint16_t{0}) + number(std::uint16_t{32}) +
                        std::string("\x17\x08\0\x17", 4) + number(std::uint32_t{127}));
}

std::string space(std::uint64_t elements) {
  return message(1, std::string("\1\1\0", 3) + zeros(5) + number(elements));
}

std::string contiguous(std::uint64_t address, std::uint64_t bytes) {
  return message(8, std::string("\3\1", 2) + number(address) + number(bytes));
}

// A file of version 0, with its root at 96 and further structures in their places.
std::string file_of(const std::string& root, const std::map<std::uint64_t, std::string>& others,
                    std::uint64_t size) {
  std::string file = "\x89HDF\r\n\x1A\n";
  file += zeros(5) + std::string("\x08\x08\0\x04\0\x10\0", 7) + zeros(4) + number(std::uint64_t{0});
  file += number(~std::uint64_t{0}) + number(size) + number(~std::uint64_t{0});
  file += number(std::uint64_t{0}) + number(std::uint64_t{96}) + zeros(24);
  REQUIRE(file.size() == 96);
  file += root;
  file.resize(static_cast<std::size_t>(size));
  for (const auto& [at, bytes] : others)
    file.replace(static_cast<std::size_t>(at), bytes.size(), bytes);
  return file;
}

TEST_CASE("hdf5: opening reads the structures of all siblings at once, and no elements") {
  constexpr std::uint64_t kApart = 128 * 1024;
  constexpr std::uint64_t kArrays = 20;
  std::string links;
  std::map<std::uint64_t, std::string> arrays;
  for (std::uint64_t i = 1; i <= kArrays; ++i) {
    links += link("array" + std::to_string(i), i * kApart);
    arrays[i * kApart] =
        header(f32() + space(kApart / 16) + contiguous(i * kApart + 1024, kApart / 4));
  }
  const std::string file = file_of(header(links), arrays, (kArrays + 1) * kApart);
  Hdf5Opener opener({.file_size = file.size()});
  std::uint64_t asked = 0;
  unsigned rounds = 0;
  while (!opener.needs().empty()) {
    ++rounds;
    const std::vector<Extent> needs(opener.needs().begin(), opener.needs().end());
    for (const Extent& need : needs) {
      asked += need.length;
      REQUIRE(opener.feed(need, testing::bytes_at(as_bytes(file), need)));
    }
  }
  const auto checkpoint = opener.finish();
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  CHECK(checkpoint->tensor_count() == kArrays);
  CHECK(rounds == 2);
  CHECK(asked < kFirstReadBytes + kArrays * 1024);
}

TEST_CASE("hdf5: chunks are made from pieces of any size, and what was never written is filled") {
  // Seven elements in chunks of two; the second chunk is not there, and the last one reaches
  // beyond.
  const std::string fill =
      message(5, std::string("\2\2\2\1", 4) + number(std::uint32_t{4}) + number(9.0f));
  const std::string chunked = message(8, std::string("\3\2\2", 3) + number(std::uint64_t{1024}) +
                                             number(std::uint32_t{2}) + number(std::uint32_t{4}));
  const auto entry = [](std::uint64_t offset, std::uint64_t address) {
    return number(std::uint32_t{8}) + number(std::uint32_t{0}) + number(offset) +
           number(std::uint64_t{0}) + number(address);
  };
  const std::string tree = std::string("TREE\1\0\3\0", 8) + number(~std::uint64_t{0}) +
                           number(~std::uint64_t{0}) + entry(0, 2048) + entry(4, 2064) +
                           entry(6, 2056) + zeros(24);
  const std::string file = file_of(header(link("a", 512)),
                                   {{512, header(f32() + space(7) + fill + chunked)},
                                    {1024, tree},
                                    {2048, number(1.0f) + number(2.0f) + number(7.0f) +
                                               number(8.0f) + number(5.0f) + number(6.0f)}},
                                   4096);
  Hdf5Opener opener({.file_size = file.size()});
  REQUIRE(testing::feed_whole(opener, as_bytes(file)));
  const auto checkpoint = opener.finish();
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  const FileSet files(checkpoint->catalog().files().begin(), checkpoint->catalog().files().end());
  REQUIRE(files.size() == 2);
  CHECK(files[1].name == "/a");
  REQUIRE(files[1].length == 28);
  for (const std::uint64_t step : {std::uint64_t{1}, std::uint64_t{3}, ~std::uint64_t{0}}) {
    CAPTURE(step);
    std::vector<float> made(7);
    const auto machine = files[1].maker->start(std::as_writable_bytes(std::span(made)));
    CHECK(machine->finish().error().code == ErrorCode::kIncomplete);
    REQUIRE(testing::feed_steps(*machine, as_bytes(file), step));
    REQUIRE(machine->finish());
    CHECK(made == std::vector<float>{1, 2, 9, 9, 5, 6, 7});
  }
}

TEST_CASE("hdf5: a structure beyond the limit is refused before memory is taken") {
  // The second part of the root claims all of a file of 64 MiB.
  constexpr std::uint64_t kSize = std::uint64_t{64} << 20;
  const std::string root =
      header(link("a", 512) + message(16, number(std::uint64_t{4096}) + number(kSize - 4096)));
  const std::string file = file_of(root, {}, kSize);
  Limits limits;
  limits.foreign_header_bytes = 1 << 20;
  Hdf5Opener opener({.file_size = file.size(), .limits = limits});
  const auto fed = testing::feed_steps(opener, as_bytes(file), 1 << 16);
  REQUIRE(!fed);
  CHECK(fed.error().code == ErrorCode::kLimitExceeded);
  CHECK(fed.error().message.find("Limits::foreign_header_bytes") != std::string::npos);
}

TEST_CASE(
    "hdf5: parts that are shared by many objects take as long as the file is large, and no "
    "longer") {
  // 1,000 objects, each with a chain of the same 1,000 parts: a million parts in 40 KB.
  constexpr std::uint64_t kMany = 1000;
  constexpr std::uint64_t kHeaders = 65536;
  constexpr std::uint64_t kParts = kHeaders + kMany * 64;
  const auto part = [](std::uint64_t i) {
    return message(16, number(kParts + i * 4096) + number(std::uint64_t{4096}));
  };
  std::string links;
  std::map<std::uint64_t, std::string> others;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    links += link("a" + std::to_string(i), kHeaders + i * 64);
    others[kHeaders + i * 64] = header(part(0));
    others[kParts + i * 4096] = part(i + 1);
  }
  const std::string file = file_of(header(links), others, kParts + (kMany + 2) * 4096);
  Hdf5Opener opener({.file_size = file.size()});
  const auto fed = testing::feed_steps(opener, as_bytes(file), ~std::uint64_t{0});
  REQUIRE(!fed);
  CHECK(fed.error().code == ErrorCode::kLimitExceeded);
  CHECK(fed.error().message.find("refer to each other so often") != std::string::npos);
}

TEST_CASE("hdf5: checksums") {
  // The first one is of lookup3.c itself.
  CHECK(lookup3(as_bytes("Four score and seven years ago")) == 0x17770551);
  CHECK(lookup3({}) == 0xDEADBEEF);
  CHECK(fletcher32({}) == 0);
  CHECK(fletcher32(as_bytes(std::string_view("\1\2\3\4", 4))) == 0x05080406);
  CHECK(fletcher32(as_bytes(std::string_view("\1\2\3", 3))) == 0x05040402);
}

TEST_CASE("hdf5: shuffled elements of every width, and a rest that is none") {
  for (const std::uint32_t width : {1u, 2u, 3u, 4u, 7u, 8u, 16u}) {
    CAPTURE(width);
    constexpr std::size_t kElements = 37;
    std::string elements;
    for (std::size_t i = 0; i < width * kElements + width / 2; ++i) {
      elements.push_back(static_cast<char>(7 * i));
    }
    std::string shuffled;
    for (std::size_t k = 0; k < width; ++k) {
      for (std::size_t i = 0; i < kElements; ++i) shuffled.push_back(elements[i * width + k]);
    }
    shuffled += elements.substr(shuffled.size());
    const Hdf5Filter filter{.id = kHdf5Shuffle, .values = {width}};
    Hdf5ChunkFilters filters;
    const auto undone = filters.undo({&filter, 1}, 0, as_bytes(shuffled), shuffled.size(), 0);
    REQUIRE(undone);
    CHECK(as_text(*undone) == elements);
  }
}

TEST_CASE("hdf5: a chunk that claims more than deflate can make takes no memory for it") {
  const Hdf5Filter filter{.id = kHdf5Deflate, .values = {6}};
  Hdf5ChunkFilters filters;
  const auto undone = filters.undo({&filter, 1}, 0, as_bytes("garbage"), std::uint64_t{1} << 50, 0);
  REQUIRE_FALSE(undone);
  CHECK(undone.error().code == ErrorCode::kForeignInvalid);
}

TEST_CASE(
    "hdf5: the signature is found behind blocks of the user's, in places that are powers of two") {
  const std::string signature = "\x89HDF\r\n\x1A\n";
  for (const std::size_t at : {0u, 512u, 1024u, 32768u}) {
    CAPTURE(at);
    CHECK(looks_like_hdf5(as_bytes(std::string(at, 'u') + signature), 1 << 20));
  }
  for (const std::size_t at : {1u, 256u, 513u, 1536u}) {
    CAPTURE(at);
    CHECK_FALSE(looks_like_hdf5(as_bytes(std::string(at, 'u') + signature), 1 << 20));
  }
}

}  // namespace
}  // namespace espalier
